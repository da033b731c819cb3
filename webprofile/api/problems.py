"""Problem details (RFC 9457) for every error: a stable code and a translated message."""

import math
from http import HTTPStatus
from typing import Any

import structlog
from django.conf import settings
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.core.signals import got_request_exception
from django.http import Http404, HttpRequest, JsonResponse
from django.utils.translation import gettext_lazy as _
from rest_framework import exceptions

from webprofile.errors import DomainError
from webprofile.fields import QueryInvalid
from webprofile.messages.errors import word
from webprofile.outages import logged_outage

log = structlog.get_logger()

MEDIA_TYPE = "application/problem+json"
TITLES: dict[int, Any] = {
    400: _("Malformed request"),
    401: _("Not authenticated"),
    403: _("Not allowed"),
    404: _("Not found"),
    405: _("Method not allowed"),
    406: _("Not acceptable"),
    409: _("Conflict with the current state"),
    410: _("Removed"),
    413: _("Too large"),
    415: _("Unsupported media type"),
    422: _("Invalid request"),
    429: _("Too many requests"),
    500: _("Something went wrong"),
    503: _("Temporarily unavailable"),
}
#: error codes by status, for exceptions that carry no code of this site
CODES = {
    400: "malformed",
    401: "not_authenticated",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    413: "body_too_large",
    415: "media_type_unknown",
    422: "invalid",
    429: "throttled",
    500: "server_error",
}
#: codes of this site that authentication and permission classes raise as DRF exceptions
_OWN = {"token_invalid", "csrf_failed", "token_not_here"}
#: codes of simplejwt and DRF that all become `token_invalid`, so that the cause is not disclosed
_OF_TOKENS = {
    "authentication_failed", "token_not_valid", "user_not_found", "user_inactive",
    "password_changed", "bad_authorization_header",
}  # fmt: skip


def problem(
    error: DomainError,
    *,
    errors: list[dict[str, str]] | None = None,
    headers: dict[str, str] | None = None,
) -> JsonResponse:
    """Return the response for an error.

    errors: problems of single fields, in the shape of `schema.FieldProblem`; the whole body has the
        shape of `schema.Problem`
    """
    body = {
        "type": f"{settings.SITE_URL}/api/v1/problems/{error.code}/",
        "title": str(TITLES.get(error.status, HTTPStatus(error.status).phrase)),
        "status": error.status,
        "detail": word(error),
        "code": error.code,
        "field": error.field,
        "errors": errors or [],
    }
    headers = {**(headers or {}), **retry_headers(error)}
    return JsonResponse(body, status=error.status, headers=headers, content_type=MEDIA_TYPE)


def retry_headers(error: DomainError) -> dict[str, str]:
    """Return the header that tells when to try again, if the error knows."""
    if error.status == 429 and "wait_s" in error.data:
        return {"Retry-After": str(error.data["wait_s"])}
    return {}


def exception_handler(error: Exception, context: dict[str, Any]) -> JsonResponse:
    """Convert any exception of a view to problem details; log an unexpected one as a bug."""
    match error:
        case DomainError():
            return problem(error)
        case Http404():
            return problem(DomainError("not_found", status=404))
        case PermissionDenied():
            return problem(DomainError("forbidden", status=403))
        case RequestDataTooBig():
            return problem(too_large())
        case SuspiciousOperation():
            return problem(DomainError("malformed", status=400))
        case QueryInvalid():
            invalid = DomainError("query_invalid", status=400)
            return problem(invalid, errors=flattened(error.detail))
        case exceptions.ValidationError():
            invalid = DomainError("invalid", status=422)
            return problem(invalid, errors=flattened(error.detail))
        case exceptions.APIException():
            challenge = getattr(error, "auth_header", None)
            headers = {"WWW-Authenticate": challenge} if challenge else {}
            return problem(_known(error), headers=headers)
    if outage := logged_outage(error):
        return problem(outage)
    request = context.get("request")
    log.exception("api_failed", path=request.path if request else "")
    got_request_exception.send(sender=None, request=request)
    return problem(DomainError("server_error", status=500))


def too_large() -> DomainError:
    limit_kib = settings.DATA_UPLOAD_MAX_MEMORY_SIZE // 1024
    return DomainError("body_too_large", status=413, limit_kib=limit_kib)


def is_api(request: HttpRequest) -> bool:
    """Whether the path belongs to the API, so that errors outside a view become problem details."""
    return request.path.startswith("/api/v1/")


def _known(error: exceptions.APIException) -> DomainError:
    """Convert an exception of DRF or simplejwt to a DomainError."""
    status = error.status_code
    if isinstance(error, exceptions.Throttled):
        wait_s = max(1, math.ceil(getattr(error, "wait", None) or 1))
        return DomainError("throttled", status=status, wait_s=wait_s)
    code = error.get_codes()
    # simplejwt returns a structure of several codes
    if not isinstance(code, str) or code in _OF_TOKENS:
        return DomainError("token_invalid", status=status)
    return DomainError(code if code in _OWN else CODES.get(status, "malformed"), status=status)


def flattened(detail: Any, path: str = "") -> list[dict[str, str]]:
    """Flatten DRF details: [{"field": "files.0.md5", "code": "required", "detail": text}]."""
    if isinstance(detail, dict):
        children = [(str(key), value) for key, value in detail.items()]
    elif isinstance(detail, list) and any(isinstance(item, dict | list) for item in detail):
        children = [(str(index), value) for index, value in enumerate(detail)]
    else:
        items = detail if isinstance(detail, list) else [detail]
        return [
            {"field": path, "code": str(getattr(item, "code", "invalid")), "detail": str(item)}
            for item in items
        ]
    errors = []
    for key, value in children:
        name = path if key == "non_field_errors" else f"{path}.{key}".strip(".")
        errors += flattened(value, name)
    return errors
