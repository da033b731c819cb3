"""Tests of the causes why a task waits, and of devices that would start it sooner."""

import datetime

import pytest
from django.utils import timezone, translation
from django.utils.html import escape

from agent.protocol.pairs import Pairing
from tasks.lifecycle.reasons import wording_of
from tasks.models import Purpose, Task
from tasks.scheduling.assignment import assign_waiting
from tasks.scheduling.messages import cause_words, hint_words
from tasks.scheduling.queue_status import queue_facts
from tasks.scheduling.rebinding import move_task
from tasks.submission.request import ArmRequest, PairingRequest
from tasks.tests.make import (
    cause_codes,
    change_worker,
    go_offline,
    make_task_for_any_device,
    make_user,
    make_waiting_task,
    make_worker,
    model_file,
)
from webprofile.errors import DomainError
from workers.admin import columns
from workers.models import Grant, HealthCheck, Runtime, Worker
from workers.services import revoke_worker
from workers.tokens import issue_code, redeem_code

pytestmark = [pytest.mark.django_db, pytest.mark.database]


def change(worker: Worker, **columns) -> None:
    change_worker(worker.pk, **columns)


def cause_texts(task: Task, reader) -> list[str]:
    return [cause_words(cause) for cause in queue_facts(task, reader=reader).causes]


def test_each_cause_has_a_message(alice):
    worker = make_worker("desk")
    task = make_waiting_task(alice, worker)
    assert cause_codes(task) == ["next"]
    since = timezone.now() - datetime.timedelta(minutes=9)
    change(worker, last_seen_at=since)
    # another day has a date
    is_today = since.date() == timezone.now().date()
    moment = f"{since:%H:%M}" if is_today else f"{since:%Y-%m-%d %H:%M}"
    assert cause_texts(task, alice) == [f"desk has been offline since {moment} UTC."]
    assert queue_facts(task, reader=alice).wait is None
    change(worker, last_seen_at=None)
    assert cause_texts(task, alice) == ["desk has never been online."]
    change(worker, last_seen_at=timezone.now(), is_enabled=False)
    assert cause_codes(task) == ["drained"]
    change(worker, is_enabled=True, held_at=since, held_reason="it crashed")
    assert cause_codes(task) == ["held"]
    assert "it crashed" in cause_texts(task, alice)[0]
    change(worker, held_at=None, is_public=False)
    assert cause_codes(task) == ["not_allowed"]
    Grant.objects.create(worker=worker, user=alice)
    Runtime.objects.filter(worker=worker).update(problem="no such file")
    assert cause_codes(task) == ["version_broken"]
    assert "no such file" in cause_texts(task, alice)[0]
    Runtime.objects.all().delete()
    assert cause_codes(task) == ["version_gone"]
    change(worker, retired_at=timezone.now())
    assert cause_codes(task) == ["retired", "version_gone"]


def test_device_with_a_revoked_token_starts_nothing_and_is_named_as_cause(alice):
    root = make_user("root", is_staff=True)
    worker = make_worker("desk")
    redeem_code(issue_code(worker))
    task = make_waiting_task(alice, worker)
    assert cause_codes(task) == ["next"]
    revoke_worker(worker, by=root)
    # the device still counts as online
    assert cause_codes(task) == ["shut_out"]
    assert "was revoked at" in cause_texts(task, alice)[0]
    assert queue_facts(task, reader=alice).wait is None
    assert assign_waiting() == []
    with pytest.raises(DomainError, match="target_away"):
        make_task_for_any_device(alice)
    redeem_code(issue_code(worker))
    assert cause_codes(task) == ["next"]
    assert [attempt.task for attempt in assign_waiting()] == [task]


def test_causes_of_a_task_for_any_device_name_unavailable_matches(alice):
    make_worker("big", labels={"chip": "A"})
    task = make_task_for_any_device(alice, {"chip": "A"})
    make_worker("small", labels={"chip": "A"}, online=False)
    make_worker("secret", labels={"chip": "A"}, online=False, is_public=False)
    go_offline(task.worker)
    assert cause_codes(task) == ["offline", "matches_away"]
    text = cause_texts(task, alice)[1]
    assert "No matching device accepts tasks at the moment" in text
    assert "big (offline), small (never connected)" in text
    assert "secret" not in text
    # an available match is no cause
    change(Worker.objects.get(name="small"), last_seen_at=timezone.now())
    assert cause_codes(task) == ["offline"]
    # a device that lacks an option is no match
    Task.objects.update(options={"cuda": True})
    task.refresh_from_db()
    assert cause_codes(task) == ["offline", "no_fit"]
    assert (
        "None of the matching devices supports everything that the task requests"
        in cause_texts(task, alice)[1]
    )
    # the labels were changed
    Worker.objects.update(labels={})
    assert cause_codes(task) == ["offline", "no_match"]


