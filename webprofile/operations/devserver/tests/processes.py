"""List the processes of a home folder."""

import contextlib
from pathlib import Path


def command_lines_of(home: Path) -> list[str]:
    """Return the command lines of the processes with this home in their environment."""
    command_lines = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"MGW_HOME={home}".encode() in file.read_bytes().split(b"\0"):
                command_lines.append((file.parent / "cmdline").read_text())
    return command_lines
