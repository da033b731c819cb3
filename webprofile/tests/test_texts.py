"""The rule for texts of users."""

import pytest
from django.core.exceptions import ValidationError

from accounts.tokens.access import issue_token
from accounts.webhooks.registration import add_webhook
from tasks.tests.make import make_user
from tasks.views.list_filters import save_task_view
from webprofile.errors import DomainError
from webprofile.messages.errors import word
from webprofile.texts import check_text, unusable_character, without_unusable
from workers.models import Pool, Worker
from workers.services import register_worker, validate_labels


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


@pytest.mark.django_db
@pytest.mark.parametrize("character", ["\u202e", "\x07"])
@pytest.mark.parametrize(
    "give",
    [
        lambda user, text: issue_token(user, name=text, scopes=["read"], days=1),
        lambda user, text: add_webhook(user, url=f"https://a.example/{text}", events=[]),
        lambda user, text: save_task_view(user, name=text, query="q=x"),
        lambda user, text: register_worker(name=text, by=None),
        lambda _, text: validate_labels({"chip": text}),
        lambda _, text: Worker(name=text).full_clean(),
        lambda _, text: Pool(name=text).full_clean(),
        lambda _, text: Pool(name="pool", description=text).full_clean(),
    ],
    ids=["token", "webhook", "view", "device", "label", "device form", "pool", "pool description"],
)
def test_an_invisible_character_is_named_wherever_a_user_gives_a_text(give, character):
    with pytest.raises((DomainError, ValidationError)) as caught:
        give(make_user(), f"a{character}b")
    error = caught.value
    text = word(error) if isinstance(error, DomainError) else str(error.messages)
    assert f"U+{ord(character):04X}" in text
