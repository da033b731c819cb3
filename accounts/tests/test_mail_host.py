"""Mails name the site of SITE_URL, whatever host the request was sent to."""

import re

import pytest
from django.core import mail
from django.test import Client
from django.urls import reverse

from accounts.tests.make import (
    NEW_PASSWORD,
    PASSWORD,
    log_in,
    make_verified_user,
    totp_code,
)

# mails about a second factor are sent on commit
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def mails(settings):
    """A site with a mail server, whose requests name another host."""
    settings.SITE_URL = "https://profile.example.org"
    settings.ALLOWED_HOSTS = ["*"]
    settings.HAS_MAIL_SERVER = settings.ACCOUNT_EMAIL_NOTIFICATIONS = True
    settings.ACCOUNT_EMAIL_VERIFICATION = "mandatory"
    settings.ACCOUNT_PREVENT_ENUMERATION = True


def visitor():
    return Client(headers={"host": "evil.example"}, HTTP_X_FORWARDED_HOST="evil.example")


def member():
    make_verified_user()
    client = visitor()
    assert log_in(client).status_code == 302
    client.post(reverse("account_reauthenticate"), {"password": PASSWORD})
    return client


def register(email):
    form = {"email": email, "password1": PASSWORD, "password2": PASSWORD}
    visitor().post(reverse("account_signup"), form)


def register_new_address():
    register("new@example.com")


def register_known_address():
    make_verified_user()
    register("alice@example.com")


def ask_for_password():
    make_verified_user()
    visitor().post(reverse("account_reset_password"), {"email": "alice@example.com"})


def ask_for_password_of_unknown_address():
    visitor().post(reverse("account_reset_password"), {"email": "nobody@example.com"})


def change_password():
    form = {"oldpassword": PASSWORD, "password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
    member().post(reverse("account_change_password"), form)


def add_address():
    member().post(reverse("account_email"), {"email": "second@example.com", "action_add": ""})


def set_up_app():
    client = member()
    secret = client.get(reverse("mfa_activate_totp")).context["form"].secret
    client.post(reverse("mfa_activate_totp"), {"code": totp_code(secret)})


@pytest.mark.parametrize(
    ("act", "has_link"),
    [
        (register_new_address, True),
        (register_known_address, True),
        (ask_for_password, True),
        (ask_for_password_of_unknown_address, True),
        (add_address, True),
        (change_password, False),
        (set_up_app, False),
    ],
)
def test_a_mail_names_the_site_and_not_the_host_of_the_request(act, has_link):
    act()
    assert mail.outbox
    for message in mail.outbox:
        text = message.subject + message.body
        assert "evil.example" not in text
        assert message.subject.startswith("[profile.example.org] ")
        links = re.findall(r"\w+://\S+", message.body)
        assert bool(links) is has_link
        assert all(link.startswith("https://profile.example.org/accounts/") for link in links)
