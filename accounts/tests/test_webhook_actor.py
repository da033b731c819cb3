"""Webhook calls hold no actor, and users take turns: with real receivers and real threads."""

import ipaddress
import socket
import threading
import time

import pytest
from django.utils import timezone

from accounts import actors
from accounts.models import Webhook, WebhookDelivery
from accounts.tests.webhook_receiver import make_certificate, receiving, try_delivery
from accounts.webhooks import addresses, deliveries
from accounts.webhooks.courier import Courier
from accounts.webhooks.events import add_delivery
from accounts.webhooks.registration import add_webhook, enable_webhook, send_test_delivery
from tasks.tests.make import make_user

PATIENCE_S = 60


class SlowReceiver:
    """A receiver that answers the calls of `alice` only after `go_on`, and counts them."""

    def __init__(self, receiver):
        self.port = receiver.port
        self.go_on = threading.Event()
        self.order: list[str] = []
        self.status = 204
        self._lock = threading.Lock()
        self._now, self.most = 0, 0
        receiver.answer = self._answer

    def _answer(self, handler):
        with self._lock:
            self.order.append(handler.path)
            if "alice" in handler.path:
                self._now += 1
                self.most = max(self.most, self._now)
        if "alice" in handler.path:
            self.go_on.wait(PATIENCE_S)
            with self._lock:
                self._now -= 1
        handler.send_response(self.status)
        handler.send_header("Content-Length", "0")
        handler.end_headers()


@pytest.fixture
def receiver(tmp_path, settings, monkeypatch):
    certificate = make_certificate(tmp_path)
    settings.WEBHOOK_ALLOWED_NETWORKS = [ipaddress.ip_network("127.0.0.0/8")]
    settings.WEBHOOK_CA_FILE = str(certificate)
    system = socket.getaddrinfo
    monkeypatch.setattr(
        addresses.socket,
        "getaddrinfo",
        lambda host, port, *args, **more: system("127.0.0.1", port, *args, **more),
    )
    with receiving(certificate) as running:
        slow = SlowReceiver(running)
        yield slow
        slow.go_on.set()


@pytest.fixture
def courier(monkeypatch):
    courier = Courier()
    monkeypatch.setattr(actors, "courier", courier)
    yield courier
    if courier._threads is not None:
        courier._threads.shutdown()


def queue_delivery(receiver, user, number=1):
    url = f"https://hooks.test:{receiver.port}/{user.email.split('@')[0]}/{number}"
    webhook, _ = add_webhook(user, url=url, events=["task.finished"])
    return add_delivery(webhook, "task.finished", key=f"task {number}", data={})


def wait_until(condition):
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)


def is_delivered(delivery):
    delivery.refresh_from_db()
    return delivery.ended_at is not None


@pytest.mark.django_db(transaction=True)
class TestTurns:
    def test_slow_hosts_of_one_user_delay_no_call_of_another(self, receiver, courier):
        alice, bob = make_user("alice"), make_user("bob")
        slow = [queue_delivery(receiver, alice, number) for number in range(1, 11)]
        for delivery in slow:
            actors.deliver_webhook(delivery.pk)
        wait_until(lambda: receiver.order)
        fast = queue_delivery(receiver, bob)
        actors.deliver_webhook(fast.pk)
        wait_until(lambda: is_delivered(fast))
        assert receiver.order == ["/alice/1", "/bob/1"]
        receiver.go_on.set()
        wait_until(lambda: all(is_delivered(delivery) for delivery in slow))
        assert receiver.most == 1
        assert receiver.order[2:] == [f"/alice/{number}" for number in range(2, 11)]

    def test_users_take_turns_if_more_of_them_wait_than_calls_are_made(
        self, receiver, courier, monkeypatch
    ):
        monkeypatch.setattr("accounts.webhooks.courier.CALLS_AT_ONCE", 1)
        alice, bob = make_user("alice"), make_user("bob")
        waiting = [queue_delivery(receiver, alice, number) for number in (1, 2, 3)]
        waiting.append(queue_delivery(receiver, bob))
        receiver.go_on.set()
        actors.deliver_webhook(waiting[0].pk)
        wait_until(lambda: all(is_delivered(delivery) for delivery in waiting))
        assert receiver.order == ["/alice/1", "/bob/1", "/alice/2", "/alice/3"]

    def test_a_result_that_cannot_be_saved_stops_no_other_call(
        self, receiver, courier, monkeypatch
    ):
        alice = make_user("alice")
        lost, other = queue_delivery(receiver, alice, 1), queue_delivery(receiver, alice, 2)
        receiver.go_on.set()
        note, failed = deliveries._note, []

        def fail_once(delivery, *args):
            if not failed:
                failed.append(delivery)
                raise OSError("no database")
            note(delivery, *args)

        monkeypatch.setattr(deliveries, "_note", fail_once)
        actors.deliver_webhook(lost.pk)
        wait_until(lambda: is_delivered(other))
        lost.refresh_from_db()
        assert lost.ended_at is None
        assert lost.next_at > timezone.now()  # it is called again when the claim has expired


