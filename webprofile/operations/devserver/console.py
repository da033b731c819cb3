"""Print messages of the development server."""

import sys


def say(text: str) -> None:
    """Print a line and flush it."""
    print(text, flush=True)


def complain(text: str) -> None:
    """Print an error to stderr."""
    print(text, file=sys.stderr, flush=True)
