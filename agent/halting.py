"""Waits that end early when an attempt is halted."""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Halted(Exception):
    """`halt` was set before the work was done; the work has been cancelled."""


async def unless_halted(halt: asyncio.Event, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of the work. Raises its exception, or Halted."""
    working, halting = asyncio.create_task(work), asyncio.create_task(halt.wait())
    try:
        await asyncio.wait({working, halting}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise Halted
        return working.result()
    finally:
        halting.cancel()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def sleep_unless_halted(seconds: float, halt: asyncio.Event) -> float:
    """Wait for `seconds`, or until `halt` is set; return how many seconds that took."""
    loop = asyncio.get_running_loop()
    begin = loop.time()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await halt.wait()
    return loop.time() - begin
