"""Preferences of users: language, time zone and colours."""

import re
from pathlib import Path

import pytest
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.conf import settings
from django.core.cache import cache
from django.urls import reverse
from django.utils import timezone

from accounts import audit
from accounts.models import User
from accounts.preferences import time_zones, user_time_zone
from accounts.tests.make import ACCOUNT_PAGES, ANONYMOUS_PAGES, NEW_PASSWORD, PASSWORD
from tasks.models import Task
from tasks.tests.make import just_before_writing, make_user, make_waiting_task
from webprofile.middleware import ReaderMiddleware
from webprofile.templatetags.moments import moment

PROFILE = reverse("accounts:profile")
ROOT = Path(settings.BASE_DIR)
EMPTY = {"language": "", "time_zone": "", "theme": ""}


def test_a_user_chooses_language_zone_and_colours(client, db):
    user = make_user()
    client.force_login(user)
    form = {"language": "zh-hans", "time_zone": "Asia/Shanghai", "theme": "dark"}
    page = client.post(PROFILE, form, follow=True)
    user.refresh_from_db()
    assert (user.language, user.time_zone, user.theme) == ("zh-hans", "Asia/Shanghai", "dark")
    html = page.content.decode()
    assert '<html lang="zh-hans" data-theme="dark" data-time-zone="Asia/Shanghai">' in html
    assert "已保存" in html
    assert page.headers["Content-Language"] == "zh-hans"


@pytest.mark.parametrize(
    "change",
    [
        {"language": "tlh"},
        {"time_zone": "Mars/Olympus"},
        {"time_zone": "../../etc/passwd"},
        {"time_zone": "a" * 100_000},
        {"theme": "pink"},
        {"language": "en\0"},
    ],
)
def test_invalid_preferences_are_rejected(client, db, change):
    user = make_user()
    client.force_login(user)
    assert client.post(PROFILE, EMPTY | change).status_code == 422
    user.refresh_from_db()
    assert (user.language, user.time_zone, user.theme) == ("", "", "")


def test_the_form_changes_only_its_own_fields(client, db):
    user = make_user()
    client.force_login(user)
    more = {"is_staff": "on", "is_superuser": "on", "email": "root@example.com", "task_limit": "9"}
    client.post(PROFILE, EMPTY | more)
    assert User.objects.filter(email=user.email, is_staff=False, task_limit=None).exists()


@pytest.mark.parametrize("change", [{"is_staff": False}, {"is_active": False}, {"password": "!"}])
def test_saving_a_stale_form_does_not_revert_other_changes(client, db, change):
    user = make_user(is_staff=True)
    client.force_login(user)
    with just_before_writing("accounts_user", lambda: User.objects.update(**change)):
        client.post(PROFILE, EMPTY | {"theme": "dark"})
    assert User.objects.filter(pk=user.pk, theme="dark", **change).exists()


def test_changing_the_password_does_not_restore_permissions(client, db):
    user = make_user(is_staff=True)
    client.force_login(user)
    form = {"oldpassword": PASSWORD}
    form |= dict.fromkeys(("password1", "password2"), NEW_PASSWORD)
    with just_before_writing("accounts_user", lambda: User.objects.update(is_staff=False)):
        client.post(reverse("account_change_password"), form)
    user.refresh_from_db()
    assert user.check_password(NEW_PASSWORD)
    assert not user.is_staff


def test_an_unknown_time_zone_stays_selected(client, db):
    user = make_user(time_zone="US/Gone")
    client.force_login(user)
    assert 'value="US/Gone" selected' in client.get(PROFILE).content.decode()


def test_the_language_switch_is_stored_for_a_user(client, db):
    user = make_user(language="en")
    client.force_login(user)
    client.post(reverse("set_language"), {"language": "zh-hans", "next": PROFILE})
    assert "保存" in client.get(PROFILE).content.decode()
    client.post(reverse("set_language"), {"language": "tlh", "next": PROFILE})
    user.refresh_from_db()
    assert user.language == "zh-hans"


def test_the_language_switch_uses_a_cookie_for_anonymous_visitors(client, db):
    client.post(reverse("set_language"), {"language": "zh-hans", "next": "/accounts/login/"})
    assert "保持登录" in client.get("/accounts/login/").content.decode()


def test_a_users_language_does_not_leak_into_the_next_request(client, db):
    client.force_login(make_user(language="zh-hans"))
    client.get(PROFILE)
    client.logout()
    assert client.get("/accounts/login/").headers["Content-Language"] == "en"


@pytest.mark.parametrize(
    ("chosen", "cookie", "time"),
    [
        ("", None, "2026-11-20 22:30 UTC"),
        ("Asia/Shanghai", None, "2026-11-21 06:30"),
        ("", "America%2FNew_York", "2026-11-20 17:30"),
        ("Asia/Shanghai", "America/New_York", "2026-11-21 06:30"),
        ("", "../../etc/localtime", "2026-11-20 22:30 UTC"),
        ("", "Mars/Olympus", "2026-11-20 22:30 UTC"),
        ("", "A" * 3000, "2026-11-20 22:30 UTC"),
    ],
)
def test_dates_are_in_the_users_time_zone(client, db, chosen, cookie, time):
    user = make_user(time_zone=chosen)
    task = make_waiting_task(user)
    Task.objects.filter(pk=task.pk).update(updated_at="2026-11-20T22:30:00Z")
    client.force_login(user)
    if cookie:
        client.cookies["tz"] = cookie
    times = re.findall(r"<time[^>]*>([^<]+)</time>", client.get("/tasks/").content.decode())
    assert time in times


