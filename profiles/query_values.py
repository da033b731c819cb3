"""Read values from the query string of a page; invalid ones are ignored and reported."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from django.http import QueryDict
from django.utils.translation import gettext as _

from profiles.presenters.formatting import shortened
from webprofile.integers import LARGEST_COUNT, parse_int

#: most unknown values of one parameter that are reported
_MOST_TOLD = 3
_Word = TypeVar("_Word", bound=str)
_Value = TypeVar("_Value")


class QueryValues:
    """Parser of parameters that collects messages about invalid ones in `problems`."""

    def __init__(self, parameters: QueryDict) -> None:
        self.parameters = parameters
        self.problems: list[str] = []

    def one_of(self, name: str, known: Sequence[_Word], usual: _Word) -> _Word:
        return self.read(name, lambda text: next((w for w in known if w == text), None)) or usual

    def several_of(self, name: str, known: Sequence[_Word]) -> tuple[_Word, ...]:
        values = self.parameters.getlist(name)
        unknown = [text for text in dict.fromkeys(values) if text and text not in known]
        self.problems += [unknown_choice(name, text) for text in unknown[:_MOST_TOLD]]
        return tuple(value for value in known if value in values)

    def number(self, name: str, least: int = 0, most: int = LARGEST_COUNT) -> int | None:
        def read(text: str) -> int | None:
            number = parse_int(text, maximum=most)
            return None if number is None or number < least else number

        return self.read(name, read)

    def read(self, name: str, read: Callable[[str], _Value | None]) -> _Value | None:
        text = self.parameters.get(name, "")
        value = read(text) if text else None
        if text and value is None:
            self.problems.append(unknown_choice(name, text))
        return value


def unknown_choice(name: str, text: str) -> str:
    """Return the message about an invalid value in an address."""
    return _("“%(word)s” is not a valid value of “%(name)s” and was ignored.") % {
        "word": shortened(text),
        "name": name,
    }
