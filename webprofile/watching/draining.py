"""After TERM a process says that it is not ready, and serves on until proxies have heard it.

uvicorn itself closes its listening socket at once, and a proxy that has not looked meanwhile sends
requests into nothing.
"""

import asyncio
import signal
import threading
from types import FrameType

from django.conf import settings

_draining = threading.Event()
_heard: list[bool] = []


def is_draining() -> bool:
    return _draining.is_set()


def listen() -> None:
    """Stand before the server's own handler of TERM, once; called in the event loop."""
    if _heard or threading.current_thread() is not threading.main_thread():
        return
    theirs = signal.getsignal(signal.SIGTERM)
    if not callable(theirs):
        return  # no server: a test, or a command
    _heard.append(True)
    loop = asyncio.get_running_loop()

    def on_term(number: int, frame: FrameType | None) -> None:
        # asked twice, nobody waits
        is_first, pause_s = not _draining.is_set(), settings.DRAIN_S
        _draining.set()
        if is_first and pause_s > 0:
            loop.call_soon_threadsafe(lambda: loop.call_later(pause_s, theirs, number, None))
        else:
            theirs(number, frame)

    signal.signal(signal.SIGTERM, on_term)
