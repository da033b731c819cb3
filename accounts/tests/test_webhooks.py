"""A user's webhooks: pages, API, and events of devices for administrators."""

import datetime
import re

import pytest
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from accounts.api.webhook_views import DeliveryAnswer
from accounts.models import AuditEntry, Webhook
from accounts.webhooks.registration import WEBHOOKS_LIMIT, add_webhook
from tasks.lifecycle.sweep import COMING_BACK
from tasks.management.commands.sweep import Rounds
from tasks.tests.make import make_user, make_worker
from webprofile.errors import DomainError
from webprofile.messages.errors import WORDINGS
from workers.health import close_check, open_check
from workers.heartbeats import notify_lost_devices
from workers.models import HealthCheck, LastHeartbeat

pytestmark = [pytest.mark.django_db, pytest.mark.database]
URL = "https://hooks.example.org/hook"


@pytest.fixture
def alice(client):
    user = make_user("alice")
    client.force_login(user)
    return user


def test_the_page_shows_a_secret_once_and_lists_the_webhook(client, alice):
    response = client.post(
        reverse("accounts:webhooks"), {"url": URL, "events": ["task.finished"]}
    ).content.decode()
    assert URL in response
    assert "whsec_" in response
    page = reverse("accounts:webhook", args=[alice.webhooks.get().pk])
    for address in (reverse("accounts:webhooks"), page):
        assert "whsec_" not in client.get(address).content.decode()
    entry = AuditEntry.objects.get(action="webhook.add")
    # paths often contain a secret, and audit entries are permanent
    assert (entry.actor, entry.target_name) == (alice, "https://hooks.example.org")


def test_the_page_tests_rotates_and_removes_a_webhook(client, alice):
    webhook, _ = add_webhook(alice, url=URL, events=["task.finished"])

    def act(name):
        return client.post(reverse("accounts:webhook-action", args=[webhook.pk, name]), follow=True)

    assert "in progress" in act("test").content.decode()
    assert "whsec_" in act("rotate").content.decode()
    assert (
        "signed with both secrets"
        in client.get(f"/accounts/webhooks/{webhook.pk}/").content.decode()
    )
    assert "signed with both secrets" not in act("end-former").content.decode()
    assert act("explode").status_code == 404
    page = client.get(f"/accounts/webhooks/{webhook.pk}/").content.decode()
    assert "Latest calls" in page
    assert "ttempt" not in page  # an attempt is part of a task
    act("remove")
    assert not Webhook.objects.exists()


def test_the_page_shows_a_disabled_webhook_and_enables_it(client, alice):
    webhook, _ = add_webhook(alice, url=URL, events=["task.finished"])
    Webhook.objects.update(disabled_at=timezone.now())
    page = reverse("accounts:webhook", args=[webhook.pk])
    assert "disabled" in client.get(page).content.decode()
    client.post(reverse("accounts:webhook-action", args=[webhook.pk, "enable"]))
    assert "is disabled" not in client.get(page).content.decode()


def test_the_page_shows_errors_beside_the_form(client, alice):
    response = client.post(reverse("accounts:webhooks"), {"url": "http://x/", "events": ["x"]})
    assert response.status_code == 422
    assert not Webhook.objects.exists()


def test_users_get_events_of_their_own_tasks_and_a_limited_number_of_webhooks():
    alice = make_user("alice")
    with pytest.raises(DomainError, match="webhook_events"):
        add_webhook(alice, url=URL, events=["device.lost"])
    for _ in range(WEBHOOKS_LIMIT):
        add_webhook(alice, url=URL, events=["task.finished"])
    with pytest.raises(DomainError, match="webhook_limit"):
        add_webhook(alice, url=URL, events=["task.finished"])


def test_the_api_manages_webhooks_like_the_pages():
    client = APIClient()
    client.force_login(make_user("alice"))
    webhook = client.post("/api/v1/me/webhooks/", {"url": URL, "events": ["task.finished"]}).json()
    url = f"/api/v1/me/webhooks/{webhook['id']}/"
    assert webhook["secret"].startswith("whsec_")
    assert "secret" not in client.get(url).json()
    assert client.post(f"{url}secret/").json()["secret"] != webhook["secret"]
    assert client.get(url).json()["has_former_secret"] is True
    assert client.delete(f"{url}secret/").status_code == 204
    assert client.post(f"{url}deliveries/").json()["event"] == "test"
    assert len(client.get(f"{url}deliveries/").json()["results"]) == 1
    assert client.post(url).json()["disabled_at"] is None
    assert client.delete(url).status_code == 204
    assert client.get(url).status_code == 404


