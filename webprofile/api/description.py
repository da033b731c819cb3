"""Texts of the OpenAPI schema."""

DESCRIPTION = """\
What the pages of this site do with tasks, devices and profiles, for programs. Administration and
the settings of one's own account have pages alone.

**Who asks.** `Authorization: Bearer <token>` with an access token (`mwp_...`, made on the profile
page or by `POST /api/v1/access-tokens/`; it has scopes and expires) or with the `access` part of a
pair from `POST /api/v1/auth/token/`. A page's session works too; what changes something then needs
the header `X-CSRFToken`. What one may not see does not exist: the answer is 404.

**Errors** are problem details (RFC 9457, `application/problem+json`). `code` is stable, texts come
in the language of `Accept-Language` (English or Chinese). `/api/v1/problems/` lists all codes.

**Lists** come in pages, the newest row first: `next` and `previous` are addresses, or null at the
ends. A filter or value that is not known is refused.

**Units** are part of names: `_s` seconds, `_ms` milliseconds, `_bytes` bytes. Times (`_at`) are
ISO 8601 in UTC. Fields of answers may be added; a program should pass over what it does not know.

**Twice is once.** With the header `Idempotency-Key` a request that makes a task may be repeated:
the same key with the same request answers with the same task.

**Limits.** A body has at most 256 KiB; files never come through here, they are uploaded to
presigned addresses. Too many requests are answered with 429 and `Retry-After` (seconds).
"""

TAGS = {
    "auth": "Log in, stay logged in, log out.",
    "me": "Who asks.",
    "access-tokens": "Tokens for scripts.",
    "tasks": "Ask for a profile, upload, follow, fetch what it left.",
    "workers": "Devices, their MegEngine versions and options.",
    "pools": "Devices under one name.",
    "options": "Options of load_and_run.",
    "profiles": "Results: operators, statistics, graphs, comparisons, exports.",
    "problems": "What the codes of errors mean.",
}

#: descriptions of path parameters, by the path segment before the parameter and its name
PATH_PARAMETERS = {
    "artifacts/{name}": "The file's name, such as `profile.json`.",
    "attempts/{number}": "Number of the attempt, from 1.",
    "export/{name}": "The format, as the profile's `exports` lists; of a comparison csv or json.",
    "files/{file_id}": "Number of the file.",
    "files/{number}": "Number of the file, from 1.",
    "of-task/{task_id}": "Number of the task.",
    "opened/{upload_id}": "Number of the opened profile.",
    "problems/{code}": "The code, as in `code` of an error.",
    "profiles/{profile_id}": "Number of the profile.",
    "raw/{number}": "Number of the pass, from 1.",
    "runtimes/{version}": "Version of MegEngine.",
    "tasks/{task_id}": "Number of the task.",
    "views/{view_id}": "Number of the saved view.",
    "webhooks/{webhook_id}": "Number of the webhook.",
    "workers/{name}": "Name of the device.",
}
#: default descriptions of responses by status
ANSWERS = {"200": "What was asked for.", "201": "What was made."}
