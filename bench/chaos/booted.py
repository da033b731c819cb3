"""Whether a part that has no address to answer at has come so far that it works."""

import contextlib
from pathlib import Path

from bench.chaos.plan import AGENTS
from webprofile.embedded.guard import family_of

#: Dramatiq's worker process: two for messages, and those that fetch, delay and watch
_ACTORS_THREADS = 4


def is_booted(part: str, pid: int) -> bool:
    """Look at the processes of a part; True for one that the supervisor itself asks."""
    if part in ("dispatch", "actors"):
        return any(_threads(each) >= _ACTORS_THREADS for each in _family(pid))
    if part in AGENTS:
        # started after the runtimes were looked at, just before the socket
        return any(b"heart.py" in _command(each) for each in _family(pid))
    return True


def _family(pid: int) -> list[int]:
    return [each for each, _ in family_of(pid)]


def _threads(pid: int) -> int:
    with contextlib.suppress(OSError):
        return len(list(Path(f"/proc/{pid}/task").iterdir()))
    return 0


def _command(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
