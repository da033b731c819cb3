"""Texts of the OpenAPI schema."""

DESCRIPTION = """\
With the API, programs can do what users do with tasks, devices and profiles on the pages of this
site. Administration and account settings are only available on the pages.

**Authentication.** Send `Authorization: Bearer <token>` with an access token (`mwp_...`, created on
the profile page or by `POST /api/v1/access-tokens/`; it has scopes and expires) or with the
`access` part of a pair from `POST /api/v1/auth/token/`. The session of a page works, too; requests
that change data then need the header `X-CSRFToken`. The response is 404 if an object does not exist
or the user has no access to it.

**Errors** are problem details (RFC 9457, `application/problem+json`). `code` is stable. Texts are
in English or Chinese: the language that the user of the session chose, otherwise that of the
language cookie or of `Accept-Language`. `/api/v1/problems/` lists all codes.

**Lists** are paginated, the newest row first: `next` and `previous` are URLs, or null at the ends.
Unknown filters and invalid values are rejected.

**Units** are part of the names: `_s` seconds, `_ms` milliseconds, `_bytes` bytes. Times (`_at`) are
ISO 8601 in UTC. New fields may be added to responses; clients should ignore unknown fields.

**Idempotency.** A request that creates a task can be repeated with the header `Idempotency-Key`:
the same key with the same request returns the same task.

**Limits.** The body of a request can have at most 256 KiB; files are uploaded to presigned URLs. If
a rate limit is exceeded, the response is 429 with `Retry-After` (seconds).
"""

TAGS = {
    "auth": "Obtain, refresh and revoke token pairs.",
    "me": "The current user.",
    "access-tokens": "Tokens for scripts.",
    "tasks": "Create tasks, upload files, follow the state, download artifacts.",
    "workers": "Devices, their MegEngine versions and options.",
    "pools": "Named groups of devices.",
    "options": "Options of load_and_run.",
    "profiles": "Results: operators, statistics, graphs, comparisons, exports.",
    "shares": "Share links to results.",
    "problems": "Explanations of error codes.",
}

#: descriptions of path parameters, by the path segment before the parameter and its name
PATH_PARAMETERS = {
    "artifacts/{name}": "The file's name, such as `profile.json`.",
    "attempts/{number}": "Number of the attempt, from 1.",
    "export/{name}": "The format, as the profile's `exports` lists; of a comparison csv or json.",
    "files/{file_id}": "Number of the file.",
    "files/{number}": "Number of the file, from 1.",
    "of-task/{task_id}": "Number of the task.",
    "opened/{upload_id}": "Number of the imported profile.",
    "problems/{code}": "The code, as in `code` of an error.",
    "profiles/{profile_id}": "Number of the profile.",
    "raw/{number}": "Number of the pass, from 1.",
    "runtimes/{version}": "Version of MegEngine.",
    "shares/{share_id}": "Number of the share link.",
    "tasks/{task_id}": "Number of the task.",
    "views/{view_id}": "Number of the saved view.",
    "option-presets/{preset_id}": "The number of the preset.",
    "webhooks/{webhook_id}": "Number of the webhook.",
    "workers/{name}": "Name of the device.",
}
#: default descriptions of responses by status
ANSWERS = {"200": "The requested data.", "201": "The created object."}
