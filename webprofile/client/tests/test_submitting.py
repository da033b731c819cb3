"""Tests of `webprofile submit` and `wait`, with a live server and an S3 server."""

import json
import os
import signal
import threading
import time
from collections import Counter
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import User
from accounts.tokens.access import issue_token
from profiles.models import AttemptMeasurement
from tasks.lifecycle.transitions import transition_if
from tasks.models import Task, TaskFile
from tasks.states import TaskState
from tasks.submission.presets import save_option_preset
from tasks.tests.make import (
    make_attempt,
    make_user,
    make_waiting_task,
    make_worker,
    model_bytes,
)
from tasks.tests.scripts import make_script_worker, zip_of
from webprofile.client.api import Api
from webprofile.storage import storage as object_store

MATRIX = """
models = ["net.mge", "other.mge"]
workers = "x86-1"
repeats = 2
title = "night {model} {options}"
[data]
data = "cat.npy"
[option_sets.plain]
[option_sets.fast]
fast_run = true
"""


@pytest.fixture
def matrix(home):
    """A batch file of eight tasks; `-r 1` makes four."""
    (home / "batch.toml").write_text(MATRIX)
    return "batch.toml"


def finish_oldest(outcome: str) -> None:
    """Finish the oldest submitted task, as its device does."""
    live = Task.objects.exclude(state__in=[TaskState.FINISHED, TaskState.INITIATED])
    if task := live.order_by("pk").first():
        task.attempts.update(ended_at=task.created_at)
        transition_if(task, TaskState.FINISHED, set(TaskState), outcome=outcome)


@pytest.fixture
def outcomes(proxy):
    """List of outcomes: each request for tasks first finishes a task with the next one."""
    outcomes: list[str] = []

    def plan(method: str, path: str) -> str:
        if method == "GET" and path.startswith("/api/v1/tasks/") and outcomes:
            finish_oldest(outcomes.pop(0))
        return ""

    proxy.plan = plan
    return outcomes


def test_matrix_is_submitted_with_its_files(client, alice, matrix, proxy):
    result = client.run_process("submit", matrix, "--no-wait")
    tasks = list(Task.objects.order_by("pk"))
    assert result.stdout.split() == [str(task.pk) for task in tasks]
    assert len(tasks) == 8
    assert {task.owner for task in tasks} == {alice}
    assert not {TaskState.INITIATED, TaskState.FINISHED} & {task.state for task in tasks}
    assert [task.title for task in tasks[::2]] == [
        "night net plain", "night net fast", "night other plain", "night other fast"
    ]  # fmt: skip
    model, data = tasks[-1].files.all()
    assert object_store.read(model.object_key, limit_bytes=99) == model_bytes(b"other")
    assert data.arrays[0]["shape"] == [1, 3]
    assert "other.mge x86-1 1.13.0 fast 2/2" in result.stderr
    # equal files are uploaded once
    announced = [file for body in proxy.posted_tasks for file in body["files"] if "md5" in file]
    assert [file["name"] for file in announced] == ["net.mge", "cat.npy", "other.mge"]
    assert TaskFile.objects.exclude(stored_at=None).count() == 16


def test_files_are_uploaded_again_if_their_task_was_deleted(client, proxy):
    def delete_all_before_the_next_task(method: str, path: str) -> str:
        if (method, path) == ("POST", "/api/v1/tasks/"):
            Task.objects.all().delete()
        return ""

    proxy.plan = delete_all_before_the_next_task
    client.run("submit", "-m", "net.mge", "-w", "x86-1", "-r", "3", "--no-wait")
    assert Task.objects.get().status == "waiting"


@pytest.mark.parametrize(("last", "code"), [("succeeded", 0), ("failed", 1), ("cancelled", 1)])
def test_exit_code_of_submit_tells_whether_all_tasks_succeeded(client, outcomes, last, code):
    outcomes += ["succeeded", last]
    arguments = ("submit", "-m", "net.mge", "-w", "x86-1", "-r", "2")
    result = client.run(*arguments, "--json", code=code)
    assert [row["status"] for row in json.loads(result.stdout)] == ["succeeded", last]
    count = Counter(["succeeded", last])
    ends = f"{count['succeeded']} succeeded, {count['failed']} failed"
    assert ends + (", 1 cancelled" if last == "cancelled" else "") in result.stderr.splitlines()


