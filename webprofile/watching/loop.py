"""How late a process' event loop comes: what blocks it holds up every request and socket."""

import asyncio

from webprofile.meters import LOOP_LAG_SECONDS

#: s; a thousandth of a core on the machine that it was measured on
EVERY_S = 0.5
_watches: set[asyncio.Task[None]] = set()


def watch() -> bool:
    """Watch the running loop from now on; whether nobody did before."""
    if any(task.get_loop() is asyncio.get_running_loop() for task in _watches):
        return False
    task = asyncio.create_task(_measure())
    _watches.add(task)
    task.add_done_callback(_watches.discard)
    return True


async def _measure() -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + EVERY_S
        await asyncio.sleep(EVERY_S)
        LOOP_LAG_SECONDS.observe(max(0.0, loop.time() - due))
