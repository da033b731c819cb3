"""Expected errors, which are shown to users. Any other exception is a bug."""

from typing import Any


class DomainError(Exception):
    """A request that cannot be fulfilled.

    code: stable identifier, also in API responses; views translate it to a message
        (`webprofile.messages.errors`)
    field: name of the invalid form field, if any
    status: HTTP status of the response
    data: values that are filled into the message
    """

    def __init__(self, code: str, *, field: str = "", status: int = 422, **data: Any) -> None:
        self.code, self.field, self.status, self.data = code, field, status, data
        super().__init__(code if not data else f"{code} {data}")
