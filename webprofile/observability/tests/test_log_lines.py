"""Tests of the log lines in JSON during the whole lifecycle of a task."""

import io
import json
import logging
import uuid

import dramatiq
import pytest
import structlog

from agent.protocol.messages import AttemptAccepted
from profiles.actors import build_profile
from tasks.dispatch import gateway
from tasks.lifecycle.sweep import sweep
from tasks.models import Attempt, Task
from tasks.scheduling.assignment import assign_waiting
from tasks.submission import uploads
from tasks.tests.make import (
    finished_report,
    make_attempt,
    make_task,
    make_user,
    make_waiting_task,
    make_worker,
    started_report,
    stored_objects,
)
from webprofile.observability.logging import configure_logging
from webprofile.observability.tests.parts import json_lines

pytestmark = pytest.mark.django_db
STANDARD_FIELDS = {"timestamp", "level", "event"}


def run_task(task):
    """Submit, assign and run a task until its profile is to be built; return its attempt."""
    uploads.submit_task(task, stored_objects(task))
    assign_waiting()
    attempt = Attempt.objects.get(task=task)
    worker = attempt.worker
    gateway.handle(worker, AttemptAccepted(attempt=attempt.pk))
    gateway.handle(worker, started_report(attempt))
    gateway.handle(worker, finished_report(attempt))
    return attempt


def test_log_lines_about_a_task_have_its_fields():
    task = make_task(make_user("alice"), make_worker("box"))
    with json_lines() as lines:
        attempt = run_task(task)
        build_profile.fn(str(attempt.pk))
    task_lines = [line for line in lines.records if line.get("task") == task.pk]
    assert all(line.keys() >= STANDARD_FIELDS for line in task_lines)
    moves = [line for line in task_lines if line["event"] == "task_state_changed"]
    assert [move["state"] for move in moves] == [
        "waiting", "assigned", "running", "processing", "finished",
    ]  # fmt: skip
    # all lines but the first one, which is logged before there is an attempt
    for line in task_lines[1:]:
        assert (line["attempt"], line["worker"]) == (str(attempt.pk), "box")
    # every line about the attempt has the id of the task
    assert [
        line for line in lines.records if str(attempt.pk) in str(line) and "task" not in line
    ] == []


def test_lost_attempt_is_logged_with_its_fields():
    attempt = make_attempt(make_waiting_task(worker=make_worker("box")))
    Attempt.objects.filter(pk=attempt.pk).update(lease_expires_at="2020-01-01T00:00:00Z")
    with json_lines() as lines:
        sweep()
    (lost,) = lines.of("attempt_lost")
    ids = (attempt.task_id, str(attempt.pk), "box")
    assert (lost["task"], lost["attempt"], lost["worker"], lost["level"]) == (*ids, "warning")
    first, *_ = lines.of("task_state_changed")
    assert (first["task"], first["attempt"], first["worker"]) == ids


def test_fields_of_one_task_are_not_logged_for_the_next():
    with json_lines() as lines:
        for name in ("a", "b"):
            run_task(make_task(make_user(name), make_worker(name)))
    for line in lines.of("task_state_changed"):
        if "attempt" in line:
            assert Attempt.objects.get(pk=line["attempt"]).task_id == line["task"]
            assert Task.objects.get(pk=line["task"]).worker.name == line["worker"]


def test_actor_logs_the_id_of_the_request_that_sent_it():
    broker = dramatiq.get_broker()
    request_id = uuid.uuid4().hex
    with structlog.contextvars.bound_contextvars(request_id=request_id):
        message = build_profile.send(str(uuid.uuid4()))
    assert message.options["request_id"] == request_id
    middleware = next(m for m in broker.middleware if type(m).__name__ == "ActorMiddleware")
    middleware.before_process_message(broker, message)
    context = structlog.contextvars.get_contextvars()
    assert context == {"request_id": request_id, "actor": "build_profile"}
    middleware.after_process_message(broker, message)
    assert structlog.contextvars.get_contextvars() == {}


@pytest.mark.parametrize("form", ["json", "logfmt"])
def test_exception_is_logged_on_one_line(form):
    out = io.StringIO()
    with json_lines():
        configure_logging("INFO", form)
        (handler,) = logging.getLogger().handlers
        handler.stream = out
        try:
            int("no number")
        except ValueError:
            structlog.get_logger().exception("it_broke", attempt="a-1")
        logging.getLogger("elsewhere").warning("of %s", "another library")
    ours, theirs = out.getvalue().splitlines()
    assert "ValueError" in ours and "it_broke" in ours and "a-1" in ours
    if form == "json":
        assert json.loads(ours)["exception"].endswith("'no number'")
        assert json.loads(theirs) | {"timestamp": ""} == {
            "event": "of another library",
            "level": "warning",
            "logger": "elsewhere",
            "timestamp": "",
        }


def test_unknown_log_format_is_refused():
    with pytest.raises(ValueError, match="LOG_FORMAT"):
        configure_logging("INFO", "xml")
