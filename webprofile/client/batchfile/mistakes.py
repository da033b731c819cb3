"""What is wrong with a file of tasks: all of it at once, each mistake with its place."""

from collections.abc import Iterable


class BatchError(Exception):
    """`mistakes`: pairs of a place, such as `tasks[1].options.fast_run`, and what is wrong."""

    def __init__(self, mistakes: Iterable[tuple[str, str]]) -> None:
        self.mistakes = tuple(dict.fromkeys(mistakes))
        super().__init__("\n".join(f"{place}: {text}" for place, text in self.mistakes))


class Mistakes:
    """A list that becomes a BatchError once everything was looked at."""

    def __init__(self) -> None:
        self._found: list[tuple[str, str]] = []

    def add(self, place: str, text: str) -> None:
        self._found.append((place or "the file", text))

    def raise_any(self) -> None:
        """Raises BatchError if there is a mistake."""
        if self._found:
            raise BatchError(self._found)
