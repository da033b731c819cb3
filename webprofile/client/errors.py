"""Exceptions of the client with their exit codes."""

from typing import Any

from webprofile.terminal.exit_codes import FAILED, REFUSED, USAGE


class ClientError(Exception):
    """An error that is printed to stderr in one sentence; the program ends with `exit_code`."""

    exit_code = FAILED


class UsageError(ClientError):
    """The arguments are invalid."""

    exit_code = USAGE


class UnreachableError(ClientError):
    """The site or its storage does not respond, even after retries."""

    exit_code = REFUSED


class ProblemError(ClientError):
    """An error response of the site (RFC 9457).

    code: stable error code
    errors: problems of single fields
    """

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        self.status = status
        self.code = str(body.get("code", ""))
        self.field = str(body.get("field", ""))
        self.errors: list[dict[str, str]] = body.get("errors") or []
        detail = str(body.get("detail") or body.get("title") or f"HTTP {status}")
        self.detail = detail
        parts = [f"{item.get('field', '')}: {item.get('detail', '')}" for item in self.errors]
        super().__init__("\n".join([detail, *parts]))

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        if self.status in {401, 403, 429} or self.status >= 500:
            return REFUSED
        return USAGE if self.status in {400, 404, 413, 422} else FAILED
