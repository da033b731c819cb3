"""Configure logging, with attempt and task in each line.

They are stored in a context variable, which asyncio tasks and `asyncio.to_thread` inherit. The
module imports nothing of the agent, because the command line and the execution of attempts use it.
"""

import logging
import sys
from contextvars import ContextVar

_context: ContextVar[str] = ContextVar("context", default="")


def bind(*, attempt: object, task: int | None = None, trace: str = "") -> None:
    """Add fields to all following lines of this context. `trace` is a trace id or empty."""
    fields = [f"attempt={attempt}"]
    if task is not None:
        fields.append(f"task={task}")
    if trace:
        fields.append(f"trace={trace}")
    _context.set(" ".join(fields))


class _Formatter(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:
        line = super().formatMessage(record)
        # without fields that the message already contains
        fields = [field for field in _context.get().split() if field not in line]
        return " ".join([line, *fields])


def start_logging(*, verbose: bool) -> None:
    """Log to stderr, one line per event."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[handler])
    # these log presigned URLs, and headers with the token
    for name in ("httpx2", "httpcore2", "httpcore", "httpx", "websockets"):
        logging.getLogger(name).setLevel(logging.WARNING)
