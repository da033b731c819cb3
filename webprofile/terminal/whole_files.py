"""Files that appear under their names only when they are whole."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A stream; what was written to it stands at `path` once the block ended well.

    Whatever fails, a file that was there before stays, and nothing lies beside it. Raises OSError.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        # /dev/null must not be replaced; a folder is an error
        with path.open("wb") as stream:
            yield stream
        return
    part = path.with_name(f".{uuid.uuid4().hex}.part")
    try:
        with part.open("xb") as stream:
            yield stream
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
