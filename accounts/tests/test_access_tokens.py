"""Access tokens: created, shown once, limited, revoked."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from accounts.models import AccessToken, AuditEntry
from accounts.tokens.access import TOKENS_LIMIT, find_usable_token, issue_token, revoke_token
from tasks.tests.make import make_user
from webprofile.errors import DomainError

pytestmark = [pytest.mark.django_db, pytest.mark.database]


def make_token(user, **changes):
    return issue_token(user, **{"name": "ci", "scopes": ["read"], "days": 30} | changes)


def test_a_secret_finds_its_token_and_is_not_stored():
    token, secret = make_token(make_user())
    assert find_usable_token(secret) == token
    assert secret.startswith("mwp_")
    assert len(secret) == 44
    row = AccessToken.objects.filter(pk=token.pk).values().get()
    assert all(secret not in str(value) for value in row.values())
    assert secret.startswith(row["prefix"])


@pytest.mark.parametrize(
    "secret",
    ["", "mwp_", "mwp_" + "a" * 40, "mwp_" + "a" * 4000, "mwp_\0" + "a" * 39, "ｍｗｐ_" + "a" * 40],
)
def test_a_malformed_secret_finds_no_token(secret):
    make_token(make_user())
    assert find_usable_token(secret) is None


def test_a_truncated_or_extended_secret_finds_no_token():
    _, secret = make_token(make_user())
    for variant in (secret[:-1], secret + "a", secret.upper(), f" {secret}", f"{secret}\n"):
        assert find_usable_token(variant) is None


def test_revoked_and_expired_tokens_and_those_of_deactivated_users_are_rejected():
    user = make_user()
    revoked, revoked_secret = make_token(user)
    assert revoke_token(revoked, by=revoked.user)
    assert not revoke_token(revoked, by=revoked.user)
    expired, expired_secret = make_token(user)
    AccessToken.objects.filter(pk=expired.pk).update(expires_at=timezone.now())
    _, secret = make_token(user)
    assert find_usable_token(revoked_secret) is None
    assert find_usable_token(expired_secret) is None
    assert find_usable_token(secret)
    type(user).objects.update(is_active=False)
    assert find_usable_token(secret) is None


def test_last_used_is_written_at_most_once_a_minute(django_assert_num_queries):
    token, secret = make_token(make_user())
    first = find_usable_token(secret).last_used_at
    assert timezone.now() - first < timedelta(seconds=10)
    with django_assert_num_queries(1):
        assert find_usable_token(secret).last_used_at == first
    AccessToken.objects.update(last_used_at=first - timedelta(seconds=61))
    assert find_usable_token(secret).last_used_at >= first
    token.refresh_from_db()
    assert token.last_used_at >= first


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"name": ""}, "token_name"),
        ({"name": "  "}, "token_name"),
        ({"name": "a" * 101}, "token_name"),
        ({"name": "a\nb"}, "character_bad"),
        ({"scopes": []}, "token_scopes"),
        ({"scopes": ["read", "everything"]}, "token_scopes"),
        ({"scopes": ["admin"]}, "token_scopes"),
        ({"days": 0}, "token_days"),
        ({"days": -1}, "token_days"),
        ({"days": 366}, "token_days"),
        ({"days": 10**18}, "token_days"),
    ],
)
def test_invalid_input_is_rejected_with_its_field(changes, code):
    with pytest.raises(DomainError) as error:
        make_token(make_user(), **changes)
    assert error.value.code == code
    assert error.value.field in changes
    assert not AccessToken.objects.exists()


def test_duplicate_scopes_are_stored_once_and_administrators_may_have_all():
    token, _ = make_token(make_user(is_staff=True), scopes=["write", "admin", "write", "read"])
    assert token.scopes == ["read", "write", "admin"]


def test_the_number_of_usable_tokens_of_a_user_is_limited():
    user = make_user()
    tokens = [make_token(user)[0] for _ in range(TOKENS_LIMIT)]
    with pytest.raises(DomainError, match="token_limit"):
        make_token(user)
    revoke_token(tokens[0], by=tokens[0].user)
    make_token(user)


def test_issue_and_revocation_are_audited_without_the_secret():
    user = make_user()
    token, secret = make_token(user)
    revoke_token(token, by=token.user)
    entries = AuditEntry.objects.order_by("id")
    assert [entry.action for entry in entries] == ["access_token.issue", "access_token.revoke"]
    assert all(entry.actor == user for entry in entries)
    assert secret not in str(list(entries.values()))


def test_the_page_shows_a_secret_only_once(client):
    user = make_user()
    client.force_login(user)
    url = reverse("accounts:tokens")
    page = client.post(url, {"name": "nightly", "scopes": ["read", "write"], "days": "90"})
    secret = page.context["secret"]
    assert secret in page.content.decode()
    assert page.headers["Cache-Control"] == "private, no-store"
    listing = client.get(url).content.decode()
    assert secret not in listing
    assert "nightly" in listing
    assert user.access_tokens.get().prefix in listing


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"name": "a", "scopes": ["read"]},
        {"name": "a", "scopes": ["read"], "days": "many"},
        {"name": "a", "scopes": ["admin"], "days": "1"},
        {"name": "a", "scopes": ["read"], "days": "9" * 400},
        {"name": "\0", "scopes": ["read"], "days": "1"},
    ],
)
def test_the_page_shows_errors_beside_the_field(client, form):
    client.force_login(make_user())
    page = client.post(reverse("accounts:tokens"), form)
    assert page.status_code == 422
    assert page.context["form"].errors
    assert not AccessToken.objects.exists()


def test_a_token_of_another_user_cannot_be_revoked(client):
    token, secret = make_token(make_user("alice"))
    url = reverse("accounts:token-revoke", args=[token.pk])
    client.force_login(make_user("bob"))
    assert client.post(url).status_code == 404
    assert find_usable_token(secret)
    client.force_login(token.user)
    assert client.get(url).status_code == 405
    assert client.post(url).status_code == 302
    assert find_usable_token(secret) is None
    assert client.post(url).status_code == 302
