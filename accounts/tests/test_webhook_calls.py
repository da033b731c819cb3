"""Webhook calls against real receivers: addresses, signatures, failures and retries."""

import ipaddress
import json
import socket
import time

import dramatiq
import pytest
from django.utils import timezone
from prometheus_client import REGISTRY

from accounts.models import AuditEntry, Webhook, WebhookDelivery
from accounts.tests.webhook_receiver import make_certificate, receiving, try_delivery
from accounts.webhooks import addresses, client, deliveries
from accounts.webhooks.deliveries import MOST_CALLS, sweep_deliveries
from accounts.webhooks.events import add_device_deliveries
from accounts.webhooks.registration import (
    add_webhook,
    enable_webhook,
    end_former_secret,
    rotate_webhook_secret,
    send_test_delivery,
)
from accounts.webhooks.signatures import encrypt_secret, signature, signed_headers
from tasks.lifecycle.outcomes import abandon_task
from tasks.tests.make import make_task, make_user, make_worker
from webprofile.errors import DomainError

pytestmark = pytest.mark.django_db


@pytest.fixture
def certificate(tmp_path):
    return make_certificate(tmp_path)


@pytest.fixture
def receiver(certificate, settings, names):
    settings.WEBHOOK_ALLOWED_NETWORKS = [ipaddress.ip_network("127.0.0.0/8")]
    settings.WEBHOOK_CA_FILE = str(certificate)
    with receiving(certificate) as running:
        yield running


@pytest.fixture
def names(monkeypatch):
    """Addresses of host names for a fake resolver; `lookups` are the names it was called with."""
    known = {"hooks.test": ["127.0.0.1"]}
    lookups = []
    system = socket.getaddrinfo

    def resolve(host, port, *args, **more):
        lookups.append(host)
        if host not in known:
            return system(host, port, *args, **more)
        targets = known[host]() if callable(known[host]) else known[host]
        return [address for target in targets for address in system(target, port, *args, **more)]

    monkeypatch.setattr(addresses.socket, "getaddrinfo", resolve)
    known["lookups"] = lookups
    return known


def make_webhook(receiver, user=None, events=("task.finished",)):
    return add_webhook(
        user or make_user(), url=f"https://hooks.test:{receiver.port}/hook?x=1", events=events
    )


def deliver(delivery):
    WebhookDelivery.objects.filter(pk=delivery.pk).update(next_at=timezone.now())
    try_delivery(delivery.pk)
    delivery.refresh_from_db()
    return delivery


def test_a_finished_task_is_delivered_with_a_valid_signature(receiver):
    webhook, secret = make_webhook(receiver)
    task = make_task(owner=webhook.user, worker=make_worker())
    abandon_task(task)
    delivery = deliver(webhook.deliveries.get())
    assert (delivery.status, delivery.problem, delivery.next_at) == (204, "", None)
    ((path, headers, body),) = receiver.calls
    assert path == "/hook?x=1"
    assert headers["host"] == f"hooks.test:{receiver.port}"
    message = json.loads(body)
    assert (message["type"], message["data"]["task"]) == ("task.finished", task.pk)
    assert message["data"]["outcome"] == "cancelled"
    assert message["data"]["url"].endswith(f"/tasks/{task.pk}/")
    at = int(headers["webhook-timestamp"])
    assert abs(at - time.time()) < 60
    proof = signature(secret, message=headers["webhook-id"], at=at, body=body)
    assert headers["webhook-signature"] == proof
    assert "model" not in body.decode()


def test_signature_headers_match_the_example_of_the_specification():
    """Source: the example of https://www.standardwebhooks.com; for the second secret and for
    non-ASCII made by the code that signed before its library did.
    """
    webhook = Webhook(
        secret=encrypt_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        former_secret=encrypt_secret("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"),
    )
    message, body = "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}'
    assert signed_headers(webhook, message=message, at=1614265330, body=body) == {
        "webhook-id": message,
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        " v1,/485aUtxlie+TIScVpHggMfqOB4so2KWb7+Gf727B44=",
    }
    body = '{"name": "模型"}'.encode()
    proof = signature("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", message="m", at=1, body=body)
    assert proof == "v1,4YWPcg+/p5VNeoVgdydyatqwmJS87SCuH8/tUey5GMY="


def test_both_secrets_sign_until_the_former_one_is_ended(receiver):
    webhook, first = make_webhook(receiver)
    second = rotate_webhook_secret(webhook)
    for expected in ([second, first], [second]):
        deliver(send_test_delivery(webhook))
        _, headers, body = receiver.calls[-1]
        message, at = headers["webhook-id"], int(headers["webhook-timestamp"])
        proofs = [signature(secret, message=message, at=at, body=body) for secret in expected]
        assert headers["webhook-signature"].split() == proofs
        end_former_secret(webhook)


