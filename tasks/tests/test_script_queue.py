"""Tests of scheduling scripts: devices that allow them, and devices that stop doing so."""

import datetime

import pytest
from django.utils import timezone, translation

from agent.protocol.messages import Script
from tasks.dispatch import gateway
from tasks.lifecycle.attempts import assign_attempt
from tasks.lifecycle.sweep import sweep
from tasks.models import Attempt, Task
from tasks.scheduling.assignment import assign_waiting, rebind_orphans
from tasks.scheduling.messages import STUCK, cause_words, queue_rows
from tasks.scheduling.queue_status import outlook, queue_facts
from tasks.scheduling.rebinding import move_task
from tasks.scheduling.targets import Target
from tasks.submission.creation import create_task
from tasks.submission.request import TaskRequest
from tasks.submission.uploads import submit_task
from tasks.tests.make import cause_codes, make_waiting_task, make_worker, stored_objects
from tasks.tests.scripts import SCRIPTS_HELLO, make_script_task, make_script_worker, program_file
from webprofile.errors import DomainError
from webprofile.messages.errors import word
from workers import services
from workers.models import Runtime, Worker

pytestmark = [pytest.mark.django_db, pytest.mark.database]


def make_script_task_for_any_device(owner, **target) -> Task:
    """Create a waiting script task with a target."""
    request = TaskRequest(
        target=Target(scripts=True, **target), script=Script(), files=(program_file(),)
    )
    task = create_task(owner=owner, request=request)
    submit_task(task, stored_objects(task))
    task.refresh_from_db()
    return task


def test_order_of_a_script_contains_program_and_arguments(alice, storage):
    worker = make_script_worker()
    make_script_task(alice, worker, script=Script(entry="a/main.py", arguments=("1",)), files=[
        program_file(name="all.zip"),
        program_file(kind="data", name="table.npy"),
    ])  # fmt: skip
    (attempt,) = assign_waiting([worker.pk])
    (start,) = gateway.desired_state(worker.pk)
    assert start.attempt == attempt.pk
    assert start.script == Script(entry="a/main.py", arguments=("1",))
    assert (start.model.name, [file.name for file in start.data]) == ("all.zip", ["table.npy"])
    assert (start.options, start.inputs) == ({}, ())


def test_order_of_a_model_has_no_script(alice, storage):
    worker = make_script_worker()
    make_waiting_task(alice, worker)
    assign_waiting([worker.pk])
    (start,) = gateway.desired_state(worker.pk)
    assert (start.script, start.model.name) == (None, "model.mge")


def test_hello_sets_whether_a_device_offers_scripts(alice):
    worker = make_worker(allows_scripts=True)
    gateway.on_hello(worker, SCRIPTS_HELLO)
    assert Worker.objects.get().takes_scripts
    gateway.on_hello(Worker.objects.get(), SCRIPTS_HELLO.model_copy(update={"features": []}))
    assert not Worker.objects.get().offers_scripts


@pytest.mark.parametrize(
    ("columns", "code"),
    [
        ({"allows_scripts": False}, "scripts_not_allowed"),
        ({"offers_scripts": False}, "scripts_not_offered"),
    ],
)
def test_script_waits_while_its_device_forbids_scripts(client, alice, columns, code):
    worker = make_script_worker("lab")
    task, model = make_script_task(alice, worker), make_waiting_task(alice, worker)
    Worker.objects.update(**columns)
    assert [attempt.task_id for attempt in assign_waiting()] == [model.pk]
    assert cause_codes(task) == [code]
    facts = queue_facts(task, reader=alice)
    assert queue_rows(facts)["is_stuck"]
    client.force_login(alice)
    assert cause_words(facts.causes[0]) in client.get(f"/tasks/{task.pk}/").content.decode()
    with translation.override("zh-hans"):
        assert "lab" in cause_words(facts.causes[0])
    Worker.objects.update(allows_scripts=True, offers_scripts=True, slots=2)
    assert [attempt.task_id for attempt in assign_waiting()] == [task.pk]


def test_script_waits_for_a_wheel(alice):
    worker = make_script_worker()
    task = make_script_task(alice, worker)
    Runtime.objects.update(kind="binary")
    assert assign_waiting() == []
    assert cause_codes(task) == ["script_needs_wheel"]
    assert {"scripts_not_allowed", "scripts_not_offered", "script_needs_wheel"} <= STUCK


def test_assignment_after_scripts_are_forbidden_fails(alice):
    task = make_script_task(alice)
    Worker.objects.update(allows_scripts=False)
    assert assign_attempt(task, slot=0) is None
    assert not Attempt.objects.exists()


