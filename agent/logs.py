"""The agent's log: a line names the attempt and the task that it is about, wherever it is written.

What is bound holds for an asyncio task and for all that it starts, threads too.
"""

import logging
import sys
from contextvars import ContextVar

_about: ContextVar[str] = ContextVar("about", default="")


def bind(*, attempt: object, task: int | None = None, trace: str = "") -> None:
    """Name these in every line from now on. trace: the trace id, empty without one"""
    words = [f"attempt={attempt}"]
    if task is not None:
        words.append(f"task={task}")
    if trace:
        words.append(f"trace={trace}")
    _about.set(" ".join(words))


class _Formatter(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:
        line = super().formatMessage(record)
        # those that already name one part do not say it twice
        left = [word for word in _about.get().split() if word not in line]
        return " ".join([line, *left])


def start_logging(*, verbose: bool) -> None:
    """Write to stderr, one line an event."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[handler])
    # they log addresses with signatures, and headers with the token
    for name in ("httpx2", "httpcore2", "httpcore", "httpx", "websockets"):
        logging.getLogger(name).setLevel(logging.WARNING)
