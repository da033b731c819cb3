"""Whether a zip on this machine's disk holds the program that is to be started."""

import zipfile
from pathlib import Path

#: programs that a sentence names
_NAMED = 8


def entry_mistake(path: Path, entry: str | None) -> str:
    """What is wrong with the entry point of a zip; empty if nothing is, or only a device can tell.

    Told before anything is sent: a site learns what is in an archive when all of it has arrived.
    """
    if path.suffix.lower() != ".zip":
        return ""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError):
        return ""  # the site has words for a zip that is none
    if entry in names:
        return ""
    programs = [name for name in names if name.endswith(".py")]
    shown = ", ".join(programs[:_NAMED]) + (", …" if len(programs) > _NAMED else "")
    if entry is None:
        return f"Name the program within “{path.name}” to start. Programs in it: {shown or '–'}."
    return f"The archive “{path.name}” has no “{entry}”. Programs in it: {shown or '–'}."
