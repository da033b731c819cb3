"""Rotation of the site's secrets: what old secrets made stays valid under the next settings.

One process applies the settings of each step, one after the other.
"""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP
from django.core import signing
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from accounts.adapters import SecondFactorAdapter
from accounts.tests.make import PAGE, is_logged_in, log_in
from accounts.tokens.refresh import issue_token_pair, renew_token_pair
from accounts.webhooks.registration import add_webhook, rotate_webhook_secret
from accounts.webhooks.signatures import signature, signed_headers
from tasks.tests.make import make_user, make_worker
from webprofile.errors import DomainError
from webprofile.settings.environment import patient
from workers.tokens import check_token, issue_code, redeem_code

pytestmark = [pytest.mark.django_db, pytest.mark.database]
OLD, NEW = "the old key of this site", "the new key of this site"
ROOT = Path(__file__).parents[2]


def set_secret_key(settings, key, *former):
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = key, list(former)


def status_of_me(access):
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {access}")
    return client.get("/api/v1/me/").status_code


def test_a_new_secret_key_invalidates_nothing_while_the_old_one_is_a_fallback(settings):
    user = make_user()
    set_secret_key(settings, OLD)
    browser, pair = Client(), issue_token_pair(user)
    browser.force_login(user)
    seed, signed = SecondFactorAdapter().encrypt("seed"), signing.dumps("x")

    set_secret_key(settings, NEW, OLD)
    assert browser.get("/accounts/profile/", headers=PAGE).status_code == 200
    assert status_of_me(pair.access) == 200
    renewed = renew_token_pair(pair.refresh)
    assert SecondFactorAdapter().decrypt(seed) == "seed"
    assert signing.loads(signed) == "x"

    # tokens that were used in the meantime need only the new key
    set_secret_key(settings, NEW)
    assert browser.get("/accounts/profile/").status_code == 200
    assert status_of_me(renewed.access) == 200


def test_a_new_secret_key_keeps_all_sessions_in_the_list_where_they_can_be_ended(settings):
    set_secret_key(settings, OLD)
    make_user()
    laptop, phone = Client(), Client()
    for browser in (laptop, phone):
        log_in(browser)
    set_secret_key(settings, NEW, OLD)
    assert is_logged_in(laptop)
    sessions = reverse("usersessions_list")
    assert phone.get(sessions).context["session_count"] == 2
    assert [is_logged_in(browser) for browser in (laptop, phone)] == [True, True]
    phone.post(sessions)  # "End all others"
    assert [is_logged_in(browser) for browser in (laptop, phone)] == [False, True]


def test_the_command_reencrypts_seeds_and_webhook_secrets(settings):
    user = make_user()
    set_secret_key(settings, OLD)
    TOTP.activate(user, "ORSXG5A=")
    RecoveryCodes.activate(user)
    webhook, secret = add_webhook(user, url="https://hooks.example.org/", events=["task.finished"])
    rotate_webhook_secret(webhook)
    set_secret_key(settings, NEW)
    with pytest.raises(CommandError):
        call_command("reencrypt")
    set_secret_key(settings, NEW, OLD)
    out = io.StringIO()
    call_command("reencrypt", stdout=out)
    assert "3 secrets" in out.getvalue()
    set_secret_key(settings, NEW)
    kept = Authenticator.objects.get(user=user, type="totp").data["secret"]
    assert SecondFactorAdapter().decrypt(kept) == "ORSXG5A="
    assert RecoveryCodes(Authenticator.objects.get(type="recovery_codes")).get_unused_codes()
    webhook.refresh_from_db()
    headers = signed_headers(webhook, message="m", at=1, body=b"x")
    assert signature(secret, message="m", at=1, body=b"x") in headers["webhook-signature"]


def test_a_key_that_is_not_a_fallback_is_not_used(settings):
    user = make_user()
    set_secret_key(settings, OLD)
    browser, pair = Client(), issue_token_pair(user)
    browser.force_login(user)
    set_secret_key(settings, NEW)
    assert browser.get("/accounts/profile/").status_code == 302
    assert status_of_me(pair.access) == 401
    with pytest.raises(DomainError):
        renew_token_pair(pair.refresh)
    with pytest.raises(signing.BadSignature):
        signing.loads(signing.dumps("x", key=OLD))


def test_servers_with_the_old_and_the_new_key_accept_each_others_tokens(settings):
    """Servers restart one by one: the new key is a fallback on all of them before any signs."""
    user = make_user()
    set_secret_key(settings, OLD, NEW)
    of_old = issue_token_pair(user)
    set_secret_key(settings, NEW, OLD)
    of_new = issue_token_pair(user)
    assert status_of_me(of_old.access) == 200
    set_secret_key(settings, OLD, NEW)
    assert status_of_me(of_new.access) == 200


def test_enrolling_a_device_again_replaces_its_token():
    worker = make_worker()
    _, first = redeem_code(issue_code(worker))
    code = issue_code(worker)
    assert check_token(first) == worker  # until the agent has the new one
    _, second = redeem_code(code)
    assert check_token(second) == worker
    with pytest.raises(DomainError, match="token_revoked"):
        check_token(first)


def test_every_secret_can_be_read_from_a_file(tmp_path):
    expected = {
        "SECRET_KEY": "$a key, with signs",
        "SECRET_KEY_FALLBACKS": "one\ntwo\n",
        "DATABASE_URL": "postgres://u:p%40ss@db:5433/site",
        "REDIS_URL": "redis://:word@redis:6379/1",
        "EMAIL_URL": "smtp+tls://u:word@mail:587",
        "S3_ACCESS_KEY_ID": "key",
        "S3_SECRET_ACCESS_KEY": "$secret",
    }
    environment = {name: value for name, value in os.environ.items() if name not in expected} | {
        "DJANGO_SETTINGS_MODULE": "webprofile.settings.prod"
    }
    for name, value in expected.items():
        (tmp_path / name).write_text(f"{value}\n", encoding="utf-8")
        environment[f"{name}_FILE"] = str(tmp_path / name)
    code = (
        "import json; from webprofile.settings import prod as s;"
        "print(json.dumps([s.SECRET_KEY, s.SECRET_KEY_FALLBACKS,"
        "*(s.DATABASES['default'][name] for name in ('HOST', 'PORT', 'PASSWORD')), s.REDIS_URL,"
        "s.EMAIL_HOST, s.EMAIL_USE_TLS, s.EMAIL_HOST_PASSWORD, s.S3_ACCESS_KEY_ID,"
        "s.S3_SECRET_ACCESS_KEY]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        "$a key, with signs", ["one", "two"], "db", 5433, "p@ss", patient(expected["REDIS_URL"]),
        "mail", True, "word", "key", "$secret",
    ]  # fmt: skip
