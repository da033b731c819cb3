"""What the person at the terminal reads; what the supervisor says of each death goes to a file."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path


def tell(text: str) -> None:
    """Print a line at once, whatever the parts say meanwhile."""
    print(text, file=sys.__stdout__, flush=True)


@contextlib.contextmanager
def quiet(log: Path) -> Iterator[None]:
    """Send what others print to a file."""
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(log.open("a", encoding="utf-8"))
        stack.enter_context(contextlib.redirect_stdout(file))
        stack.enter_context(contextlib.redirect_stderr(file))
        yield
