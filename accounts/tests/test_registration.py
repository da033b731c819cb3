"""Registration, verification of addresses, login and password reset."""

import re
from datetime import timedelta

import pytest
from allauth.account.models import EmailAddress
from django.core import mail
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from accounts.forms import SignupForm
from accounts.models import User, canonical_email
from accounts.tests.make import PASSWORD, is_logged_in, log_in, make_verified_user
from tasks.tests.make import make_user

pytestmark = pytest.mark.django_db

SIGNUP = reverse("account_signup")
LOGIN = reverse("account_login")
RESET = reverse("account_reset_password")


@pytest.fixture
def mails(settings):
    """A site with a mail server."""
    settings.HAS_MAIL_SERVER = True
    settings.ACCOUNT_EMAIL_VERIFICATION = "mandatory"
    settings.ACCOUNT_PREVENT_ENUMERATION = True
    return mail.outbox


def register(client, email="new@example.com", password=PASSWORD, again=None):
    form = {"email": email, "password1": password, "password2": again or password}
    return client.post(SIGNUP, form)


def link_in(message):
    return re.search(r"http://127.0.0.1:8000(/\S+)", message.body)[1]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("Alice@Example.COM", "alice@example.com"),
        ("ａｌｉｃｅ＠ｅｘａｍｐｌｅ．ｃｏｍ", "alice@example.com"),
        (" alice@example.com ", "alice@example.com"),
        ("alice@eﬀect.com", "alice@effect.com"),
        ("ﬁ@example.com", "fi@example.com"),
        ("Kelvin@example.com", "kelvin@example.com"),
        ("alice@BÜCHER.de", "alice@xn--bcher-kva.de"),
        ("alice@xn--bcher-kva.de", "alice@xn--bcher-kva.de"),
        ("alice@exаmple.com", "alice@xn--exmple-4nf.com"),
        ("none", "none"),
        ("a@b@c.com", "a@b@c.com"),
        ("", ""),
    ],
)
def test_an_address_has_one_canonical_form(text, canonical):
    assert canonical_email(text) == canonical
    assert canonical_email(canonical) == canonical


def test_registration_logs_in_without_a_mail_server(client):
    assert register(client, "New@Example.com").status_code == 302
    assert User.objects.get().email == "new@example.com"
    assert is_logged_in(client)


def test_the_second_request_of_a_double_click_leads_to_the_login_page(client, monkeypatch):
    validate = SignupForm.clean

    def validate_before_the_first_request_ends(form):
        monkeypatch.undo()
        data = validate(form)
        register(Client())
        return data

    monkeypatch.setattr(SignupForm, "clean", validate_before_the_first_request_ends)
    page = register(client)
    assert (page.status_code, page.url) == (302, LOGIN)
    assert log_in(client, User.objects.get().email).url == reverse("tasks:list")


@pytest.mark.parametrize(
    "variant",
    ["ALICE@example.com", "alice@EXAMPLE.com", "ａlice@example.com", "alice@ｅxample．com"],
)
def test_variants_of_a_registered_address_are_the_same_address(client, variant):
    alice = make_user()
    assert register(client, variant).status_code == 200
    assert User.objects.get() == alice
    assert log_in(Client(), variant).status_code == 302


@pytest.mark.parametrize(
    "email",
    [
        "", "alice", "alice@", "@example.com", "a b@example.com", "аlice@example.com", "a@b",
        "alice@example.com\nbcc: bob@example.com", "a" * 250 + "@example.com", "a@b@example.com",
        "a@" + "b" * 300_000 + ".com", "alice@example..com", "\0@example.com",
    ],
)  # fmt: skip
def test_an_invalid_address_is_rejected_with_its_field(client, email):
    page = register(client, email)
    assert page.status_code == (200 if len(email) < 10_000 else 413)
    if page.status_code == 200:
        assert "email" in page.context["form"].errors
    assert not User.objects.exists()


@pytest.mark.parametrize(
    ("password", "again"),
    [
        ("short", None),
        ("password123", None),
        ("1357924680135", None),
        ("new@example.com", None),
        (PASSWORD, PASSWORD + "!"),
        ("", ""),
    ],
)
def test_a_weak_or_mistyped_password_is_rejected(client, password, again):
    page = register(client, password=password, again=again)
    assert page.context["form"].errors
    assert not User.objects.exists()


@pytest.mark.parametrize(
    "password", ["short", "password123", "1357924680135", "new@example.com", PASSWORD]
)
def test_the_password_check_returns_the_errors_of_the_form(client, password):
    url = reverse("accounts:password-check")
    response = client.post(url, {"password": password, "email": "new@example.com"})
    problems = response.json()["problems"]
    page = register(client, password=password)
    assert problems == (page.context["form"].errors["password1"] if page.status_code == 200 else [])