def test_the_time_zone_is_reset_after_a_request(client, db):
    client.force_login(make_user(time_zone="Asia/Shanghai"))
    client.get(PROFILE)
    assert timezone.get_current_timezone_name() == "UTC"


def test_a_time_also_shows_utc():
    at = timezone.datetime.fromisoformat("2026-11-20T22:30:05+00:00")
    with timezone.override("Asia/Shanghai"):
        assert str(moment(at, "seconds")) == (
            '<time datetime="2026-11-20T22:30:05+00:00" title="2026-11-20 22:30:05 UTC">'
            "2026-11-21 06:30:05</time>"
        )
        assert ">2026-11-21<" in moment(at, "days")
    assert moment(None) == ""


def test_the_list_of_time_zones_starts_with_utc():
    zones = time_zones()
    assert zones[0] == "UTC"
    assert {"Asia/Shanghai", "America/Argentina/Buenos_Aires", "Europe/Berlin"} <= set(zones)
    assert all(user_time_zone(User(time_zone=zone)) for zone in zones)


def test_no_template_calls_a_local_date_utc():
    for path in (ROOT / "templates").rglob("*.html"):
        assert not re.search(r"\|date:[^}]*\}\}\s*UTC", path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize(
    ("headers", "proxies", "address"),
    [
        ({}, 0, "127.0.0.1"),
        ({"X-Forwarded-For": "9.9.9.9"}, 0, "127.0.0.1"),
        ({"X-Forwarded-For": "9.9.9.9, 7.7.7.7"}, 1, "7.7.7.7"),
    ],
)
def test_the_audit_log_gets_the_client_address(rf, settings, headers, proxies, address):
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = proxies
    addresses = []
    ReaderMiddleware(lambda request: addresses.append(audit.client_address.get()))(
        rf.get("/", headers=headers)
    )
    assert addresses == [address]
    assert audit.client_address.get() is None


def test_a_request_without_a_session_loads_no_user(client, django_assert_num_queries, db):
    with django_assert_num_queries(0):
        client.get("/healthz")


#: names and words that are not translated
UNTRANSLATED = {"MegEngine", "Profile", "alice", "example", "webprofile", "English", "HTTPS"}
UNTRANSLATED |= {"Python", "JavaScript", "localhost", "Webhook"}


def english_words(page):
    """Return the English words in a page's text, without names."""
    html = page.content.decode()
    html = re.sub(r"<(select|script|textarea).*?</\1>", " ", html, flags=re.DOTALL)
    # tags, placeholders of texts that scripts fill, and the name of MegEngine's program
    html = re.sub(r"<[^>]+>|\{\w+\}|load_and_run", " ", html)
    return set(re.findall(r"[A-Za-z]{4,}", html)) - UNTRANSLATED


@pytest.mark.parametrize("name", ACCOUNT_PAGES)
def test_account_pages_are_translated_to_chinese(client, db, name):
    user = make_user(language="zh-hans")
    TOTP.activate(user, generate_totp_secret())
    code, *_ = RecoveryCodes.activate(user).get_unused_codes()
    client.force_login(user)
    cache.clear()  # proofs are limited for a user, and each page's user has the same number
    if name != "account_reauthenticate":
        client.post(reverse("mfa_reauthenticate"), {"code": code})
    if name == "mfa_activate_totp":
        user.authenticator_set.all().delete()
    page = client.get(reverse(name))
    assert page.status_code == 200
    assert english_words(page) == set()


@pytest.mark.parametrize("name", ANONYMOUS_PAGES)
def test_login_pages_are_translated_to_chinese(client, db, settings, name):
    settings.HAS_MAIL_SERVER = True
    client.cookies[settings.LANGUAGE_COOKIE_NAME] = "zh-hans"
    page = client.get(reverse(name))
    assert page.status_code in {200, 401}
    assert english_words(page) == set()


def test_mails_are_translated_to_chinese(client, db, settings, mailoutbox):
    settings.HAS_MAIL_SERVER = settings.ACCOUNT_EMAIL_NOTIFICATIONS = True
    settings.ACCOUNT_EMAIL_VERIFICATION = "mandatory"
    settings.ACCOUNT_PREVENT_ENUMERATION = True
    make_user()
    client.cookies[settings.LANGUAGE_COOKIE_NAME] = "zh-hans"
    new = {"email": "new@example.com", "password1": PASSWORD}
    client.post(reverse("account_signup"), new | {"password2": new["password1"]})
    for email in ("alice@example.com", "nobody@example.com"):
        client.post(reverse("account_reset_password"), {"email": email})
    assert len(mailoutbox) == 3
    names = r"https?://\S+|\S+@\S+|testserver|example\.com|MegEngine Web Profile"
    for mail in mailoutbox:
        text = re.sub(names, "", mail.subject + mail.body)
        assert re.findall(r"[A-Za-z]{4,}", text) == []
