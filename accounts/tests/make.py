"""Make users with a second factor and their sessions; names of other users."""

import time

from allauth.account.models import EmailAddress
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import (
    TOTP,
    format_hotp_value,
    generate_totp_secret,
    hotp_value,
)
from django.test import Client
from django.urls import reverse

from tasks.tests.make import make_user

#: names of URLs of a user's own account
ACCOUNT_PAGES = [
    "accounts:profile", "accounts:tokens", "account_change_password", "account_email",
    "account_reauthenticate", "mfa_index", "mfa_activate_totp", "mfa_list_webauthn",
    "mfa_add_webauthn", "mfa_view_recovery_codes", "mfa_generate_recovery_codes",
    "mfa_deactivate_totp", "usersessions_list", "socialaccount_connections",
]  # fmt: skip

#: names of URLs for anonymous visitors
ANONYMOUS_PAGES = [
    "account_login", "account_signup", "account_reset_password", "account_reset_password_done",
    "account_email_verification_sent", "account_inactive", "socialaccount_login_error",
    "socialaccount_login_cancelled",
]  # fmt: skip

#: the password of all users that `make_user` makes
PASSWORD = "correct horse battery"
NEW_PASSWORD = "a long and winding road"
#: headers of a browser that opens a page
PAGE = {"accept": "text/html,application/xhtml+xml,*/*"}


def totp_code(secret, step=0):
    """Return the code of an authenticator app, `step` intervals of 30 s from now."""
    return format_hotp_value(hotp_value(secret, int(time.time()) // 30 + step))


def log_in(client, email="alice@example.com", password=PASSWORD, **more):
    """Post the login form; return the response."""
    return client.post(reverse("account_login"), {"login": email, "password": password} | more)


def login(email="alice@example.com", **more):
    """Log in with a new client; return the client and the response."""
    client = Client()
    return client, log_in(client, email, **more)


def reauthenticated_client(email="alice@example.com"):
    """Return a client that is logged in and has just reauthenticated."""
    client, _ = login(email)
    client.post(reverse("account_reauthenticate"), {"password": PASSWORD})
    return client


def is_logged_in(client):
    return client.get(reverse("accounts:profile")).status_code == 200


def make_verified_user(name="alice", **extra):
    """Return a user whose e-mail address is verified."""
    user = make_user(name, **extra)
    EmailAddress.objects.create(user=user, email=user.email, verified=True, primary=True)
    return user


def make_protected_user(name="alice", **extra):
    """Return a user with an authenticator app, the app's secret, and the recovery codes."""
    user = make_user(name, **extra)
    secret = generate_totp_secret()
    TOTP.activate(user, secret)
    codes = RecoveryCodes.activate(user).get_unused_codes()
    return user, secret, codes
