"""The original file `memory_flow.svg` of a run."""

from profiles.exports.originals import Original, originals_of
from profiles.models import Profile

#: largest picture on a page: browsers draw all of it at once, and MegEngine's exceed any window
IMAGE_LIMIT_BYTES = 8 * 1024**2


def flow_file(profile: Profile) -> Original | None:
    """Return the file of which the page was made; None if it was deleted."""
    return next(
        (original for original in originals_of(profile) if original.kind == "memory_flow"), None
    )


def is_shown(file: Original) -> bool:
    """Whether the file is small enough for a page."""
    return file.size_bytes <= IMAGE_LIMIT_BYTES
