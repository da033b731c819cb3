"""What comes in about opened profiles: shape and types. The rules are in `opened.uploads`."""

import base64
import binascii
from typing import Any

from agent.protocol.parts import MIB, PART_BYTES
from profiles.opened.uploads import FILES_LIMIT, FileToOpen
from profiles.parsers.first_look import HEAD_BYTES
from webprofile.rest import fields


class Base64(fields.Text):
    """Bytes in base64."""

    default_error_messages = {"base64": "no base64"}

    def to_internal_value(self, data: Any) -> Any:
        text = super().to_internal_value(data)
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            self.fail("base64")


class FileToOpenBody(fields.Body):
    """A file that is to be uploaded."""

    name = fields.Text(
        max_length=1000, trim_whitespace=False, help_text="Its name, without a path."
    )
    size_bytes = fields.Integer(help_text="Its exact size in bytes: the upload must have it.")
    md5 = fields.Text(
        required=False,
        default="",
        allow_blank=True,
        max_length=100,
        help_text="Its MD5, 32 lower-case hexadecimal digits. Leave it out to send a file of more "
        f"than {PART_BYTES // MIB} MiB in parts.",
    )
    head = Base64(
        required=False,
        default="",
        allow_blank=True,
        max_length=2 * HEAD_BYTES,
        help_text=f"Its first bytes in base64, at most {HEAD_BYTES}: a file of another kind is "
        "then refused before it is sent.",
    )


class OpenBody(fields.Body):
    """A profile to be opened."""

    name = fields.Text(
        required=False,
        default="",
        allow_blank=True,
        max_length=1000,
        help_text="Your own words; the first file's name if not given.",
    )
    files = FileToOpenBody(  # type: ignore[call-arg]
        many=True,
        max_length=FILES_LIMIT,
        help_text=f"At most {FILES_LIMIT}, in the order of their passes.",
    )


class RenameBody(fields.Body):
    """Another name."""

    name = fields.Text(max_length=1000, help_text="Your own words.")


def files_asked(body: dict[str, Any]) -> list[FileToOpen]:
    """The files of a validated `OpenBody`."""
    return [FileToOpen(**{**file, "head": file["head"] or b""}) for file in body["files"]]