def test_message_for_lost_access_addresses_owner_or_administrator(alice):
    worker = make_worker("desk")
    task = make_waiting_task(alice, worker)
    change(worker, is_public=False)
    assert cause_texts(task, alice) == ["You no longer have access to desk."]
    root = make_user("root", is_staff=True)
    assert cause_texts(task, root) == ["The task’s owner no longer has access to desk."]


def test_health_check_does_not_wait_for_the_release_of_a_held_device(alice):
    worker = make_worker(is_public=False)
    check = make_waiting_task(alice, worker, purpose=Purpose.HEALTH)
    change(worker, held_at=timezone.now(), held_reason="it failed")
    assert cause_codes(check) == ["next"]


def test_reason_of_a_hold_is_translated(alice):
    worker = make_worker("desk")
    task = make_waiting_task(alice, worker)
    change(worker, held_at=timezone.now(), held_reason="It is ill.")
    HealthCheck.objects.create(
        worker=worker, runtime_version="1.13.0", cause="schedule", result="failed", reason="crashed"
    )
    with translation.override("zh-hans"):
        (words,) = cause_texts(task, alice)
        assert "It is ill." not in words
        assert str(wording_of("crashed").title) in words
        with pytest.raises(DomainError) as caught:
            make_waiting_task(alice, Worker.objects.get())
        assert caught.value.code == "worker_held"
        assert caught.value.data["reason"] == wording_of("crashed").title
        state = columns.state(Worker.objects.get())
        assert "It is ill." not in state
        assert str(wording_of("crashed").title) in state


# -- hints ----------------------------------------------------------------------------------------


def hints(task: Task) -> list[str]:
    return [hint.worker.name for hint in queue_facts(task, reader=task.owner).hints]


def test_hint_names_a_free_device_with_the_same_chip(client, alice):
    here = make_worker("x86-1", labels={"chip": "Xeon"})
    make_worker("x86-2", labels={"chip": "Xeon"})
    task = make_waiting_task(alice, here)
    change(here, last_seen_at=None)
    (hint,) = queue_facts(task, reader=alice).hints
    assert hint_words(hint) == "x86-2 with the same chip (Xeon) is idle."
    client.force_login(alice)
    page = client.get(f"/tasks/{task.pk}/").content.decode()
    assert escape("Move the task to x86-2") in page
    client.post(f"/tasks/{task.pk}/move/", {"worker": hint.worker.pk})
    task.refresh_from_db()
    assert (task.worker.name, cause_codes(task)) == ("x86-2", ["next"])


def test_hints_omit_unsuitable_devices(alice):
    here = make_worker("here", labels={"chip": "A"}, facts={"cpu_model": "Zen"})
    task = make_waiting_task(alice, here)
    change(here, last_seen_at=None)
    make_worker("other-chip", labels={"chip": "B"})
    make_worker("offline", labels={"chip": "A"}, online=False)
    make_worker("other-version", labels={"chip": "A"}, version="1.12.4")
    make_worker("private", labels={"chip": "A"}, is_public=False)
    make_worker("held", labels={"chip": "A"}, held_at=timezone.now())
    assert hints(task) == []
    make_worker("same-processor", facts={"cpu_model": "Zen"})
    assert hints(task) == ["same-processor"]


def test_hints_omit_devices_to_which_the_task_cannot_be_moved(alice):
    here = make_worker("here", labels={"chip": "A"})
    Runtime.objects.create(worker=here, version="1.12.4", kind="wheel")
    pairing = PairingRequest(Pairing(), (ArmRequest(runtime_version="1.12.4"),))
    paired = make_waiting_task(alice, here, files=[model_file()], pairing=pairing)
    for_any = make_task_for_any_device(alice)
    change(here, last_seen_at=None)
    make_worker("old", labels={"chip": "A"}, version="1.12.4")
    new = make_worker("new", labels={"chip": "A"})
    # a task keeps its version when it is moved, and a comparison needs those of all arms
    assert (hints(for_any), hints(paired)) == (["new"], [])
    Runtime.objects.create(worker=new, version="1.12.4", kind="wheel")
    assert (hints(for_any), hints(paired)) == (["new"], ["new"])
    for task in (for_any, paired):
        move_task(task, to=new)
        assert task.worker == new


def test_next_task_has_no_hints(alice):
    here = make_worker("here", labels={"chip": "A"})
    make_worker("there", labels={"chip": "A"})
    assert hints(make_waiting_task(alice, here)) == []
