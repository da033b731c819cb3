"""User-facing texts of notes: what agents report as codes with values (`agent.protocol.notes`)."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.translation import get_language, gettext

from agent.protocol.notes import TEXTS, text_of
from webprofile.messages.errors import WORDINGS
from webprofile.sentences import sentences


class _Translated(Mapping[str, str]):
    """The translated texts of all codes; options and input files have those of their errors."""

    def __getitem__(self, code: str) -> str:
        return gettext(TEXTS[code]) if code in TEXTS else str(WORDINGS[code])

    def __iter__(self) -> Any:
        return iter({**TEXTS, **WORDINGS})

    def __len__(self) -> int:
        return len({**TEXTS, **WORDINGS})


_TEXTS = _Translated()


def note_text(note: Mapping[str, Any]) -> str:
    """Return the translated text of a note in JSON; an unknown code is returned unchanged."""
    return text_of(note, _TEXTS)


def notes_text(notes: Iterable[Mapping[str, Any]], detail: str = "") -> str:
    """Return the texts of notes as sentences, followed by a line of another program's output."""
    return sentences([*map(note_text, notes), detail])


def details_text(notes: Iterable[Mapping[str, Any]]) -> str:
    """Return the texts of notes that are parts of a sentence."""
    separator = "；" if (get_language() or "").startswith("zh") else "; "
    return separator.join(map(note_text, notes))