def test_submit_creates_nothing_if_any_task_is_invalid(client, home):
    (home / "batch.toml").write_text(
        'models = "net.mge"\nworkers = "x86-1"\n[[tasks]]\n[[tasks]]\nplan = "slow"\n'
        "[[tasks]]\n[tasks.options]\nno_such_option = 1\n[[tasks]]\npriority = 50\n"
        '[[tasks]]\n[tasks.data]\ndata = "net.mge"\n[[tasks]]\nworkers = [{pool = "none"}]\n'
    )
    stderr = client.run("submit", "batch.toml", code=2).stderr
    places = [line.removeprefix("webprofile: ").split(": ")[0] for line in stderr.splitlines()]
    assert places == [
        "tasks[1].plan", "tasks[2].options.no_such_option", "tasks[3].priority", "tasks[4].data",
        "tasks[5].workers",
    ]  # fmt: skip
    assert not Task.objects.exists()


def measure_oldest() -> None:
    """Let the oldest submitted task succeed with a latency."""
    task = Task.objects.exclude(state=TaskState.FINISHED).order_by("pk")[0]
    AttemptMeasurement.objects.create(attempt=make_attempt(task), median_ms=8.9)
    finish_oldest("succeeded")


@pytest.mark.exhaustive
def test_reuse_takes_an_earlier_result_of_the_same(client):
    arguments = ("submit", "-m", "net.mge", "-w", "x86-1", "--no-wait")
    client.run(*arguments)
    task = Task.objects.get()
    measure_oldest()
    (row,) = client.json(*arguments, "--reuse")
    assert (row["task"], row["is_reused"]) == (task.pk, True)
    result = client.run(*arguments, "--reuse", "-r", "2")
    assert "The same measurement was made" in result.stderr
    assert "median latency 8.90 ms" in result.stderr
    # the second repeat is measured
    second = Task.objects.latest("pk")
    assert result.stdout.split() == [str(task.pk), str(second.pk)]
    assert Task.objects.count() == 2
    (row,) = client.json(*arguments)
    assert not row["is_reused"]


def test_equal_tasks_that_use_one_earlier_result_are_not_refused(client, home):
    client.run("submit", "-m", "net.mge", "-w", "x86-1", "--no-wait")
    measure_oldest()
    (home / "batch.toml").write_text(
        'models = "net.mge"\nworkers = "x86-1"\n[[tasks]]\ntitle = "a"\n[[tasks]]\ntitle = "b"\n'
    )
    result = client.run("submit", "batch.toml", "--reuse", "--no-wait")
    assert result.stdout.split() == [str(Task.objects.get().pk)]
    assert "refused" not in result.stderr


def test_repeated_submit_with_reuse_returns_its_own_tasks(client):
    """Tasks of the first run that have succeeded meanwhile are no earlier results."""
    make_worker("x86-2")
    submit = ("submit", "-m", "net.mge", "-w", "x86-1", "-w", "x86-2", "-r", "2", "--reuse")
    first = client.run(*submit, "--no-wait", "--key", "k")
    measure_oldest()
    measure_oldest()
    again = client.run(*submit, "--no-wait", "--key", "k")
    assert again.stdout == first.stdout
    assert Task.objects.count() == 4


def test_an_expired_upload_url_is_renewed(client, monkeypatch):
    """A large file before this one may take longer than the URL is valid."""
    post = Api.post

    def expired(api: Api, path: str, *arguments: Any, **options: Any) -> Any:
        answer = post(api, path, *arguments, **options)
        if path == "tasks/":
            for target in answer["uploads"]:
                target["url"] = target["url"].replace("X-Amz-Expires=", "X-Amz-Expires=1")
        return answer

    monkeypatch.setattr(Api, "post", expired)
    client.run("submit", "-m", "net.mge", "-w", "x86-1", "--no-wait")
    assert Task.objects.get().state == "waiting"


def test_merged_keys_of_yaml_can_be_replaced(client, home):
    (home / "batch.yaml").write_text(
        "tasks:\n- &a {models: net.mge, workers: x86-1, title: a}\n- {<<: *a, title: b}\n"
    )
    client.run("submit", "batch.yaml", "--no-wait")
    assert set(Task.objects.values_list("title", flat=True)) == {"a", "b"}
    (home / "batch.yaml").write_text("models: net.mge\nworkers: x86-1\nmodels: net.mge\n")
    assert "“models” occurs twice" in client.run("submit", "batch.yaml", code=2).stderr


