"""`manage.py workers`: enrol, drain, retire, list."""

import io
import json

import pytest
from django.core.management import CommandError, call_command

from accounts.models import AuditEntry
from tasks.tests.make import make_user, make_waiting_task, make_worker
from webprofile.admin.entries import differences
from workers import tokens
from workers.models import Worker

pytestmark = pytest.mark.django_db


def workers(*arguments: str) -> str:
    out = io.StringIO()
    call_command("workers", *arguments, stdout=out)
    return out.getvalue()


def test_enrol_registers_a_device_and_prints_the_command():
    line = workers("enrol", "pi-4").strip()
    assert line.count("\n") == 0
    assert line.startswith("curl ")
    code = line.split("--code ")[1].split()[0]
    worker, _ = tokens.redeem_code(code)
    assert (worker.name, worker.is_public) == ("pi-4", False)
    assert code not in str(list(AuditEntry.objects.values()))


def test_enrolling_again_revokes_the_previous_code():
    first = workers("enrol", "pi-4", "--public").split("--code ")[1].split()[0]
    assert "python -m agent enrol" in workers("enrol", "pi-4", "--with", "clone")
    with pytest.raises(Exception, match="code_used"):
        tokens.redeem_code(first)
    assert Worker.objects.get().is_public
    with pytest.raises(CommandError, match="publish"):
        workers("enrol", "pi-4", "--public")
    with pytest.raises(CommandError):
        workers("enrol", "no spaces")


def test_a_device_is_drained_and_resumed():
    make_worker("pi-4")
    assert "pi-4 is drained" in workers("drain", "pi-4")
    assert workers("drain", "pi-4") == "pi-4 was already drained.\n"
    assert not Worker.objects.get().is_enabled
    workers("resume", "pi-4")
    assert Worker.objects.get().is_enabled


def test_retirement_needs_confirmation_and_removes_the_device_from_lists(monkeypatch):
    make_worker("pi-4")
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))  # no terminal
    with pytest.raises(CommandError, match="--yes"):
        workers("retire", "pi-4")
    assert Worker.objects.get().retired_at is None
    workers("retire", "pi-4", "--yes")
    assert Worker.objects.get().retired_at is not None
    assert "pi-4" not in workers("list")
    assert "retired" in workers("list", "--retired")


def test_an_unknown_device_prevents_all_changes():
    make_worker("pi-4")
    with pytest.raises(CommandError, match="Device none does not exist"):
        workers("drain", "pi-4", "none")
    assert Worker.objects.get().is_enabled


def test_the_list_counts_waiting_tasks_and_live_attempts():
    busy = make_worker("busy")
    alice = make_user()
    for _ in range(3):
        make_waiting_task(alice, busy)
    make_worker("idle", online=False)
    rows = {row["device"]: row for row in map(json.loads, workers("list", "--json").splitlines())}
    assert rows["busy"]["waiting"] + rows["busy"]["live"] == 3
    assert (rows["idle"]["waiting"], rows["idle"]["live"]) == (0, 0)
    assert rows["idle"]["heartbeat"] == "never"


@pytest.mark.usefixtures("storage")
def test_a_health_check_is_requested_and_an_offline_device_does_not_block_others():
    make_worker("away", online=False), make_worker("box")
    out = io.StringIO()
    with pytest.raises(CommandError, match=r"^away cannot be checked now"):
        call_command("workers", "health-check", "away", "box", stdout=out)
    message = "Health check requested: box. It runs when the device is idle.\n"
    assert out.getvalue() == message
    entry = AuditEntry.objects.get(action="worker.health_check")
    assert (entry.actor, entry.target_name) == (None, "box")
    assert [str(change) for change in differences(entry)] == ["MegEngine version: 1.13.0"]
