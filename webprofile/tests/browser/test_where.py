"""Browser tests of the target of a task: one device or any matching one."""

import pytest

from tasks.dispatch.gateway import desired_state
from tasks.lifecycle.attempts import assign_attempt
from tasks.models import Task
from tasks.scheduling.assignment import assign_waiting
from tasks.scheduling.targets import Target
from tasks.submission.creation import create_task
from tasks.submission.request import TaskRequest
from tasks.tests.make import MODEL, make_waiting_task, make_worker, model_file
from webprofile.storage import storage as object_store
from webprofile.tests.browser.form import Form
from workers.models import Runtime

pytestmark = [pytest.mark.exhaustive, pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def form(browser, live_server, alice, log_in) -> Form:
    log_in(alice)
    return Form(browser, live_server.url)


def outlook(form: Form) -> str:
    return form.find("#outlook").text


def test_form_shows_the_queue(form, alice):
    busy = make_worker("a-busy", labels={"chip": "Xeon"})
    task = make_waiting_task(alice, busy)
    assert task.attempts.exists() or assign_attempt(task, slot=0)
    make_worker("b-free", labels={"chip": "Xeon"})
    form.open()
    form.until(lambda: "a-busy is busy" in outlook(form), "the queue")
    assert "your task" in outlook(form)
    assert "b-free with the same chip (Xeon) is idle." in outlook(form)
    form.choose("#worker", "b-free")
    form.until(lambda: "b-free is idle" in outlook(form), "the other queue")


def test_best_match_supports_the_chosen_options(form, alice):
    make_worker("a-plain")
    able = make_worker("b-cuda")
    Runtime.objects.filter(worker=able).update(kind="binary", builds=["cuda"])
    form.open()
    form.click("[name=where][value=any]")
    form.until(lambda: "best match: a-plain" in outlook(form), "the best match")
    form.browser.execute_script("document.querySelector('[name=cuda]').click()")
    form.until(lambda: "best match: b-cuda" in outlook(form), "the match for the option")


def test_copied_task_for_any_matching_device_keeps_its_target(form, alice, storage):
    make_worker("plain", labels={"chip": "A"})
    expected = make_worker("matching", labels={"chip": "B"})
    old = create_task(
        owner=alice,
        request=TaskRequest(
            target=Target({"chip": "B"}, versions=">=1.12"),
            files=(model_file(),),
            priority=4,
            title="nightly",
        ),
    )
    for file in old.files.all():
        object_store.write(file.object_key, MODEL)
    old.files.update(stored_at=old.created_at)
    form.open(f"?from={old.pk}")
    form.until(lambda: "matching with MegEngine 1.13.0" in outlook(form), "the best match")
    assert form.find("#versions").get_attribute("value") == ">=1.12"
    assert not form.find("#worker").is_displayed()
    form.find("#versions").clear()
    form.find("#versions").send_keys("soon")
    form.until(lambda: "not a version range" in form.error("versions"), "what is wrong")
    outlook_panel = form.find("#outlook")
    form.until(
        lambda: "not a version range" in outlook_panel.get_attribute("textContent"),
        "the queue's answer",
    )
    assert "not a version range" not in outlook(form)  # it is shown at the field
    form.find("#versions").clear()
    form.find("#versions").send_keys("==1.13.*")
    form.until(lambda: form.error("versions") == "", "that it is right again")
    form.click("#submit")
    form.until(lambda: form.all("#task-status"), "the new task's page")
    copy = Task.objects.exclude(pk=old.pk).get()
    assert (copy.target, copy.worker) == (
        {"labels": {"chip": "B"}, "versions": "==1.13.*"},
        expected,
    )
    assert (copy.priority, copy.title, copy.copied_from) == (4, "nightly", old)


def test_form_for_a_copied_task_shows_the_queue_of_its_device(form, alice):
    make_worker("plain")
    old = make_waiting_task(alice, make_worker("previous"))
    form.browser.get(f"{form.address}/tasks/new/?from={old.pk}")
    queue = "is ahead of this one on previous"
    form.until(lambda: queue in outlook(form), "the queue of the earlier task's device")


def test_waiting_task_is_moved_to_a_free_device(form, alice, browser):
    busy = make_worker("busy", labels={"chip": "Xeon"})
    running = make_waiting_task(alice, busy)
    assert running.attempts.exists() or assign_attempt(running, slot=0)
    task = make_waiting_task(alice, busy)
    free = make_worker("free", labels={"chip": "Xeon"})
    browser.get(f"{form.address}/tasks/{task.pk}/")
    assert "number 1 in the queue of busy" in form.find("#queue-title").text
    assert f"#{running.pk}" in form.find(".queue__running").text
    button = form.find(f"#move-{free.pk}")
    assert button.text == "Move the task to free"
    button.click()
    form.until(lambda: "of free" in form.find("#queue-title").text, "that it waits there")
    # as the dispatcher and the socket of the device do
    assign_waiting([free.pk])
    assert [reply.type for reply in desired_state(free.pk)] == ["start"]
    browser.refresh()
    form.until(lambda: not form.all("#queue"), "that it started there")
    task.refresh_from_db()
    assert (task.worker, task.state) == (free, "assigned")