@pytest.mark.parametrize("command", [("submit", "-m", "net.mge"), ("ab", "net.mge", "net.mge")])
def test_a_key_that_no_header_can_have_is_refused(client, command):
    stderr = client.run(*command, "-w", "x86-1", "--key", "nächtlich", code=2).stderr
    assert "printable ASCII characters" in stderr


def test_missing_file_is_reported_without_a_request(client):
    client.environment["WEBPROFILE_SITE"] = "http://127.0.0.1:9"
    assert "No such file" in client.run("submit", "-m", "x.mge", "-w", "y", code=2).stderr


def test_data_without_a_variable_tells_what_to_write(client, home):
    (home / "batch.toml").write_text('models = "net.mge"\nworkers = "x86-1"\ndata = ["cat.npy"]\n')
    for arguments in (["-m", "net.mge", "-w", "x86-1", "-d", "cat.npy"], ["batch.toml"]):
        stderr = client.run("submit", *arguments, code=2).stderr
        assert "data[0]: the input variable is missing: use --data VARIABLE=FILE" in stderr


def test_dry_run_creates_nothing(client, matrix):
    result = client.run("submit", matrix, "--dry-run")
    assert result.stdout.count("net.mge") == 4
    assert "8 tasks; nothing was created." in result.stderr
    assert not Task.objects.exists()


def test_private_device_is_unknown_to_others(client):
    make_worker("secret", is_public=False)
    stderr = client.run("submit", "-m", "net.mge", "-w", "secret", code=2).stderr
    assert "device “secret” does not exist, or you don’t have access" in stderr


def test_preset_of_options_is_listed_and_used(client, alice):
    save_option_preset(alice, name="fast run", options={"fast_run": True, "iter": 5})
    assert "fast run" in client.run("presets").stdout
    assert client.json("presets")[0]["options"] == {"fast_run": True, "iter": 5}
    submit = ("submit", "-m", "net.mge", "-w", "x86-1", "--no-wait")
    client.run(*submit, "--preset", "fast run", "-o", "iter=7")
    assert Task.objects.get().options == {"fast_run": True, "iter": 7}
    refused = client.run(*submit, "--preset", "other", code=2).stderr
    assert "option_preset" in refused
    assert "other" in refused


def test_read_only_token_cannot_submit(client, alice, live_server):
    _, client.environment["WEBPROFILE_TOKEN"] = issue_token(
        alice, name="r", scopes=["read"], days=1
    )
    client.run("submit", "-m", "net.mge", "-w", "x86-1", code=3)
    assert not Task.objects.exists()
    assert client.run("workers").stdout.splitlines()[-1].split()[:2] == ["x86-1", "free"]


def test_lost_response_creates_no_second_task(client, proxy):
    """The client repeats the request with the same key."""
    proxy.lose_first("POST", ending="/api/v1/tasks/")
    client.run("submit", "-m", "net.mge", "-w", "x86-1", "--no-wait")
    assert proxy.requests.count(("POST", "/api/v1/tasks/")) == 2
    assert Task.objects.count() == 1


def test_busy_site_gets_the_request_again(client, proxy):
    answers = {"/api/v1/tasks/": ["429", "503"], "/api/v1/tasks/judge/": ["429", "502"]}
    proxy.plan = lambda method, path: (answers.get(path) or [""]).pop(0)
    client.run("submit", "-m", "net.mge", "-w", "x86-1", "--no-wait")
    assert Task.objects.count() == 1
    assert proxy.requests.count(("POST", "/api/v1/tasks/")) == 3


def test_unavailable_site_has_its_own_exit_code(client, proxy):
    proxy.plan = lambda method, path: "503"
    stderr = client.run_process("workers", code=3).stderr
    assert "503" in stderr
    assert "Traceback" not in stderr