def test_the_api_describes_every_problem_of_a_call():
    of_changes = {"webhook_events", "webhook_limit", "webhook_busy"}
    problems = {code for code in WORDINGS if code.startswith("webhook_")} - of_changes
    text = DeliveryAnswer().fields["problem"].help_text
    assert set(re.findall(r"`(\w+)`", text)) == {code.removeprefix("webhook_") for code in problems}


def test_an_administrator_gets_one_event_of_a_lost_device(settings):
    root = make_user("root", is_staff=True)
    webhook, _ = add_webhook(root, url=URL, events=["device.lost", "device.held"])
    worker = make_worker("box")
    notify_lost_devices()
    assert not webhook.deliveries.exists()
    long_ago = timezone.now() - datetime.timedelta(seconds=settings.LEASE_S + 5)
    LastHeartbeat.objects.filter(worker=worker).update(last_seen_at=long_ago)
    for _ in range(3):
        notify_lost_devices()
    delivery = webhook.deliveries.get()
    assert (delivery.event, delivery.data["name"]) == ("device.lost", "box")
    later = long_ago + datetime.timedelta(seconds=3)
    LastHeartbeat.objects.filter(worker=worker).update(last_seen_at=later)
    notify_lost_devices()
    assert webhook.deliveries.count() == 2


def make_lost_devices(settings, *names):
    webhook, _ = add_webhook(make_user("root", is_staff=True), url=URL, events=["device.lost"])
    for name in names:
        make_worker(name)
    long_ago = timezone.now() - datetime.timedelta(seconds=settings.LEASE_S + 5)
    LastHeartbeat.objects.update(last_seen_at=long_ago)
    return webhook


def test_no_lost_devices_are_reported_while_agents_may_be_reconnecting(settings):
    webhook = make_lost_devices(settings, "box", "cube")
    began_at = timezone.now()
    Rounds(began_at).round()
    assert not webhook.deliveries.exists()
    Rounds(began_at - COMING_BACK).round()
    assert webhook.deliveries.count() == 2


def test_the_number_of_queries_does_not_depend_on_lost_devices(
    settings, django_assert_max_num_queries
):
    webhook = make_lost_devices(settings, *(f"box{number}" for number in range(6)))
    notify_lost_devices()
    with django_assert_max_num_queries(6):
        notify_lost_devices()
    assert webhook.deliveries.count() == 6


def test_the_addresses_of_a_lost_device_lead_to_it(settings, client):
    webhook = make_lost_devices(settings, "\u8bbe\u5907-1")
    notify_lost_devices()
    client.force_login(webhook.user)
    data = webhook.deliveries.get().data
    for name in ("url", "api"):
        assert data[name].isascii()
        page = client.get(data[name].removeprefix(settings.SITE_URL))
        assert page.status_code == 200
        assert data["name"] in page.text


def test_an_administrator_gets_an_event_of_a_held_device():
    root = make_user("root", is_staff=True)
    webhook, _ = add_webhook(root, url=URL, events=["device.held"])
    check = open_check(make_worker("box"), version="1.13.0", cause=HealthCheck.Cause.ASKED)
    close_check(check, HealthCheck.Result.FAILED, reason="x", detail="", held_reason="ill")
    assert webhook.deliveries.get().event == "device.held"


def test_a_demoted_administrator_gets_no_device_events(settings):
    root = make_user("root", is_staff=True)
    webhook, _ = add_webhook(root, url=URL, events=["device.lost"])
    root.is_staff = False
    root.save()
    long_ago = timezone.now() - datetime.timedelta(seconds=settings.LEASE_S + 5)
    make_worker("box")
    LastHeartbeat.objects.update(last_seen_at=long_ago)
    notify_lost_devices()
    assert not webhook.deliveries.exists()