def test_secrets_are_encrypted_and_survive_a_new_secret_key(receiver, settings):
    webhook, secret = make_webhook(receiver)
    assert secret not in json.dumps(list(Webhook.objects.values()), default=str)
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another key of this site"
    assert deliver(send_test_delivery(webhook)).status == 204


def test_a_failed_call_is_retried_with_pauses_and_finally_given_up(receiver):
    receiver.status = 500
    webhook, _ = make_webhook(receiver)
    abandon_task(make_task(owner=webhook.user, worker=make_worker()))
    delivery = webhook.deliveries.get()
    pauses = []
    for _ in range(MOST_CALLS):
        deliver(delivery)
        if delivery.next_at:
            pauses.append((delivery.next_at - timezone.now()).total_seconds())
    assert pauses == sorted(pauses)
    assert len(receiver.calls) == MOST_CALLS
    assert (delivery.next_at, delivery.status, delivery.problem) == (None, 500, "status")
    assert len({headers["webhook-id"] for _, headers, _ in receiver.calls}) == 1


def test_a_webhook_is_disabled_after_too_many_failures_until_it_is_enabled(receiver, monkeypatch):
    monkeypatch.setattr(deliveries, "MOST_CALLS", 1)
    receiver.status = 404
    webhook, _ = make_webhook(receiver)
    worker = make_worker()
    for _ in range(deliveries.MOST_FAILURES):
        abandon_task(make_task(owner=webhook.user, worker=worker))
        deliver(webhook.deliveries.first())
    webhook.refresh_from_db()
    assert webhook.disabled_at
    assert AuditEntry.objects.filter(action="webhook.disable").count() == 1
    abandon_task(make_task(owner=webhook.user, worker=worker))
    assert webhook.deliveries.count() == deliveries.MOST_FAILURES
    enable_webhook(webhook)
    abandon_task(make_task(owner=webhook.user, worker=worker))
    assert webhook.deliveries.count() == deliveries.MOST_FAILURES + 1


def test_pending_deliveries_of_a_disabled_webhook_are_dropped(receiver, monkeypatch):
    monkeypatch.setattr(deliveries, "MOST_FAILURES", 1)
    receiver.status = 404
    webhook, _ = make_webhook(receiver)
    worker = make_worker()
    for _ in range(2):
        abandon_task(make_task(owner=webhook.user, worker=worker))
    waits, fails = webhook.deliveries.all()
    WebhookDelivery.objects.filter(pk=fails.pk).update(attempts=MOST_CALLS - 1)
    deliver(fails)
    webhook.refresh_from_db()
    assert webhook.disabled_at
    enable_webhook(webhook)
    waits.refresh_from_db()
    assert (waits.next_at, waits.problem) == (None, "disabled")


def test_two_actors_call_once_and_a_lost_message_is_repeated_by_the_sweep(receiver, monkeypatch):
    messages = []
    monkeypatch.setattr(deliveries, "enqueue", lambda _, *args, queue: messages.append(args))
    webhook, _ = make_webhook(receiver)
    delivery = send_test_delivery(webhook)
    try_delivery(delivery.pk)
    try_delivery(delivery.pk)
    assert len(receiver.calls) == 1
    WebhookDelivery.objects.filter(pk=delivery.pk).update(next_at=timezone.now(), ended_at=None)
    sweep_deliveries()
    assert [args for args in messages] == [(delivery.pk,)]


def test_the_sweep_does_not_repeat_a_message_in_each_round(receiver, monkeypatch):
    messages = []
    monkeypatch.setattr(deliveries, "enqueue", lambda _, pk, queue: messages.append(pk))
    webhook, _ = make_webhook(receiver)
    delivery = send_test_delivery(webhook)
    for _ in range(3):
        sweep_deliveries()
    assert messages == [delivery.pk]
    long_ago = timezone.now() - deliveries.PATIENCE
    WebhookDelivery.objects.update(hinted_at=long_ago, next_at=long_ago)
    sweep_deliveries()
    assert len(messages) == 2
    WebhookDelivery.objects.update(next_at=timezone.now())  # the pause after a failure is over
    sweep_deliveries()
    assert len(messages) == 3


