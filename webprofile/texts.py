"""The rule for texts of users that are shown to others: titles and names of any kind, labels,
descriptions, addresses of webhooks.

Control characters, surrogates and line separators break lines and cannot be stored everywhere.
Format characters are invisible, and direction marks change how the text after them is shown. The
two joiners are allowed, because some scripts and emoji need them.
"""

from unicodedata import category

from django.core.exceptions import ValidationError

from webprofile.errors import DomainError
from webprofile.messages.errors import word

_UNUSABLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_JOINERS = "\u200c\u200d"


def unusable_character(text: str) -> str:
    """Return the first character that a text of a user may not have; empty if there is none."""
    if text.isascii() and text.isprintable():
        return ""
    return next((c for c in text if category(c) in _UNUSABLE and c not in _JOINERS), "")


def check_text(text: str, field: str) -> None:
    """Raise DomainError character_bad, naming the character, for a text that breaks the rule."""
    if character := unusable_character(text):
        raise DomainError("character_bad", field=field, character=f"U+{ord(character):04X}")


def validate_texts(**texts: str) -> None:
    """Raise ValidationError for fields of a form or a model whose texts break the rule."""
    problems = {}
    for field, text in texts.items():
        try:
            check_text(text, field)
        except DomainError as error:
            problems[field] = word(error)
    if problems:
        raise ValidationError(problems)


def without_unusable(text: str) -> str:
    """Replace the characters that a text of a user may not have by spaces."""
    return "".join(" " if unusable_character(c) else c for c in text)