def test_unaccepted_order_is_withdrawn_when_scripts_are_forbidden(alice, storage):
    worker = make_script_worker()
    task = make_script_task(alice, worker)
    (attempt,) = assign_waiting([worker.pk])
    services.forbid_worker_scripts(worker, by=None)
    assert gateway.desired_state(worker.pk) == []
    task.refresh_from_db()
    attempt.refresh_from_db()
    assert (task.state, attempt.end_reason) == ("waiting", "scripts_withdrawn")
    assert cause_codes(task)[0] == "scripts_not_allowed"


def test_running_script_continues_when_scripts_are_forbidden(alice, storage):
    worker = make_script_worker()
    make_script_task(alice, worker)
    assign_waiting([worker.pk])
    Attempt.objects.update(accepted_at=timezone.now())
    services.forbid_worker_scripts(worker, by=None)
    gateway.desired_state(worker.pk)
    assert Attempt.objects.get().ended_at is None


def test_sweep_fails_an_old_script_on_a_device_that_forbids_it(alice, settings):
    task = make_script_task(alice)
    long_ago = timezone.now() - datetime.timedelta(seconds=settings.OFFLINE_GRACE_S + 60)
    Task.objects.update(submitted_at=long_ago)
    sweep()
    task.refresh_from_db()
    assert task.is_live  # the device still allows it
    Worker.objects.update(allows_scripts=False)
    sweep()
    task.refresh_from_db()
    assert (task.status, task.reason) == ("failed", "scripts_withdrawn")


# -- targets --------------------------------------------------------------------------------------


def test_script_for_any_device_goes_to_one_that_runs_scripts(alice):
    make_worker("a-model-box")
    make_script_worker("b-binary")
    Runtime.objects.filter(worker__name="b-binary").update(kind="binary")
    lab = make_script_worker("lab")
    Runtime.objects.create(worker=lab, version="1.14.0", kind="binary")
    task = make_script_task_for_any_device(alice)
    assert (task.worker, task.runtime_version) == (lab, "1.13.0")
    assert task.target == {"scripts": True}


def test_script_without_a_suitable_device_is_rejected(alice):
    make_worker("box", labels={"chip": "A"})
    with pytest.raises(DomainError) as caught:
        make_script_task_for_any_device(alice, labels={"chip": "A"})
    assert caught.value.code == "target_no_scripts"
    assert "runs scripts" in word(caught.value)
    make_script_worker("lab", labels={"chip": "B"})
    with pytest.raises(DomainError) as caught:
        make_script_task_for_any_device(alice, labels={"chip": "A"})
    assert caught.value.code == "target_label_unmet"
    assert "box" not in word(caught.value)


def test_script_for_any_device_leaves_a_device_that_forbids_scripts(alice):
    first = make_script_worker("a")
    task = make_script_task_for_any_device(alice)
    second = make_script_worker("b")
    Worker.objects.filter(pk=first.pk).update(allows_scripts=False)
    assert rebind_orphans() == 1
    task.refresh_from_db()
    assert task.worker == second
    Worker.objects.filter(pk=second.pk).update(offers_scripts=False)
    assert rebind_orphans() == 0
    assert cause_codes(task) == ["scripts_not_offered", "no_match"]


def test_only_a_device_that_runs_scripts_takes_over_a_script(alice):
    busy = make_script_worker("a")
    first, second = make_script_task_for_any_device(alice), make_script_task_for_any_device(alice)
    assert {first.worker, second.worker} == {busy}
    assign_waiting([busy.pk])
    models = make_worker("b")
    assert assign_waiting([models.pk]) == []
    other = make_script_worker("c")
    (attempt,) = assign_waiting([other.pk])
    assert (attempt.task_id, attempt.worker_id) == (second.pk, other.pk)


def test_script_moves_only_to_a_device_that_runs_scripts(alice):
    task = make_script_task(alice, make_script_worker("a"))
    with pytest.raises(DomainError) as caught:
        move_task(task, to=make_worker("b"))
    assert caught.value.code == "scripts_not_allowed"
    move_task(task, to=make_script_worker("c"))
    task.refresh_from_db()
    assert task.worker.name == "c"


def test_outlook_explains_why_a_script_would_not_start(alice):
    worker = make_worker("box")
    assert [c.code for c in outlook(worker, "1.13.0", owner=alice).causes] == ["next"]
    facts = outlook(worker, "1.13.0", owner=alice, is_script=True)
    assert [cause.code for cause in facts.causes] == ["scripts_not_allowed"]
    assert facts.wait is None


def test_hints_for_a_script_name_only_devices_that_run_scripts(alice):
    facts = {"cpu_model": "Ryzen"}
    here = make_script_worker("here", facts=facts)
    task = make_script_task(alice, here)
    make_worker("there", facts=facts)
    Worker.objects.filter(pk=here.pk).update(allows_scripts=False)
    assert queue_facts(task, reader=alice).hints == ()
    other = make_script_worker("yonder", facts=facts)
    assert [hint.worker for hint in queue_facts(task, reader=alice).hints] == [other]
