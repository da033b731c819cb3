"""Write files atomically."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a stream of a temporary file, which replaces `path` if the block succeeds.

    After an exception an existing file is unchanged and the temporary file is deleted. Raises
    OSError.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        # writes to special files such as /dev/null directly; a folder is an error
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
