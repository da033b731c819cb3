"""The file `memory_flow.svg` of a run, as it came."""

from profiles.exports.originals import Original, originals_of
from profiles.models import Profile

#: a browser draws all of a picture at once, and MegEngine's are larger than any window
IMAGE_LIMIT_BYTES = 8 * 1024**2


def flow_file(profile: Profile) -> Original | None:
    """The file that the page was made of; None if there is none any more."""
    return next((each for each in originals_of(profile) if each.kind == "memory_flow"), None)


def is_shown(file: Original) -> bool:
    """Whether it is small enough for a page."""
    return file.size_bytes <= IMAGE_LIMIT_BYTES
