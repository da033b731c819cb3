"""Messages that administrators see after an action on devices."""

import pytest
from django.utils import timezone

from accounts.models import AuditEntry
from tasks.tests.make import make_worker
from webprofile.tests.admin_messages import messages_after
from workers.models import HealthCheck
from workers.tokens import issue_code

pytestmark = pytest.mark.django_db

LIST = "/admin/workers/worker/"


@pytest.fixture
def root(client, root):
    client.force_login(root)
    return root


def test_an_error_names_its_device_once(client, root):
    offline = make_worker("x86-2", online=False)
    (text,) = messages_after(client, LIST, "health_check", offline)
    assert text.startswith("x86-2 cannot be checked now")
    assert text.count("x86-2") == 1


@pytest.mark.usefixtures("storage")
def test_a_health_check_is_reported_as_requested(client, root):
    one, two, three = (make_worker(name) for name in ("box", "board", "phone"))
    assert messages_after(client, LIST, "health_check", one) == [
        "Health check requested: box. It runs when the device is idle."
    ]
    assert messages_after(client, LIST, "health_check", two, three) == [
        "Health checks requested: board, phone. Each runs when its device is idle."
    ]
    assert HealthCheck.objects.filter(result="").count() == 3


@pytest.mark.usefixtures("storage")
def test_the_page_of_a_device_has_the_same_message(client, root):
    worker = make_worker("box")
    page = client.post(f"/workers/{worker.name}/check/", follow=True).content.decode()
    assert "Health check requested: box. It runs when the device is idle." in page


def test_a_health_check_that_cannot_start_is_an_error(client, root, settings):
    settings.S3_ENDPOINT_URL = settings.S3_PUBLIC_ENDPOINT_URL = "http://127.0.0.1:9"
    (text,) = messages_after(client, LIST, "health_check", make_worker("box"))
    assert text.startswith("The health check of box could not start")
    assert HealthCheck.objects.get().result == "abandoned"
    assert AuditEntry.objects.get().action == "worker.health_check"


@pytest.mark.parametrize(
    ("name", "before", "one", "several"),
    [
        ("resume", {"is_enabled": False}, "a accepts tasks again.", "b, c accept tasks again."),
        (
            "resume",
            {"held_at": timezone.now(), "held_reason": "timed out"},
            "a accepts tasks again.",
            "b, c accept tasks again.",
        ),
        (
            "publish",
            {"is_public": False},
            "a is public: all users can use it.",
            "b, c are public: all users can use them.",
        ),
        (
            "hide",
            {"is_public": True},
            "a is private: only users with a grant can use it.",
            "b, c are private: only users with a grant can use them.",
        ),
    ],
)
def test_messages_have_singular_and_plural_forms(client, root, name, before, one, several):
    a, b, c = (make_worker(letter, **before) for letter in "abc")
    assert messages_after(client, LIST, name, a) == [one]
    assert messages_after(client, LIST, name, b, c) == [several]


def test_an_unused_code_is_revoked(client, root):
    worker = make_worker("box")
    issue_code(worker)
    assert messages_after(client, LIST, "revoke", worker) == [
        "The token of box was revoked; enrol the device again to reconnect it."
    ]
    assert messages_after(client, LIST, "revoke", worker) == [
        "The token of box was already revoked."
    ]


def test_an_expired_code_has_nothing_to_revoke(client, root):
    worker = make_worker("box")
    issue_code(worker)
    worker.secrets.update(expires_at=timezone.now())
    assert messages_after(client, LIST, "revoke", worker) == [
        "The token of box was already revoked."
    ]


def test_messages_are_translated_to_chinese(client, root):
    root.language = "zh-hans"
    root.save(update_fields=["language"])
    drained, served = make_worker("a", is_enabled=False), make_worker("b")
    assert messages_after(client, LIST, "drain", drained, served) == [
        "b 已停止派发：不再获得新任务，正在运行的任务继续。",
        "a 此前已停止派发。",
    ]
