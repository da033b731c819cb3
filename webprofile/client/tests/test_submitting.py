"""Tests of `webprofile submit` and `wait` as a process, with a live server and an S3 server."""

import json
import os
import signal
import threading
import time
from collections import Counter

import pytest
from django.db import connection
from django.utils import timezone

from accounts.models import AccessToken, User
from accounts.tokens.access import issue_token
from tasks.lifecycle.transitions import transition_if
from tasks.models import Task, TaskFile
from tasks.states import TaskState
from tasks.tests.make import make_user, make_waiting_task, make_worker
from tasks.tests.scripts import make_script_worker, zip_of
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
    (home / "batch.toml").write_text(MATRIX)
    return "batch.toml"


def end(outcome: str) -> None:
    """Play the device: the oldest task in the queue ends."""
    live = Task.objects.exclude(state__in=[TaskState.FINISHED, TaskState.INITIATED])
    if task := live.order_by("pk").first():
        task.attempts.update(ended_at=task.created_at)
        transition_if(task, TaskState.FINISHED, set(TaskState), outcome=outcome)


@pytest.fixture
def device(client, proxy):
    """Outcomes of tasks: one ends whenever the client looks, before it gets its answer."""
    client.environment["WEBPROFILE_SITE"] = proxy.address
    outcomes: list[str] = []

    def plan(method: str, path: str) -> str:
        if method == "GET" and path.startswith("/api/v1/tasks/") and outcomes:
            try:
                end(outcomes.pop(0))
            finally:
                connection.close()  # of the proxy's thread
        return ""

    proxy.plan = plan
    return outcomes


def test_a_matrix_is_submitted_with_its_files(client, alice, matrix):
    done = client.run("submit", matrix, "--no-wait")
    tasks = list(Task.objects.order_by("pk"))
    assert done.stdout.split() == [str(task.pk) for task in tasks]
    assert len(tasks) == 8
    assert {task.owner for task in tasks} == {alice}
    assert not {TaskState.INITIATED, TaskState.FINISHED} & {task.state for task in tasks}
    assert [task.title for task in tasks[::2]] == [
        "night net plain", "night net fast", "night other plain", "night other fast"
    ]  # fmt: skip
    model, data = tasks[-1].files.all()
    assert object_store.read(model.object_key, limit_bytes=99) == b"another model"
    assert data.arrays[0]["shape"] == [1, 3]
    assert "other.mge x86-1 1.13.0 fast 2/2" in done.stderr


def test_each_content_goes_over_the_wire_once(client, matrix, proxy):
    client.environment["WEBPROFILE_SITE"] = proxy.address
    client.run("submit", matrix, "--no-wait")
    announced = [file for body in proxy.posted_tasks for file in body["files"] if "md5" in file]
    assert [file["name"] for file in announced] == ["net.mge", "cat.npy", "other.mge"]
    assert TaskFile.objects.exclude(stored_at=None).count() == 16


@pytest.mark.parametrize(("last", "code"), [("succeeded", 0), ("failed", 1), ("cancelled", 1)])
def test_it_waits_and_its_exit_code_tells_whether_all_succeeded(client, device, last, code):
    device += ["succeeded", last]
    arguments = ("submit", "-m", "net.mge", "-w", "x86-1", "-r", "2")
    done = client.run(*arguments, "--json", code=code)
    assert [row["status"] for row in json.loads(done.stdout)] == ["succeeded", last]
    count = Counter(["succeeded", last])
    ends = f"{count['succeeded']} succeeded, {count['failed']} failed"
    assert ends + (", 1 cancelled" if last == "cancelled" else "") in done.stderr.splitlines()


def test_nothing_is_made_when_anything_in_the_file_is_wrong(client, home):
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


def test_what_is_not_on_the_disk_is_told_without_asking_the_site(client):
    client.environment["WEBPROFILE_SITE"] = "http://127.0.0.1:9"
    assert "No such file" in client.run("submit", "-m", "x.mge", "-w", "y", code=2).stderr


def test_a_dry_run_makes_nothing(client, matrix):
    shown = client.run("submit", matrix, "--dry-run")
    assert shown.stdout.count("net.mge") == 4
    assert "8 tasks; nothing was created." in shown.stderr
    assert not Task.objects.exists()


def test_a_private_device_does_not_exist_for_others(client):
    make_worker("secret", is_public=False)
    stderr = client.run("submit", "-m", "net.mge", "-w", "secret", code=2).stderr
    assert "there is no device" in stderr


def test_a_read_only_token_submits_nothing(client, alice, live_server):
    _, client.environment["WEBPROFILE_TOKEN"] = issue_token(
        alice, name="r", scopes=["read"], days=1
    )
    client.run("submit", "-m", "net.mge", "-w", "x86-1", code=3)
    assert not Task.objects.exists()
    assert client.run("workers").stdout.splitlines()[-1].split()[:2] == ["x86-1", "free"]


