"""What the person at the terminal reads: plain lines, one fact each."""

import sys


def say(text: str) -> None:
    """Print a line at once, also into a pipe."""
    print(text, flush=True)


def complain(text: str) -> None:
    """Print a line about something wrong, to stderr."""
    print(text, file=sys.stderr, flush=True)