def test_an_unreachable_broker_is_tried_once_per_round_and_counted(receiver, monkeypatch):
    sent = []

    def silent(message):
        sent.append(message)
        raise ConnectionError

    webhook, _ = make_webhook(receiver)
    for _ in range(3):
        send_test_delivery(webhook)
    monkeypatch.setattr(dramatiq.get_broker(), "enqueue", silent)
    metric = ("mgw_messages_lost_total", {"hint": "deliver_webhook"})
    before = REGISTRY.get_sample_value(*metric) or 0
    sweep_deliveries()
    assert len(sent) == 1
    assert REGISTRY.get_sample_value(*metric) == before + 1
    assert not WebhookDelivery.objects.exclude(hinted_at=None).exists()


def test_internal_errors_are_retried_and_disable_no_webhook(receiver, settings):
    webhook, _ = make_webhook(receiver)
    settings.WEBHOOK_CA_FILE = "/nowhere"
    abandon_task(make_task(owner=webhook.user, worker=make_worker()))
    delivery = webhook.deliveries.get()
    for _ in range(MOST_CALLS):
        assert deliver(delivery).problem == "broke"
    assert delivery.next_at is None
    webhook.refresh_from_db()
    assert (webhook.failures, receiver.calls) == (0, [])


def test_deliveries_whose_actor_always_dies_are_given_up(receiver):
    webhook, _ = make_webhook(receiver)
    abandon_task(make_task(owner=webhook.user, worker=make_worker()))
    webhook.deliveries.update(attempts=MOST_CALLS)
    delivery = deliver(webhook.deliveries.get())
    assert (delivery.problem, delivery.next_at, receiver.calls) == ("broke", None, [])


def test_a_demoted_administrator_gets_no_pending_device_events(receiver):
    root = make_user("root", is_staff=True)
    webhook, _ = make_webhook(receiver, root, events=["device.lost"])
    add_device_deliveries(Webhook.Event.DEVICE_LOST, [(1, "box", timezone.now())])
    root.is_staff = False
    root.save()
    delivery = deliver(webhook.deliveries.get())
    assert (delivery.problem, delivery.next_at, receiver.calls) == ("not_yours", None, [])


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(receiver, status):
    receiver.status = status
    receiver.headers = {"Location": f"https://hooks.test:{receiver.port}/elsewhere"}
    webhook, _ = make_webhook(receiver)
    assert deliver(send_test_delivery(webhook)).problem == "status"
    assert [path for path, _, _ in receiver.calls] == ["/hook?x=1"]