@pytest.mark.exhaustive
def test_failed_submit_continues_with_the_same_key(client, matrix, proxy):
    proxy.plan = lambda method, path: "403" if proxy.count("/submit/") == 3 else ""
    first = client.run("submit", matrix, "-r", "1", "--no-wait", "--key", "nightly-7", code=1)
    assert "Check the URL of the site." in first.stderr
    broken = Task.objects.order_by("-pk").first()
    assert broken.state == TaskState.INITIATED
    proxy.plan = lambda method, path: ""
    client.run("submit", matrix, "-r", "1", "--no-wait", "--key", "nightly-7")
    assert Task.objects.count() == 4
    assert not Task.objects.filter(state=TaskState.INITIATED).exists()


@pytest.mark.exhaustive
def test_interrupted_submit_prints_the_key_to_continue(client, matrix, proxy):
    reached = threading.Event()

    def plan(method: str, path: str) -> str:
        if proxy.count("/submit/") < 3:
            return ""
        reached.set()
        time.sleep(0.5)
        return "lost"

    proxy.plan = plan
    process = client.start("submit", matrix, "-r", "1", "--no-wait")
    assert reached.wait(60)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, "Traceback" in err) == (130, False)
    assert "2 of 4 tasks were submitted and continue" in err
    proxy.plan = lambda method, path: ""
    client.run("submit", matrix, "-r", "1", "--no-wait", "--key", err.split("--key ")[1].split()[0])
    assert Task.objects.count() == 4
    assert not Task.objects.filter(state=TaskState.INITIATED).exists()


@pytest.mark.exhaustive
def test_submit_prints_the_key_if_the_site_becomes_unavailable(client, matrix, proxy):
    proxy.plan = lambda method, path: "503" if proxy.count("/submit/") > 3 else ""
    stderr = client.run("submit", matrix, "-r", "1", "--no-wait", code=3).stderr
    assert "3 of 4 tasks were submitted and continue" in stderr
    assert "answered 503" in stderr
    proxy.plan = lambda method, path: ""
    key = stderr.split("--key ")[1].split()[0]
    result = client.run("submit", matrix, "-r", "1", "--no-wait", "--key", key)
    assert result.stdout.split() == [str(task.pk) for task in Task.objects.order_by("pk")]
    assert Task.objects.count() == 4
    assert not Task.objects.filter(state=TaskState.INITIATED).exists()


@pytest.mark.exhaustive
def test_wait_survives_an_unavailable_site(client, alice, proxy):
    task = make_waiting_task(alice)
    answers = ["503"] * 7  # more than the client retries one request

    def plan(method: str, path: str) -> str:
        if answers:
            return answers.pop()
        finish_oldest("succeeded")
        return ""

    proxy.plan = plan
    assert client.json("wait", task.pk)[0]["status"] == "succeeded"


@pytest.mark.exhaustive
def test_retried_submit_with_the_same_key_recognises_its_tasks(client, proxy, alice):
    """The first run uploads the file, the second one refers to it: still the same task."""
    submit = ("submit", "-m", "net.mge", "-w", "x86-1", "-r", "2", "--no-wait", "--key", "k")
    posts = []

    def plan(method: str, path: str) -> str:
        if (method, path) != ("POST", "/api/v1/tasks/"):
            return ""
        posts.append(path)
        User.objects.filter(pk=alice.pk).update(task_limit=0 if len(posts) == 1 else 5)
        return ""

    proxy.plan = plan
    client.run(*submit, code=1)
    assert Task.objects.count() == 1
    client.run(*submit)
    assert Task.objects.count() == 2


def test_invalid_names_are_reported_without_control_characters(client, home):
    (home / "a\x1b[2Jb.mge").write_bytes(b"x")
    stderr = client.run("submit", "-m", "a*.mge", "-w", "x86-1", code=2).stderr
    assert stderr.startswith("webprofile: models")
    assert "\x1b" not in stderr
    (home / os.fsdecode(b"\xff.mge")).write_bytes(b"x")
    assert "not valid UTF-8" in client.run("submit", "-m", "*.mge", "-w", "x86-1", code=2).stderr
    bad = os.fsdecode(b"\xff")
    stderr = client.run("submit", "-m", "net.mge", "-w", "x86-1", "--title", bad, code=2).stderr
    assert stderr == "webprofile: the arguments are not valid UTF-8\n"


