"""Login at an identity provider (OpenID Connect), against a provider on a real socket."""

import http.client
from functools import partial
from urllib.parse import urlsplit

import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from allauth.socialaccount.models import SocialAccount
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from django.urls import reverse

from accounts.models import AuditEntry, User, Webhook
from accounts.services import create_account, ensure_user
from accounts.tests.make import PASSWORD, is_logged_in, log_in, make_verified_user
from accounts.tests.oidc_provider import CLIENT_ID, CLIENT_SECRET, running_provider
from accounts.tokens.access import find_usable_token, issue_token
from accounts.tokens.refresh import issue_token_pair, renew_token_pair
from accounts.webhooks.registration import add_webhook
from tasks.tests.make import make_user
from webprofile.errors import DomainError
from webprofile.settings.environment import oidc_apps, oidc_origins

pytestmark = pytest.mark.django_db

START = "/accounts/oidc/oidc/login/"


@pytest.fixture
def provider(settings, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with running_provider() as running:
        monkeypatch.setenv("OIDC_ISSUER", running.issuer)
        monkeypatch.setenv("OIDC_CLIENT_ID", CLIENT_ID)
        monkeypatch.setenv("OIDC_CLIENT_SECRET", CLIENT_SECRET)
        monkeypatch.setenv("OIDC_NAME", "Example Ltd.")
        settings.OIDC_APPS = oidc_apps()
        settings.SOCIALACCOUNT_PROVIDERS = {
            "openid_connect": {"APPS": settings.OIDC_APPS, "OAUTH_PKCE_ENABLED": True}
        }
        yield running


def log_in_at_provider(address):
    """Log in at the provider as a browser does; return the URL to which it is redirected then."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.netloc)
    connection.request("GET", f"{parts.path}?{parts.query}")
    response = connection.getresponse()
    connection.close()
    assert response.status == 302
    return response.headers["Location"].removeprefix("http://testserver")


def login(client, start=START):
    return client.get(log_in_at_provider(client.post(start).url))


def test_the_login_page_offers_a_provider_only_if_one_is_configured(client, provider, settings):
    assert "Log in with Example Ltd." in client.get("/accounts/login/").content.decode()
    settings.OIDC_APPS = []
    settings.SOCIALACCOUNT_PROVIDERS = {}
    assert "Example Ltd." not in client.get("/accounts/login/").content.decode()
    assert client.post(START).status_code == 404


def test_the_first_login_creates_a_user_without_a_password(client, provider):
    provider.person |= {"email": "New@Example.com"}
    assert login(client).url == reverse("tasks:list")
    assert is_logged_in(client)
    user = User.objects.get()
    assert user.email == "new@example.com"
    assert not user.has_usable_password()
    assert not user.is_staff
    assert EmailAddress.objects.get().verified
    other_client = Client()
    login(other_client)
    assert is_logged_in(other_client)
    assert User.objects.count() == 1


def test_registrations_and_changes_of_identities_are_audited_with_the_provider(provider):
    client = Client()
    login(client)
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor) == ("user.register", User.objects.get())
    assert entry.after == {"identity": "Example Ltd."}
    User.objects.all().delete()
    alice = make_verified_user()
    login(client := Client())
    entry = AuditEntry.objects.first()
    assert (entry.action, entry.actor) == ("identity.add", alice)
    assert entry.after == {"identity": "Example Ltd."}
    form = {"account": SocialAccount.objects.get().pk}
    client.post(reverse("socialaccount_connections"), form)
    entry = AuditEntry.objects.first()
    assert (entry.action, entry.before) == ("identity.remove", {"identity": "Example Ltd."})


def test_next_is_kept_and_cannot_redirect_to_another_site(client, provider):
    assert login(client, f"{START}?next=/workers/").url == "/workers/"
    assert login(Client(), f"{START}?next=https://evil.example/").url == reverse("tasks:list")


def test_a_verified_address_logs_in_the_existing_user_who_keeps_everything(client, provider):
    alice = make_verified_user()
    _, secret = issue_token(alice, name="a script", scopes=["read"], days=1)
    login(client)
    assert is_logged_in(client)
    assert SocialAccount.objects.get().user == alice
    assert alice.check_password(PASSWORD)
    assert find_usable_token(secret) is not None


def test_an_account_with_an_unverified_address_loses_all_access(client, provider):
    """An account with an unverified address loses all access when its owner logs in."""
    user = make_user()
    squatter = Client()
    log_in(squatter, user.email)
    EmailAddress.objects.create(user=user, email="squatter@example.com", verified=True)
    SocialAccount.objects.create(user=user, provider="oidc", uid="squatter")
    TOTP.activate(user, generate_totp_secret())
    pair = issue_token_pair(user)
    _, secret = issue_token(user, name="squatter's", scopes=["read"], days=1)
    add_webhook(user, url="https://squatter.example/", events=["task.finished"])
    login(client)
    user.refresh_from_db()
    assert not user.has_usable_password()
    assert is_logged_in(client)
    assert not is_logged_in(squatter)
    assert find_usable_token(secret) is None
    with pytest.raises(DomainError, match="token_invalid"):
        renew_token_pair(pair.refresh)
    assert not Authenticator.objects.exists()
    assert not Webhook.objects.exists()
    assert SocialAccount.objects.get().uid == "42"
    (address,) = EmailAddress.objects.all()
    assert (address.email, address.verified, address.primary) == (user.email, True, True)
    entry = AuditEntry.objects.get(action="user.adopt", target_id=user.pk)
    assert entry.before["webhooks"] == ["https://squatter.example"]


@pytest.mark.parametrize("made_by", ["the server", "an administrator"])
def test_a_user_created_by_an_operator_keeps_everything_at_a_provider_login(provider, made_by):
    """The user keeps the password and the second factor, which this login requires, too."""
    email = "alice@example.com"
    if made_by == "the server":
        alice, _ = ensure_user(email=email)
    else:
        alice = create_account(email=email, password=PASSWORD, by=None)
    TOTP.activate(alice, generate_totp_secret())
    _, secret = issue_token(alice, name="a script", scopes=["read"], days=1)
    assert login(Client()).url == reverse("mfa_authenticate")
    alice.refresh_from_db()
    assert alice.has_usable_password()
    assert find_usable_token(secret) is not None
    assert not AuditEntry.objects.filter(action="user.adopt").exists()


def test_ensure_user_does_not_verify_the_address_of_an_existing_user(provider):
    """A stranger who registered with the operator's address would become an administrator."""
    form = {"email": "alice@example.com", "password1": PASSWORD, "password2": PASSWORD}
    Client().post(reverse("account_signup"), form)
    alice, password = ensure_user(email="Alice@Example.com", administrator=True)
    assert (password, alice.is_staff) == (None, False)
    login(Client())
    alice.refresh_from_db()
    assert not alice.has_usable_password()
    assert AuditEntry.objects.filter(action="user.adopt").exists()


def test_an_address_verified_by_another_user_is_taken():
    bob = make_user("bob")
    EmailAddress.objects.create(user=bob, email="alice@example.com", verified=True)
    for make in (ensure_user, partial(create_account, password=PASSWORD, by=None)):
        with pytest.raises(DomainError, match="email_taken"):
            make(email="Alice@example.com")
    assert User.objects.get() == bob


def test_an_unverified_secondary_address_does_not_identify_a_user(client, provider):
    squatter, alice = make_user("squatter"), make_user()
    EmailAddress.objects.create(user=squatter, email=squatter.email, verified=True, primary=True)
    EmailAddress.objects.create(user=squatter, email=alice.email)
    login(client)
    assert SocialAccount.objects.get().user == alice
    squatter.refresh_from_db()
    assert squatter.check_password(PASSWORD)


def test_adoption_by_a_secondary_address_removes_the_other_addresses(client, provider):
    squatter = make_user("squatter")
    EmailAddress.objects.create(user=squatter, email=squatter.email, verified=True, primary=True)
    EmailAddress.objects.create(user=squatter, email="alice@example.com")
    login(client)
    assert is_logged_in(client)
    squatter.refresh_from_db()
    assert squatter.email == "alice@example.com"
    assert not squatter.has_usable_password()
    assert [address.email for address in EmailAddress.objects.all()] == ["alice@example.com"]


def test_verifying_the_address_keeps_the_current_session(client, provider):
    alice = make_user()
    log_in(client, alice.email)
    assert login(client).status_code == 302
    assert is_logged_in(client)


def test_an_unverified_address_of_a_provider_is_ignored(client, provider):
    alice = make_user()
    provider.person |= {"email_verified": False}
    login(client)
    assert not is_logged_in(client)
    assert not SocialAccount.objects.filter(user=alice).exists()


def test_a_provider_login_requires_the_second_factor(client, provider):
    alice = make_verified_user()
    TOTP.activate(alice, generate_totp_secret())
    assert login(client).url == reverse("mfa_authenticate")
    assert not is_logged_in(client)


def test_a_deactivated_user_cannot_log_in(client, provider):
    make_user(is_active=False)
    login(client)
    assert not is_logged_in(client)


@pytest.mark.parametrize("claims", [{"iss": "https://evil.example"}, {"aud": "other"}, {"exp": 1}])
def test_a_foreign_or_expired_id_token_is_rejected(client, provider, claims):
    provider.claims = claims
    login(client)
    assert not is_logged_in(client)
    assert not User.objects.exists()


def test_an_unexpected_response_is_rejected_and_a_code_works_once(client, provider):
    callback_url = log_in_at_provider(client.post(START).url)
    other_client = Client()
    other_client.get(callback_url)
    assert not is_logged_in(other_client)
    client.get(callback_url)
    assert is_logged_in(client)
    client.logout()
    client.get(callback_url)
    assert not is_logged_in(client)


@pytest.mark.parametrize(
    "query",
    ["", "?code=x", "?state=x", "?code=x&state=x", "?error=server_error", "?code=" + "x" * 5000],
)
def test_a_malformed_response_shows_an_error_page(client, provider, query):
    page = client.get(f"{START}callback/{query}")
    assert page.status_code < 500
    assert not is_logged_in(client)


def test_a_cancelled_login_shows_a_page(client, provider):
    provider.denies = True
    page = login(client)
    assert page.status_code in {200, 302}
    assert not is_logged_in(client)


def test_an_unreachable_provider_shows_an_error_page(client, provider, settings):
    app = settings.OIDC_APPS[0] | {"settings": {"server_url": "http://127.0.0.1:9"}}
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": [app]}}
    page = client.post(START)
    assert page.status_code == 503
    assert "not respond" in page.content.decode()


def test_a_login_cannot_be_started_by_another_site(provider):
    client = Client(enforce_csrf_checks=True)
    assert client.post(START).status_code == 403
    assert client.get(START).status_code == 200  # a page with a button


def test_a_user_connects_and_disconnects_a_provider(provider):
    user = make_user("bob")
    client = Client()
    log_in(client, user.email)
    login(client, f"{START}?process=connect")
    account = SocialAccount.objects.get(user=user)
    page = reverse("socialaccount_connections")
    assert "Example Ltd." in client.get(page).content.decode()
    make_user("carol")
    carol = Client()
    log_in(carol, "carol@example.com")
    carol.post(page, {"account": account.pk})
    assert SocialAccount.objects.exists()
    client.post(page, {"account": account.pk})
    assert not SocialAccount.objects.exists()


@pytest.mark.parametrize(
    "environment",
    [
        {"OIDC_ISSUER": "https://id.example"},
        {"OIDC_PROVIDERS": "no json"},
        {"OIDC_PROVIDERS": '{"id": "x"}'},
        {"OIDC_PROVIDERS": "[1]"},
        {"OIDC_PROVIDERS": '[{"id": "x"}]'},
        {
            "OIDC_PROVIDERS": '[{"id": "../x", "name": "X", "issuer": "https://x", '
            '"client_id": "x", "client_secret": "x"}]'
        },
        {
            "OIDC_PROVIDERS": '[{"id": "x", "name": "X", "issuer": "id.example", '
            '"client_id": "x", "client_secret": "x"}]'
        },
    ],
)
def test_an_incomplete_provider_configuration_is_an_error(monkeypatch, environment):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ImproperlyConfigured):
        oidc_apps()


def test_providers_are_read_from_json_or_variables_and_secrets_from_files(monkeypatch, tmp_path):
    assert oidc_apps() == []
    file = tmp_path / "secret"
    file.write_text("s3cret\n")
    monkeypatch.setenv("OIDC_ISSUER", "https://id.example:8443/realms/a/")
    monkeypatch.setenv("OIDC_CLIENT_ID", "site")
    monkeypatch.setenv("OIDC_CLIENT_SECRET_FILE", str(file))
    monkeypatch.setenv(
        "OIDC_PROVIDERS",
        '[{"id": "corp", "name": "Corp", "issuer": "https://sso.corp", "client_id": "c", '
        '"client_secret": "d"}]',
    )
    corp, single = oidc_apps()
    assert (corp["provider_id"], corp["secret"]) == ("corp", "d")
    assert (single["name"], single["secret"]) == ("OpenID Connect", "s3cret")
    assert single["settings"] == {"server_url": "https://id.example:8443/realms/a"}
    assert oidc_origins([corp, single]) == ["https://id.example:8443", "https://sso.corp"]