def test_the_password_check_is_limited_and_requires_post_and_a_csrf_token(client, settings):
    settings.ACCOUNT_RATE_LIMITS = {"password_check": "3/m/ip"}
    url = reverse("accounts:password-check")
    statuses = [client.post(url, {"password": "a"}).status_code for _ in range(5)]
    assert statuses == [200, 200, 200, 429, 429]
    assert client.get(url).status_code == 405
    assert Client(enforce_csrf_checks=True).post(url, {"password": "a"}).status_code == 403


def test_with_mail_an_address_is_verified_before_the_first_login(client, mails):
    page = register(client)
    assert page.url == reverse("account_email_verification_sent")
    assert not is_logged_in(client)
    assert log_in(Client(), "new@example.com").url == page.url
    link = link_in(mails[0])
    assert client.get(link).status_code == 200
    assert not EmailAddress.objects.get().verified  # mail scanners follow links
    client.post(link)
    assert EmailAddress.objects.get().verified
    assert log_in(client, "new@example.com").url == reverse("tasks:list")


def test_the_mail_to_an_added_address_does_not_say_that_it_was_registered(client, mails):
    client.force_login(make_verified_user())
    client.post(reverse("account_email"), {"action_add": "", "email": "second@example.com"})
    (message,) = mails
    assert "entered for an account at 127.0.0.1:8000" in message.body
    assert "register" not in message.body


def test_with_mail_responses_do_not_reveal_registered_addresses(mails):
    make_user("alice")
    responses = [register(Client(), f"{name}@example.com") for name in ("alice", "nobody")]
    assert {(a.status_code, a.url) for a in responses} == {
        (302, reverse("account_email_verification_sent"))
    }
    resets = [Client().post(RESET, {"email": f"{n}@example.com"}) for n in ("alice", "stranger")]
    assert {(a.status_code, a.url) for a in resets} == {
        (302, reverse("account_reset_password_done"))
    }


def test_an_expired_or_forged_verification_link_is_invalid(client, mails, settings):
    register(client)
    link = link_in(mails[0])
    for bad in (link[:-3] + "xx/", link.replace(":", ""), "/accounts/confirm-email/x/"):
        assert client.post(bad).status_code in {302, 404}
    assert not EmailAddress.objects.get().verified
    settings.ACCOUNT_EMAIL_CONFIRMATION_EXPIRE_DAYS = 0
    client.post(link)
    assert not EmailAddress.objects.get().verified


def test_a_verification_link_can_be_used_twice_without_effect(client, mails):
    register(client)
    link = link_in(mails[0])
    client.post(link)
    assert client.post(link).status_code in {302, 404}
    assert client.get(link).status_code == 200
    assert EmailAddress.objects.count() == 1


def test_a_failed_login_does_not_reveal_the_wrong_credential():
    make_user()
    make_user("gone", is_active=False)
    tries = [
        ("alice@example.com", "wrong"),
        ("nobody@example.com", PASSWORD),
        ("gone@example.com", "x"),
    ]
    errors = {
        str(log_in(Client(), *credentials).context["form"].non_field_errors())
        for credentials in tries
    }
    assert len(errors) == 1
    assert "not correct" in errors.pop()


def test_a_deactivated_user_gets_no_session(client):
    make_user(is_active=False)
    log_in(client)
    assert not is_logged_in(client)


def test_failed_logins_are_limited_by_address_of_the_account():
    make_user()
    for _ in range(5):
        log_in(Client(), password="wrong")
    page = log_in(Client())
    assert page.status_code == 200
    assert "Too many" in str(page.context["form"].errors)
    assert log_in(Client(), "ALICE@example.com").status_code == 200


@pytest.mark.parametrize(("more", "remembered"), [({}, False), ({"remember": "on"}, True)])
def test_a_session_ends_with_the_browser_unless_remembered(client, settings, more, remembered):
    make_user()
    cookie = log_in(client, **more).cookies[settings.SESSION_COOKIE_NAME]
    assert bool(cookie["max-age"]) is remembered
    lasts = settings.ACCOUNT_SESSION_COOKIE_AGE if remembered else settings.SESSION_COOKIE_AGE
    assert client.session.get_expiry_age() == lasts
    row = client.session.model.objects.get()
    assert row.expire_date - timezone.now() < timedelta(seconds=lasts + 1)
    client.session.model.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
    assert not is_logged_in(client)


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/", "//evil.example/", "///evil.example", "javascript:alert(1)",
        "http:evil.example", "\\\\evil.example", "/\\evil.example", "https:/evil.example",
        " //evil.example", "https://testserver@evil.example/", "https://testserver.evil.example/",
    ],
)  # fmt: skip
def test_next_cannot_redirect_to_another_site(target):
    make_user()
    client = Client()
    url = log_in(client, next=target).url
    assert url == reverse("tasks:list")
    assert client.post(reverse("set_language"), {"language": "en", "next": target}).url in {"/", ""}
    assert client.post(reverse("account_logout"), {"next": target}).url == LOGIN