@pytest.mark.django_db
class TestRest:
    """After a slow failure, calls of this user to this host pause for longer each time."""

    @pytest.fixture(autouse=True)
    def _slow(self, receiver, monkeypatch):
        receiver.go_on.set()
        receiver.status = 503
        monkeypatch.setattr(deliveries, "SLOW_S", 0.0)

    def rest_of(self, delivery):
        webhook = Webhook.objects.get(pk=delivery.webhook_id)
        if webhook.rests_until is None:
            return 0
        return round((webhook.rests_until - timezone.now()).total_seconds() / 10) * 10

    def call(self, delivery):
        WebhookDelivery.objects.filter(pk=delivery.pk).update(next_at=timezone.now())
        try_delivery(delivery.pk)

    def test_deliveries_to_this_host_wait_and_those_of_others_do_not(self, receiver):
        alice, bob = make_user("alice"), make_user("bob")
        slow, other = queue_delivery(receiver, alice, 1), queue_delivery(receiver, alice, 2)
        elsewhere = add_webhook(alice, url="https://other.test/", events=["task.finished"])[0]
        there = add_delivery(elsewhere, "task.finished", key="task 3", data={})
        bobs = queue_delivery(receiver, bob)
        self.call(slow)
        due = WebhookDelivery.objects.filter(next_at__lte=timezone.now())
        assert set(due.values_list("pk", flat=True)) == {there.pk, bobs.pk}
        other.refresh_from_db()
        later = add_delivery(other.webhook, "task.finished", key="task 4", data={})
        assert later.next_at == other.next_at > timezone.now()
        test = send_test_delivery(other.webhook)  # its owner waits for it
        assert test.next_at <= timezone.now()

    def test_the_pause_doubles_up_to_a_limit_and_ends_with_an_answer(self, receiver):
        delivery = queue_delivery(receiver, make_user("alice"))
        rests = []
        for _ in range(4):
            self.call(delivery)
            rests.append(self.rest_of(delivery))
        assert rests == [30, 60, 120, 240]
        Webhook.objects.update(slow_calls=90)
        self.call(delivery)
        assert self.rest_of(delivery) == deliveries.LONGEST_REST_S
        receiver.status = 204
        self.call(delivery)
        assert self.rest_of(delivery) == 0

    def test_a_fast_failure_and_enabling_the_webhook_end_the_pause(self, receiver, monkeypatch):
        delivery = queue_delivery(receiver, make_user("alice"))
        self.call(delivery)
        Webhook.objects.update(disabled_at=timezone.now())
        enable_webhook(delivery.webhook)
        assert self.rest_of(delivery) == 0
        self.call(delivery)
        monkeypatch.setattr(deliveries, "SLOW_S", 60.0)
        self.call(delivery)
        assert self.rest_of(delivery) == 0
