"""Reader of batch files, which describe many tasks; used by the client and `manage.py submit`.

It imports neither the server nor the network: `pip install .` installs it with the client.
"""

from collections.abc import Iterable


class BatchError(Exception):
    """All mistakes of a batch file: pairs of place (`tasks[1].options.fast_run`) and text."""

    def __init__(self, mistakes: Iterable[tuple[str, str]]) -> None:
        self.mistakes = tuple(dict.fromkeys(mistakes))
        super().__init__("\n".join(f"{place}: {text}" for place, text in self.mistakes))


class Mistakes:
    """Collector of mistakes, which are raised together."""

    def __init__(self) -> None:
        self._items: list[tuple[str, str]] = []

    def add(self, place: str, text: str) -> None:
        self._items.append((place or "the file", text))

    def raise_any(self) -> None:
        """Raise BatchError if there are mistakes."""
        if self._items:
            raise BatchError(self._items)