def test_next_redirects_to_the_page_that_required_a_login(client):
    make_user()
    redirect = client.get(reverse("accounts:tokens"))
    assert redirect.url == f"{LOGIN}?next=/accounts/tokens/"
    assert log_in(client, next="/accounts/tokens/").url == "/accounts/tokens/"


@pytest.mark.parametrize(
    "url", [LOGIN, SIGNUP, reverse("account_logout"), reverse("accounts:tokens"), "/admin/login/"]
)
def test_a_form_of_another_site_is_rejected(url):
    user = make_user()
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)
    assert client.post(url, {"login": user.email, "password": PASSWORD}).status_code == 403


def test_no_page_can_be_framed_and_none_runs_inline_scripts(client):
    for url in (LOGIN, SIGNUP, RESET):
        page = client.get(url)
        assert page.headers["X-Frame-Options"] == "DENY"
        policy = page.headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in policy
        assert "unsafe-inline" not in policy


def test_a_foreign_host_is_rejected_and_not_used_in_mails(client, mails):
    make_user()
    response = client.post(RESET, {"email": "alice@example.com"}, headers={"host": "evil.example"})
    assert response.status_code == 400
    more = {"X-Forwarded-Host": "evil.example"}
    client.post(RESET, {"email": "alice@example.com"}, headers=more)
    assert "evil.example" not in mails[0].body


def test_a_password_is_reset_by_a_link_that_works_once(client, mails):
    user = make_user()
    other = Client()
    other.force_login(user)
    client.post(RESET, {"email": "ALICE@example.com"})
    assert mails[0].to == ["alice@example.com"]
    link = link_in(mails[0])
    form = client.get(link, follow=True)
    weak = client.post(form.redirect_chain[-1][0], {"password1": "short", "password2": "short"})
    assert weak.context["form"].errors
    new = "another battery staple"
    client.post(form.redirect_chain[-1][0], {"password1": new, "password2": new})
    user.refresh_from_db()
    assert user.check_password(new)
    assert not is_logged_in(other)
    assert "no longer valid" in Client().get(link, follow=True).content.decode()


def test_a_reset_link_is_invalid_if_expired_forged_or_after_a_new_password(mails, settings):
    user = make_user()
    Client().post(RESET, {"email": user.email})
    link = link_in(mails[0])
    bob = make_user("bob")
    forged = re.sub(r"key/\w+?-", f"key/{_uid(bob)}-", link)
    for bad in (link[:-2] + "x/", forged, "/accounts/password/reset/key/1-x/"):
        assert "no longer valid" in Client().get(bad, follow=True).content.decode()
    settings.PASSWORD_RESET_TIMEOUT = -1
    assert "no longer valid" in Client().get(link, follow=True).content.decode()
    settings.PASSWORD_RESET_TIMEOUT = 3600
    user.set_password("changed in the meantime")
    user.save()
    assert "no longer valid" in Client().get(link, follow=True).content.decode()


def _uid(user):
    from allauth.account.utils import user_pk_to_url_str

    return user_pk_to_url_str(user)


def test_a_reset_link_does_not_bypass_the_second_factor_or_a_deactivation(client, mails):
    make_user(is_active=False)
    client.post(RESET, {"email": "alice@example.com"})
    assert [m for m in mails if "password/reset/key" in m.body] == []


def test_without_mail_the_reset_page_has_no_form(client):
    make_user()
    page = client.post(RESET, {"email": "alice@example.com"})
    assert "Ask an administrator" in page.content.decode()
    assert mail.outbox == []


def test_changing_the_password_requires_the_old_one_and_ends_other_sessions(client):
    user = make_user()
    other = Client()
    log_in(other)
    log_in(client)
    url = reverse("account_change_password")
    new = "another battery staple"
    wrong = {"oldpassword": "wrong", "password1": new, "password2": new}
    assert client.post(url, wrong).status_code == 200
    assert client.post(url, wrong | {"oldpassword": PASSWORD}).status_code == 302
    user.refresh_from_db()
    assert user.check_password(new)
    assert is_logged_in(client)
    assert not is_logged_in(other)


def test_too_many_requests_show_an_error_page(client, settings):
    settings.ACCOUNT_RATE_LIMITS = {"signup": "1/m/ip"}
    register(client, password="short")
    page = register(client)
    assert page.status_code == 429
    assert "Too many attempts" in page.content.decode()
