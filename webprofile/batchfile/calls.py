"""How a script is called, as its user writes it: the words of a line, and of formats."""

import re
import shlex

#: what is recorded of a script, as its user calls it, and what MegEngine's Profiler writes
FORMATS = {"timeline": "chrome_timeline.json", "memory": "memory_flow.svg"}
#: where a shell lets a command go on in the next line
_CONTINUED = re.compile(r"(?<!\\)((?:\\\\)*)\\\r?\n")


def split_line(text: str) -> list[str]:
    """The words of a line, or of several, as a shell splits them; nothing is expanded.

    Raises ValueError for a quotation without end.
    """
    return shlex.split(_CONTINUED.sub(r"\1 ", text))
