"""Tests of times in the admin site: in the user's time zone, with UTC as the tooltip."""

import datetime as dt
import re

import pytest
from allauth.usersessions.models import UserSession
from django.test import Client
from django.utils import timezone

from accounts.audit import record_audit_entry
from accounts.models import AuditEntry, User
from profiles.models import ProfileUpload
from tasks.tests.make import make_user, make_worker, set_last_heartbeat
from workers.models import HealthCheck, Worker

pytestmark = pytest.mark.django_db

AT = dt.datetime(2026, 3, 4, 20, 30, 15, tzinfo=dt.UTC)
LOCAL, UTC = "2026-03-05 04:30:15", "2026-03-04 20:30:15 UTC"
TIME = f'<time datetime="{AT.isoformat()}" title="{UTC}">{LOCAL}</time>'


@pytest.fixture(params=["en", "zh-hans"])
def root(request, client):
    user = make_user(
        "root",
        is_staff=True,
        is_superuser=True,
        language=request.param,
        time_zone="Asia/Shanghai",
    )
    client.force_login(user)
    return user


@pytest.fixture
def pages(root):
    """Number of times on each page. All rows have the same time."""
    bob, worker = make_user("bob", date_joined=AT), make_worker("box")
    Client().post("/accounts/login/", {"login": bob.email, "password": "correct horse battery"})
    UserSession.objects.update(created_at=AT, last_seen_at=AT)
    User.objects.filter(pk=bob.pk).update(last_login=AT)
    HealthCheck.objects.create(worker=worker, runtime_version="1.13.0", cause="asked")
    HealthCheck.objects.update(created_at=AT)
    Worker.objects.update(created_at=AT)
    upload = ProfileUpload.objects.create(owner=bob, name="run", size_bytes=1)
    ProfileUpload.objects.update(created_at=AT)
    entry = record_audit_entry("worker.drain", worker, by=root, after={"enabled": False})
    AuditEntry.objects.update(at=AT)
    return {
        "/admin/": 1,
        "/admin/accounts/auditentry/": 1,
        f"/admin/accounts/auditentry/{entry.pk}/change/": 1,
        "/admin/accounts/user/": 1,
        f"/admin/accounts/user/{bob.pk}/change/": 4,
        f"/admin/workers/worker/{worker.pk}/change/": 3,
        "/admin/profiles/profileupload/": 1,
        f"/admin/profiles/profileupload/{upload.pk}/change/": 1,
    }


def test_admin_pages_show_times_in_the_zone_of_the_user(client, pages):
    for url, times in pages.items():
        page = client.get(url).content.decode()
        assert page.count(TIME) == times, url
        # not in the format of Django, which has the name of the month
        assert not re.search(r"March \d, 2026, |年3月\d日 \d", page), url


def test_last_heartbeat_has_its_time_as_a_tooltip(client, root):
    set_last_heartbeat(AT, make_worker("box").pk)
    page = client.get("/admin/workers/worker/").content.decode()
    assert f'title="{LOCAL} · {UTC}"' in page


def test_user_without_a_time_zone_gets_utc(client, root):
    root.time_zone = ""
    root.save(update_fields=["time_zone"])
    worker = make_worker("box")
    record_audit_entry("worker.drain", worker, by=root, after={"enabled": False})
    AuditEntry.objects.update(at=AT)
    set_last_heartbeat(timezone.now())
    page = client.get("/admin/accounts/auditentry/").content.decode()
    assert f'<time datetime="{AT.isoformat()}">{UTC}</time>' in page
    (tooltip,) = re.findall(
        r'heartbeat__time".*?title="(.*?)"', client.get("/admin/workers/worker/").content.decode()
    )
    assert re.fullmatch(r"[\d-]+ [\d:]+ UTC", tooltip)
