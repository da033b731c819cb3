"""The rule for texts of users."""

import pytest

from webprofile.errors import DomainError
from webprofile.messages.errors import word
from webprofile.texts import check_text, unusable_character, without_unusable


@pytest.mark.parametrize(
    "text", ["", "夜间　运行", "naïve – “x”", "👩‍💻", "شبکهٔ عصبی می‌دود", "a\u00a0b"]
)
def test_text_of_any_script_may_be_used(text):
    assert unusable_character(text) == ""
    assert without_unusable(text) == text


@pytest.mark.parametrize(
    "character",
    ["\x00", "\n", "\x7f", "\x85", "\u200e", "\u202e", "\u2066", "\u2028", "\ud800"],
)
def test_character_that_breaks_or_turns_a_line_is_named(character):
    with pytest.raises(DomainError, match="character_bad") as caught:
        check_text(f"net{character}.mge", "title")
    assert f"U+{ord(character):04X}" in word(caught.value)
    assert without_unusable(f"net{character}.mge") == "net .mge"