def test_an_endless_response_is_cut_off(receiver, monkeypatch):
    monkeypatch.setattr(client, "TOTAL_S", 0.5)
    sent = []

    def drip(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while len(sent) < 100:
            handler.wfile.write(b"X-More: x\r\n")
            sent.append(1)
            time.sleep(0.1)

    receiver.answer = drip
    webhook, _ = make_webhook(receiver)
    assert deliver(send_test_delivery(webhook)).problem == "timeout"
    assert len(sent) < 50


def test_a_large_response_is_not_read(receiver):
    def flood(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        for _ in range(1000):
            handler.wfile.write(bytes(1_000_000))

    receiver.answer = flood
    webhook, _ = make_webhook(receiver)
    assert deliver(send_test_delivery(webhook)).status == 200


def test_a_certificate_with_another_name_or_issuer_is_rejected(receiver, settings, names):
    names["other.test"] = ["127.0.0.1"]
    for url, trusted in ((f"https://other.test:{receiver.port}/", True), ("", False)):
        settings.WEBHOOK_CA_FILE = settings.WEBHOOK_CA_FILE if trusted else ""
        url = url or f"https://hooks.test:{receiver.port}/"
        with pytest.raises(DomainError, match="webhook_tls"):
            client.send(url, b"{}", {})
    assert receiver.calls == []


def test_the_host_name_is_resolved_once_per_call(receiver, names):
    targets = iter([["127.0.0.1"], ["169.254.169.254"]])
    names["rebinding.test"] = lambda: next(targets)
    # the certificate of the first address has another name
    with pytest.raises(DomainError, match="webhook_tls"):
        client.send(f"https://rebinding.test:{receiver.port}/", b"{}", {})
    assert names["lookups"].count("rebinding.test") == 1


def test_proxies_of_the_environment_are_ignored(receiver, monkeypatch):
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    webhook, _ = make_webhook(receiver)
    assert deliver(send_test_delivery(webhook)).status == 204


HOSTILE = [
    "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1.", "localhost",
    "localhost.", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "0", "[::]",
    "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254", "[fe80::1]",
    "[fd00::1]", "[fec0::1]", "224.0.0.1", "[ff02::1]", "255.255.255.255", "192.0.0.1",
    "198.18.0.1", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::127.0.0.1]", "[2001::1]",
    "[fd00:ec2::254]", "240.0.0.1",
]  # fmt: skip


@pytest.mark.parametrize("host", HOSTILE)
def test_local_and_private_addresses_are_not_called(host, settings):
    settings.WEBHOOK_ALLOWED_NETWORKS = []
    with pytest.raises(DomainError) as caught:
        client.send(f"https://{host}/latest/meta-data/", b"{}", {})
    assert caught.value.code in {"webhook_refused", "webhook_unknown_name"}


#: all blocks of IANA's special-purpose registries, and those of multicast and former uses
SPECIAL = [
    "0.0.0.0/8", "0.0.0.0/32", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
    "172.16.0.0/12", "192.0.0.0/24", "192.0.0.0/29", "192.0.0.8/32", "192.0.0.9/32",
    "192.0.0.10/32", "192.0.0.170/32", "192.0.0.171/32", "192.0.2.0/24", "192.31.196.0/24",
    "192.52.193.0/24", "192.88.99.0/24", "192.88.99.2/32", "192.168.0.0/16", "192.175.48.0/24",
    "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4", "255.255.255.255/32",
    "224.0.0.0/4", "::1/128", "::/128", "64:ff9b::/96", "64:ff9b:1::/48",
    "100::/64", "100:0:0:1::/64", "2001::/23", "2001::/32", "2001:1::1/128", "2001:1::2/128",
    "2001:1::3/128", "2001:2::/48", "2001:3::/32", "2001:4:112::/48", "2001:10::/28",
    "2001:20::/28", "2001:30::/28", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
    "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8", "::/96",
]  # fmt: skip
PUBLIC = [
    "1.0.0.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "172.15.255.255",
    "172.32.0.0", "192.0.1.0", "192.88.98.255", "192.88.100.0", "193.0.0.1", "198.20.0.0",
    "223.255.255.255", "2001:200::1", "2001:4860:4860::8888", "2003::1", "2606:4700::1111",
    "2a00:1450::1", "::ffff:8.8.8.8",
]  # fmt: skip


@pytest.mark.parametrize("block", SPECIAL)
def test_addresses_of_special_purpose_are_not_called(block, settings):
    settings.WEBHOOK_ALLOWED_NETWORKS = []
    network = ipaddress.ip_network(block)
    middle = network[network.num_addresses // 2]
    for address in (network[0], middle, network[-1]):
        assert not addresses.may_be_called(str(address), 443)
        if address.version == 4:
            assert not addresses.may_be_called(f"::ffff:{address}", 443)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_called(address, settings):
    settings.WEBHOOK_ALLOWED_NETWORKS = []
    assert addresses.may_be_called(address, 443)


@pytest.mark.parametrize("prefix", ["64:ff9b::", "2002:{:x}:{:x}::", "2001:0:{:x}:{:x}::", "::"])
def test_an_address_that_embeds_a_private_one_is_not_called(prefix, settings):
    settings.WEBHOOK_ALLOWED_NETWORKS = []
    for private in ("10.0.0.1", "127.0.0.1", "192.168.1.1"):
        number = int(ipaddress.IPv4Address(private))
        high, low = number >> 16, number & 0xFFFF
        text = prefix.format(high, low) if "{" in prefix else f"{prefix}{high:x}:{low:x}"
        assert not addresses.may_be_called(text, 443)


def test_a_host_with_a_public_and_a_private_address_is_not_called(settings, names):
    settings.WEBHOOK_ALLOWED_NETWORKS = []
    names["mixed.test"] = ["93.184.215.14", "127.0.0.1"]
    with pytest.raises(DomainError, match="webhook_refused"):
        addresses.endpoint_of("https://mixed.test/")
    names["good.test"] = ["93.184.215.14"]
    assert addresses.endpoint_of("https://good.test/").address == "93.184.215.14"


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.test/", "ftp://hooks.test/", "https://", "https:///x", "hooks.test",
        "https://user:word@hooks.test/", "https://@hooks.test/", "https://hooks.test:22/",
        "https://hooks.test:99999/", "https://hooks.test/#x", "https://hooks.test/a b",
        "https://hooks.test/\r\nHost: x", "https://hooks.test\\@127.0.0.1/", "https://höoks.test/",
        "https://[::1/", "https://hooks.test/" + "x" * 500, "file:///etc/passwd", "",
    ],
)  # fmt: skip
def test_an_invalid_url_is_rejected(url, settings):
    settings.WEBHOOK_ALLOWED_NETWORKS = []
    with pytest.raises(DomainError, match=r"webhook_url|character_bad"):
        add_webhook(make_user(), url=url, events=["task.finished"])