def test_a_lost_answer_makes_no_second_task(client, proxy):
    """The site made the task, the answer never came: the client asks again with the same key."""
    client.environment["WEBPROFILE_SITE"] = proxy.address
    lost = []

    def plan(method: str, path: str) -> str:
        if (method, path) == ("POST", "/api/v1/tasks/") and not lost:
            lost.append(path)
            return "lost"
        return ""

    proxy.plan = plan
    client.run("submit", "-m", "net.mge", "-w", "x86-1", "--no-wait")
    assert lost
    assert Task.objects.count() == 1


def test_a_site_that_is_busy_is_asked_again(client, proxy):
    client.environment["WEBPROFILE_SITE"] = proxy.address
    answers = {"/api/v1/tasks/": ["429", "503"], "/api/v1/tasks/judge/": ["429", "502"]}
    proxy.plan = lambda method, path: (answers.get(path) or [""]).pop(0)
    client.run("submit", "-m", "net.mge", "-w", "x86-1", "--no-wait")
    assert Task.objects.count() == 1
    assert proxy.seen.count(("POST", "/api/v1/tasks/")) == 3


def test_a_site_that_never_answers_ends_with_its_own_code(client, proxy):
    client.environment["WEBPROFILE_SITE"] = proxy.address
    proxy.plan = lambda method, path: "503"
    stderr = client.run("workers", code=3).stderr
    assert "503" in stderr
    assert "Traceback" not in stderr


@pytest.mark.exhaustive
def test_a_run_that_broke_goes_on_under_its_name(client, matrix, proxy):
    client.environment["WEBPROFILE_SITE"] = proxy.address
    submits = []

    def plan(method: str, path: str) -> str:
        submits.extend([path] if path.endswith("/submit/") else [])
        return "403" if len(submits) == 3 else ""

    proxy.plan = plan
    first = client.run("submit", matrix, "--no-wait", "--key", "nightly-7", code=1)
    assert "is it the site?" in first.stderr
    broken = Task.objects.order_by("-pk").first()
    assert broken.state == TaskState.INITIATED
    proxy.plan = lambda method, path: ""
    client.run("submit", matrix, "--no-wait", "--key", "nightly-7")
    assert Task.objects.count() == 8
    assert not Task.objects.filter(state=TaskState.INITIATED).exists()


@pytest.mark.exhaustive
def test_a_run_that_was_stopped_tells_how_to_go_on_and_makes_nothing_twice(client, matrix, proxy):
    client.environment["WEBPROFILE_SITE"] = proxy.address
    reached, submits = threading.Event(), []

    def plan(method: str, path: str) -> str:
        submits.extend([path] if path.endswith("/submit/") else [])
        if len(submits) < 4:
            return ""
        reached.set()
        time.sleep(0.5)
        return "lost"

    proxy.plan = plan
    process = client.start("submit", matrix, "--no-wait")
    assert reached.wait(60)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, "Traceback" in err) == (130, False)
    assert "3 of 8 tasks are submitted and go on" in err
    proxy.plan = lambda method, path: ""
    client.run("submit", matrix, "--no-wait", "--key", err.split("--key ")[1].split()[0])
    assert Task.objects.count() == 8
    assert not Task.objects.filter(state=TaskState.INITIATED).exists()


@pytest.mark.exhaustive
def test_a_site_that_goes_away_in_the_middle_is_told_and_the_run_goes_on_later(
    client, matrix, proxy
):
    client.environment["WEBPROFILE_SITE"] = proxy.address
    submits = []

    def plan(method: str, path: str) -> str:
        submits.extend([path] if path.endswith("/submit/") else [])
        return "503" if len(submits) > 5 else ""

    proxy.plan = plan
    stderr = client.run("submit", matrix, "--no-wait", code=3).stderr
    assert "5 of 8 tasks are submitted and go on" in stderr
    assert "answered 503" in stderr
    proxy.plan = lambda method, path: ""
    again = client.run("submit", matrix, "--no-wait", "--key", stderr.split("--key ")[1].split()[0])
    assert again.stdout.split() == [str(task.pk) for task in Task.objects.order_by("pk")]
    assert Task.objects.count() == 8
    assert not Task.objects.filter(state=TaskState.INITIATED).exists()


@pytest.mark.exhaustive
def test_a_site_that_is_away_for_a_while_does_not_end_the_waiting(client, alice, proxy):
    client.environment["WEBPROFILE_SITE"] = proxy.address
    task = make_waiting_task(alice)
    answers = ["503"] * 7  # more than one request has patience for

    def plan(method: str, path: str) -> str:
        if answers:
            return answers.pop()
        try:
            end("succeeded")
        finally:
            connection.close()
        return ""

    proxy.plan = plan
    assert client.json("wait", task.pk)[0]["status"] == "succeeded"