def test_changed_task_is_refused_under_the_same_key(client, home):
    submit = ("submit", "-m", "net.mge", "-w", "x86-1", "--no-wait", "--key", "k")
    client.run(*submit)
    (home / "net.mge").write_bytes(model_bytes(b"changed"))
    stderr = client.run(*submit, code=1).stderr
    assert "This --key was used for a different task" in stderr
    assert Task.objects.count() == 1


def test_wait_names_its_tasks_when_the_token_is_revoked(client, alice, proxy):
    task = make_waiting_task(alice)

    def plan(method: str, path: str) -> str:
        alice.access_tokens.update(revoked_at=timezone.now())
        return ""

    proxy.plan = plan
    stderr = client.run("wait", task.pk, code=3).stderr
    assert f"1 task has not ended. To wait again: webprofile wait {task.pk}\n" in stderr


@pytest.mark.exhaustive
def test_interrupted_wait_can_be_repeated(client, alice, proxy):
    task = make_waiting_task(alice)
    process = client.start("wait", task.pk)
    client.wait(process, lambda: len(proxy.requests) > 0)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, "Traceback" in err) == (130, False)
    assert f"1 task has not ended. To wait again: webprofile wait {task.pk}\n" in err
    assert "1 task has not ended" in client.run("wait", task.pk, "--timeout", "0.1", code=4).stderr
    finish_oldest("succeeded")
    assert client.json("wait", task.pk)[0]["status"] == "succeeded"


@pytest.mark.exhaustive
def test_wait_for_many_tasks_sends_few_requests(client, alice, outcomes, proxy):
    worker = make_worker("other")
    tasks = [make_waiting_task(alice, worker) for _ in range(12)]
    outcomes += [*["succeeded"] * 11, "failed"]
    stderr = client.run("wait", *(task.pk for task in tasks), code=1).stderr
    lines = stderr.splitlines()
    assert sum(f"{n}/12 #" in line for n, line in enumerate(lines, 1)) == 12
    assert lines[-1] == "11 succeeded, 1 failed"
    # the list is requested now and then, each ended task once
    assert [path for _, path in proxy.requests].count(f"/api/v1/tasks/{tasks[0].pk}/") == 1


def test_wait_does_not_know_tasks_of_others(client):
    task = make_waiting_task(make_user("bob"))
    assert "unknown" in client.run("wait", task.pk, code=1).stderr


@pytest.mark.exhaustive
def test_submit_beyond_the_task_limit_waits_or_is_refused(client, alice):
    alice.task_limit = 1
    alice.save()
    process = client.run("submit", "-m", "net.mge", "-w", "x86-1", "-r", "2", "--no-wait", code=1)
    assert "refused" in process.stderr
    assert process.stderr.splitlines()[-1] == "1 submitted, 1 refused"
    assert Task.objects.count() == 1
    # checked before anything is created
    arguments = ("submit", "-m", "net.mge", "-w", "x86-1", "-r", "3", "--dry-run")
    stderr = client.run(*arguments, "--no-wait", code=1).stderr
    assert "1 task has not ended (limit: 1): 3 of these would be refused." in stderr
    assert (
        "0 of these are submitted now, the rest when others end." in client.run(*arguments).stderr
    )
    alice.task_limit = 4
    alice.save()
    assert "all of these fit" in client.run(*arguments, "--no-wait").stderr


def test_submit_does_not_wait_for_room_if_the_limit_is_zero(client, alice):
    alice.task_limit = 0
    alice.save()
    process = client.run("submit", "-m", "net.mge", "-w", "x86-1", code=1)
    assert "refused" in process.stderr
    assert not Task.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Choose the program in “all.zip” to start. Programs in it: train/main.py, net.py."),
        (["--entry", "main.py"], "has no “main.py”. Programs in it: train/main.py, net.py."),
    ],
)
def test_missing_program_in_a_zip_is_reported_before_the_upload(client, home, arguments, message):
    (home / "all.zip").write_bytes(zip_of(train__main="1", net="2"))
    make_script_worker("lab")
    process = client.run("submit", "-s", "all.zip", "-w", "lab", *arguments, "--no-wait", code=2)
    assert message in process.stderr
    assert not Task.objects.exists()
    client.run("submit", "-s", "all.zip", "-w", "lab", "--entry", "net.py", "--no-wait")
    assert Task.objects.get().script["entry"] == "net.py"
