"""From the file `memory_flow.svg` to what is kept of it."""

from pathlib import Path

from profiles.memory_flow.reader import read_flow
from profiles.memory_flow.summary import encode_summary, summarize


def read_memory_flow(path: Path) -> bytes:
    """Return the summary of a file as JSON. Raises ProfileFormatError, as `read_flow` does."""
    return encode_summary(summarize(read_flow(path)))