def test_a_task_that_brought_its_files_itself_is_found_again_under_its_name(client, proxy, alice):
    """Its files are named now, since an earlier task brings them: the same task all the same."""
    client.environment["WEBPROFILE_SITE"] = proxy.address
    matrix = ("submit", "-m", "net.mge", "-w", "x86-1", "-r", "2", "--no-wait", "--key", "k")
    posts = []

    def plan(method: str, path: str) -> str:
        if (method, path) != ("POST", "/api/v1/tasks/"):
            return ""
        posts.append(path)
        User.objects.filter(pk=alice.pk).update(task_limit=0 if len(posts) == 1 else 5)
        connection.close()
        return ""

    proxy.plan = plan
    client.run(*matrix, code=1)
    assert Task.objects.count() == 1
    client.run(*matrix)
    assert Task.objects.count() == 2


def test_a_name_that_is_no_name_is_told_and_does_nothing_to_the_terminal(client, home):
    (home / "a\x1b[2Jb.mge").write_bytes(b"x")
    stderr = client.run("submit", "-m", "a*.mge", "-w", "x86-1", code=2).stderr
    assert stderr.startswith("webprofile: models")
    assert "\x1b" not in stderr
    (home / os.fsdecode(b"\xff.mge")).write_bytes(b"x")
    assert "no UTF-8" in client.run("submit", "-m", "*.mge", "-w", "x86-1", code=2).stderr
    bad = os.fsdecode(b"\xff")
    stderr = client.run("submit", "-m", "net.mge", "-w", "x86-1", "--title", bad, code=2).stderr
    assert stderr == "webprofile: the arguments are no UTF-8\n"


def test_a_token_that_expired_is_told_with_what_to_do(client, alice):
    AccessToken.objects.update(expires_at=timezone.now())
    stderr = client.run("submit", "-m", "net.mge", "-w", "x86-1", code=3).stderr
    assert "webprofile login" in stderr


@pytest.mark.exhaustive
def test_waiting_may_be_stopped_and_begun_again(client, alice, proxy):
    client.environment["WEBPROFILE_SITE"] = proxy.address
    task = make_waiting_task(alice)
    process = client.start("wait", task.pk)
    while not proxy.seen:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, "Traceback" in err) == (130, False)
    assert f"1 task goes on. To wait again: webprofile wait {task.pk}\n" in err
    assert "1 task goes on" in client.run("wait", task.pk, "--timeout", "0.1", code=4).stderr
    end("succeeded")
    assert client.json("wait", task.pk)[0]["status"] == "succeeded"


@pytest.mark.exhaustive
def test_many_are_waited_for_with_few_requests(client, alice, device, proxy):
    worker = make_worker("other")
    tasks = [make_waiting_task(alice, worker) for _ in range(12)]
    device += [*["succeeded"] * 11, "failed"]
    stderr = client.run("wait", *(task.pk for task in tasks), code=1).stderr
    lines = stderr.splitlines()
    assert sum(f"{n}/12 #" in line for n, line in enumerate(lines, 1)) == 12
    assert lines[-1] == "11 succeeded, 1 failed"
    # a look at the list now and then, and each ended task once
    assert [path for _, path in proxy.seen].count(f"/api/v1/tasks/{tasks[0].pk}/") == 1


def test_another_ones_task_is_not_there_to_wait_for(client):
    task = make_waiting_task(make_user("bob"))
    assert "unknown" in client.run("wait", task.pk, code=1).stderr


@pytest.mark.exhaustive
def test_beyond_the_owners_limit_it_waits_for_room(client, alice):
    alice.task_limit = 1
    alice.save()
    process = client.run("submit", "-m", "net.mge", "-w", "x86-1", "-r", "2", "--no-wait", code=1)
    assert "refused" in process.stderr
    assert process.stderr.splitlines()[-1] == "1 submitted, 1 refused"
    assert Task.objects.count() == 1
    # known before anything is made
    arguments = ("submit", "-m", "net.mge", "-w", "x86-1", "-r", "3", "--dry-run")
    stderr = client.run(*arguments, "--no-wait", code=1).stderr
    assert "1 of your at most 1 tasks wait or run now: 3 of these would be refused." in stderr
    assert (
        "0 of these are submitted at once, the rest as others end." in client.run(*arguments).stderr
    )
    alice.task_limit = 4
    alice.save()
    assert "all of these fit" in client.run(*arguments, "--no-wait").stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Name the program within “all.zip” to start. Programs in it: train/main.py, net.py."),
        (["--entry", "main.py"], "has no “main.py”. Programs in it: train/main.py, net.py."),
    ],
)
def test_a_program_that_is_not_in_a_zip_is_told_before_anything_is_sent(
    client, home, arguments, words
):
    (home / "all.zip").write_bytes(zip_of(train__main="1", net="2"))
    make_script_worker("lab")
    process = client.run("submit", "-s", "all.zip", "-w", "lab", *arguments, "--no-wait", code=2)
    assert words in process.stderr
    assert not Task.objects.exists()
    client.run("submit", "-s", "all.zip", "-w", "lab", "--entry", "net.py", "--no-wait")
    assert Task.objects.get().script["entry"] == "net.py"
