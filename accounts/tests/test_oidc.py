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

from accounts.models import AuditEntry, User
from accounts.services import create_account, ensure_user
from accounts.tests.oidc_provider import CLIENT_ID, CLIENT_SECRET, running_provider
from accounts.tokens.access import find_usable_token, issue_token
from accounts.tokens.refresh import issue_token_pair, renew_token_pair
from tasks.tests.make import make_user
from webprofile.errors import DomainError
from webprofile.oidc import oidc_apps, origins

pytestmark = pytest.mark.django_db

START = "/accounts/oidc/oidc/login/"
GOOD = "correct horse battery"


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


def at_provider(address):
    """Log in at the provider as a browser does; return the URL to which it is redirected then."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.netloc)
    connection.request("GET", f"{parts.path}?{parts.query}")
    answer = connection.getresponse()
    connection.close()
    assert answer.status == 302
    return answer.headers["Location"].removeprefix("http://testserver")


def login(client, start=START):
    return client.get(at_provider(client.post(start).url))


def is_logged_in(client):
    return client.get(reverse("accounts:profile")).status_code == 200


def test_the_login_page_offers_the_provider_only_where_there_is_one(client, provider, settings):
    assert "Log in with Example Ltd." in client.get("/accounts/login/").content.decode()
    settings.OIDC_APPS = []
    settings.SOCIALACCOUNT_PROVIDERS = {}
    assert "Example Ltd." not in client.get("/accounts/login/").content.decode()
    assert client.post(START).status_code == 404


def test_the_first_login_makes_a_user_without_a_password(client, provider):
    provider.person |= {"email": "New@Example.com"}
    assert login(client).url == reverse("tasks:list")
    assert is_logged_in(client)
    user = User.objects.get()
    assert user.email == "new@example.com"
    assert not user.has_usable_password()
    assert not user.is_staff
    assert EmailAddress.objects.get().verified
    again = Client()
    login(again)
    assert is_logged_in(again)
    assert User.objects.count() == 1


def test_the_log_tells_which_provider_somebody_came_from_and_was_added_or_removed(provider):
    client = Client()
    login(client)
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor) == ("user.register", User.objects.get())
    assert entry.after == {"identity": "Example Ltd."}
    User.objects.all().delete()
    alice = make_user()
    EmailAddress.objects.create(user=alice, email=alice.email, verified=True, primary=True)
    login(client := Client())
    entry = AuditEntry.objects.first()
    assert (entry.action, entry.actor) == ("identity.add", alice)
    assert entry.after == {"identity": "Example Ltd."}
    form = {"account": SocialAccount.objects.get().pk}
    client.post(reverse("socialaccount_connections"), form)
    entry = AuditEntry.objects.first()
    assert (entry.action, entry.before) == ("identity.remove", {"identity": "Example Ltd."})


def test_next_is_kept_on_the_way_and_leads_nowhere_else(client, provider):
    assert login(client, f"{START}?next=/workers/").url == "/workers/"
    assert login(Client(), f"{START}?next=https://evil.example/").url == reverse("tasks:list")


def test_a_verified_address_is_the_user_who_has_it_already(client, provider):
    alice = make_user()
    EmailAddress.objects.create(user=alice, email=alice.email, verified=True, primary=True)
    login(client)
    assert SocialAccount.objects.get().user == alice
    assert alice.check_password(GOOD)


def test_who_registered_anothers_address_before_loses_the_password(client, provider):
    """The address was never verified, so whoever registered with it must lose all access."""
    taken = make_user()
    squatter = Client()
    squatter.post("/accounts/login/", {"login": taken.email, "password": GOOD})
    EmailAddress.objects.create(user=taken, email="squatter@example.com", verified=True)
    SocialAccount.objects.create(user=taken, provider="oidc", uid="squatter")
    TOTP.activate(taken, generate_totp_secret())
    pair = issue_token_pair(taken)
    _, secret = issue_token(taken, name="squatter's", scopes=["read"], days=1)
    login(client)
    taken.refresh_from_db()
    assert not taken.has_usable_password()
    assert is_logged_in(client)
    assert not is_logged_in(squatter)
    assert find_usable_token(secret) is None
    with pytest.raises(DomainError, match="token_invalid"):
        renew_token_pair(pair.refresh)
    assert not Authenticator.objects.exists()
    assert SocialAccount.objects.get().uid == "42"
    (address,) = EmailAddress.objects.all()
    assert (address.email, address.verified, address.primary) == (taken.email, True, True)
    assert AuditEntry.objects.filter(action="user.adopt", target_id=taken.pk).exists()


def test_a_verified_user_loses_nothing_at_the_first_login_by_the_provider(client, provider):
    alice = make_user()
    EmailAddress.objects.create(user=alice, email=alice.email, verified=True, primary=True)
    _, secret = issue_token(alice, name="a script", scopes=["read"], days=1)
    login(client)
    assert is_logged_in(client)
    assert find_usable_token(secret) is not None


@pytest.mark.parametrize("made_by", ["the server", "an administrator"])
def test_who_was_made_by_somebody_in_charge_loses_nothing_at_the_first_login(provider, made_by):
    """The user keeps the password and the second factor, which this login requires, too."""
    email = "alice@example.com"
    if made_by == "the server":
        alice, _ = ensure_user(email=email)
    else:
        alice = create_account(email=email, password=GOOD, by=None)
    TOTP.activate(alice, generate_totp_secret())
    _, secret = issue_token(alice, name="a script", scopes=["read"], days=1)
    assert login(Client()).url == reverse("mfa_authenticate")
    alice.refresh_from_db()
    assert alice.has_usable_password()
    assert find_usable_token(secret) is not None
    assert not AuditEntry.objects.filter(action="user.adopt").exists()


def test_who_registered_first_is_not_vouched_for_when_the_server_asks_for_the_address(provider):
    """Otherwise whoever registered with the operator's address would share the account."""
    form = {"email": "alice@example.com", "password1": GOOD, "password2": GOOD}
    Client().post(reverse("account_signup"), form)
    alice, password = ensure_user(email="Alice@Example.com", administrator=True)
    assert (password, alice.is_staff) == (None, False)
    login(Client())
    alice.refresh_from_db()
    assert not alice.has_usable_password()
    assert AuditEntry.objects.filter(action="user.adopt").exists()


