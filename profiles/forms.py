"""What a browser or script sends to open a profile: shape and types.

The rules are in `profiles.opened.uploads`.
"""

from pydantic import (
    Base64Bytes,
    BaseModel,
    ConfigDict,
    Field,
    StrictInt,
    StrictStr,
    ValidationError,
)

from profiles.opened.uploads import FileToOpen
from profiles.parsers.first_look import HEAD_BYTES
from webprofile.errors import DomainError


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class OpenedFileBody(_Body):
    """A file to be uploaded; `head` are its first bytes in base64."""

    name: StrictStr
    size_bytes: StrictInt
    md5: StrictStr = ""
    head: Base64Bytes = Field(default=b"", max_length=2 * HEAD_BYTES)

    def as_file(self) -> FileToOpen:
        return FileToOpen(self.name, self.size_bytes, self.md5, self.head)


class OpenBody(_Body):
    """{"name": text, "files": [{"name", "size_bytes", "md5", "head"}]}, files in order of passes"""

    name: StrictStr = Field(default="", max_length=1_000)
    files: list[OpenedFileBody] = Field(max_length=100)


def read_open_body(body: bytes) -> OpenBody:
    """Parse the request. Raises DomainError bad_request."""
    try:
        # pydantic's own reader refuses halves of characters (\ud800), which no database stores
        return OpenBody.model_validate_json(body)
    except (ValidationError, ValueError, RecursionError) as error:
        raise DomainError("bad_request", status=400) from error
