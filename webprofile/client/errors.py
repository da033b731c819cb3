"""What ends the client otherwise than well, with the exit code that it means."""

from typing import Any

from webprofile.terminal.exit_codes import FAILED, REFUSED, USAGE


class ClientError(Exception):
    """Told on standard error in one sentence; `exit_code` is the program's."""

    exit_code = FAILED


class UsageError(ClientError):
    """What was asked for makes no sense."""

    exit_code = USAGE


class UnreachableError(ClientError):
    """The site or its storage does not answer, also after patience."""

    exit_code = REFUSED


class ProblemError(ClientError):
    """The site's own answer (RFC 9457): `code` is stable, `errors` those of single fields."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        self.status = status
        self.code = str(body.get("code", ""))
        self.field = str(body.get("field", ""))
        self.errors: list[dict[str, str]] = body.get("errors") or []
        detail = str(body.get("detail") or body.get("title") or f"HTTP {status}")
        self.detail = detail
        parts = [f"{each.get('field', '')}: {each.get('detail', '')}" for each in self.errors]
        super().__init__("\n".join([detail, *parts]))

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        if self.status in {401, 403, 429} or self.status >= 500:
            return REFUSED
        return USAGE if self.status in {400, 404, 413, 422} else FAILED
