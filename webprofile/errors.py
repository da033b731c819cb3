"""Errors that a caller is meant to show. Anything else is a bug and keeps its traceback."""

from typing import Any


class DomainError(Exception):
    """A request that cannot be met.

    `code` is stable and goes over wires; the edge turns it into the reader's words
    (`webprofile.messages.errors`), into which `data` is filled. `field` names the form field at
    fault.
    """

    def __init__(self, code: str, *, field: str = "", status: int = 422, **data: Any) -> None:
        self.code, self.field, self.status, self.data = code, field, status, data
        super().__init__(code if not data else f"{code} {data}")