def test_an_address_that_somebody_proved_to_have_makes_no_second_user():
    bob = make_user("bob")
    EmailAddress.objects.create(user=bob, email="alice@example.com", verified=True)
    for make in (ensure_user, partial(create_account, password=GOOD, by=None)):
        with pytest.raises(DomainError, match="email_taken"):
            make(email="Alice@example.com")
    assert User.objects.get() == bob


def test_an_address_that_another_wrote_among_their_own_is_who_registered_with_it(client, provider):
    squatter, alice = make_user("squatter"), make_user()
    EmailAddress.objects.create(user=squatter, email=squatter.email, verified=True, primary=True)
    EmailAddress.objects.create(user=squatter, email=alice.email)
    login(client)
    assert SocialAccount.objects.get().user == alice
    squatter.refresh_from_db()
    assert squatter.check_password(GOOD)


def test_an_account_found_by_a_further_address_has_no_other_one_then(client, provider):
    squatter = make_user("squatter")
    EmailAddress.objects.create(user=squatter, email=squatter.email, verified=True, primary=True)
    EmailAddress.objects.create(user=squatter, email="alice@example.com")
    login(client)
    assert is_logged_in(client)
    squatter.refresh_from_db()
    assert squatter.email == "alice@example.com"
    assert not squatter.has_usable_password()
    assert [address.email for address in EmailAddress.objects.all()] == ["alice@example.com"]


def test_who_is_logged_in_and_proves_the_address_only_now_stays_logged_in(client, provider):
    alice = make_user()
    client.post("/accounts/login/", {"login": alice.email, "password": GOOD})
    assert login(client).status_code == 302
    assert is_logged_in(client)


def test_an_unverified_address_is_not_believed(client, provider):
    alice = make_user()
    provider.person |= {"email_verified": False}
    login(client)
    assert not is_logged_in(client)
    assert not SocialAccount.objects.filter(user=alice).exists()


def test_the_second_factor_is_asked_for_here_too(client, provider):
    alice = make_user()
    EmailAddress.objects.create(user=alice, email=alice.email, verified=True, primary=True)
    TOTP.activate(alice, generate_totp_secret())
    assert login(client).url == reverse("mfa_authenticate")
    assert not is_logged_in(client)


def test_a_deactivated_user_does_not_get_in(client, provider):
    make_user(is_active=False)
    login(client)
    assert not is_logged_in(client)


@pytest.mark.parametrize("claims", [{"iss": "https://evil.example"}, {"aud": "other"}, {"exp": 1}])
def test_an_id_token_of_another_or_of_yesterday_is_refused(client, provider, claims):
    provider.claims = claims
    login(client)
    assert not is_logged_in(client)
    assert not User.objects.exists()


def test_an_answer_that_was_not_asked_for_is_refused_and_a_code_works_once(client, provider):
    back = at_provider(client.post(START).url)
    stranger = Client()
    stranger.get(back)
    assert not is_logged_in(stranger)
    client.get(back)
    assert is_logged_in(client)
    client.logout()
    client.get(back)
    assert not is_logged_in(client)


@pytest.mark.parametrize(
    "query",
    ["", "?code=x", "?state=x", "?code=x&state=x", "?error=server_error", "?code=" + "x" * 5000],
)
def test_a_broken_answer_is_a_page_and_no_login(client, provider, query):
    page = client.get(f"{START}callback/{query}")
    assert page.status_code < 500
    assert not is_logged_in(client)


def test_who_changes_their_mind_comes_back_to_a_page(client, provider):
    provider.denies = True
    page = login(client)
    assert page.status_code in {200, 302}
    assert not is_logged_in(client)


def test_a_provider_that_is_away_is_told_on_a_page(client, provider, settings):
    app = settings.OIDC_APPS[0] | {"settings": {"server_url": "http://127.0.0.1:9"}}
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": [app]}}
    page = client.post(START)
    assert page.status_code == 503
    assert "does not answer" in page.content.decode()


def test_a_login_cannot_be_begun_by_another_site(provider):
    client = Client(enforce_csrf_checks=True)
    assert client.post(START).status_code == 403
    assert client.get(START).status_code == 200  # a page with a button


def test_a_user_adds_the_provider_and_removes_it(provider):
    user = make_user("bob")
    client = Client()
    client.post("/accounts/login/", {"login": user.email, "password": GOOD})
    login(client, f"{START}?process=connect")
    account = SocialAccount.objects.get(user=user)
    page = reverse("socialaccount_connections")
    assert "Example Ltd." in client.get(page).content.decode()
    make_user("carol")
    carol = Client()
    carol.post("/accounts/login/", {"login": "carol@example.com", "password": GOOD})
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
def test_a_provider_that_lacks_something_stops_the_start(monkeypatch, environment):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ImproperlyConfigured):
        oidc_apps()


def test_providers_come_from_json_or_single_variables_and_secrets_from_files(monkeypatch, tmp_path):
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
    assert origins([corp, single]) == ["https://id.example:8443", "https://sso.corp"]
