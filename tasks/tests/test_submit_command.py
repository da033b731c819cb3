"""Tests of `manage.py submit`: created tasks, refused batches, exit codes."""

import io
import json

import numpy as np
import pytest
from django.core.management import CommandError, call_command

from accounts.models import User
from tasks.lifecycle.transitions import transition_if
from tasks.management.commands import submit as submit_command
from tasks.models import Task, TaskFile
from tasks.states import Status, TaskState
from tasks.submission.uploads import confirm_task
from tasks.tests.make import MODEL, make_user, make_worker, model_bytes, npy_bytes, run_submit
from webprofile.storage import storage as object_store
from webprofile.storage.s3 import ObjectStorage

pytestmark = pytest.mark.usefixtures("storage")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.mge").write_bytes(MODEL)
    (tmp_path / "twin.mge").write_bytes(MODEL)
    (tmp_path / "other.mge").write_bytes(model_bytes(b"other"))
    (tmp_path / "cat.npy").write_bytes(npy_bytes())
    return tmp_path


@pytest.fixture
def alice(db):
    make_worker("x86-1")
    return make_user("alice")


def rejection(*arguments: str, **options) -> CommandError:
    with pytest.raises(CommandError) as caught:
        run_submit(*arguments, **options)
    assert not Task.objects.exists()
    return caught.value


def test_batch_file_creates_a_task_for_each_combination(alice, folder, capsys):
    (folder / "batch.toml").write_text(
        'models = ["net.mge", "other.mge"]\nworkers = "x86-1"\nrepeats = 2\nplan = "standard"\n'
        'title = "night {model}"\npriority = 3\n[data]\ndata = "cat.npy"\n'
        "[option_sets.plain]\n[option_sets.fast]\nfast_run = true\n"
    )
    run_submit("batch.toml")
    tasks = list(Task.objects.order_by("pk"))
    assert len(tasks) == 8
    assert {task.state for task in tasks} <= {TaskState.WAITING, TaskState.ASSIGNED}
    assert {task.owner for task in tasks} == {alice}
    assert [task.options for task in tasks[:4]] == [{}, {}, {"fast_run": True}, {"fast_run": True}]
    assert tasks[0].plan["preset"] == "standard"
    assert (tasks[-1].title, tasks[-1].priority) == ("night other", 3)
    model, data = tasks[-1].files.all()
    assert object_store.read(model.object_key, limit_bytes=99) == model_bytes(b"other")
    assert object_store.read(data.object_key, limit_bytes=9999) == npy_bytes()
    assert data.arrays == [{"name": "", "dtype": "float32", "shape": [1, 3]}]
    # without a terminal there is one line for each task
    assert f"#{tasks[0].pk} net.mge x86-1 1.13.0 plain 1/2" in capsys.readouterr().err


def test_same_content_is_uploaded_once(alice, folder, monkeypatch):
    keys = []
    write_from = object_store.write_from

    def record(key, file) -> None:
        keys.append(key)
        write_from(key, file)

    monkeypatch.setattr(ObjectStorage, "write_from", staticmethod(record))
    run_submit("-m", "net.mge", "-m", "twin.mge", "-w", "x86-1", "-r", "3")
    assert Task.objects.count() == 6
    assert len(keys) == 1
    for row in TaskFile.objects.all():
        assert object_store.read(row.object_key, limit_bytes=99) == MODEL


def test_content_is_uploaded_again_if_its_first_task_was_deleted(alice, folder, monkeypatch):
    def confirm_and_remove(task) -> None:
        confirm_task(task)
        for file in task.files.all():
            object_store.delete(file.object_key)

    monkeypatch.setattr("tasks.management.commands.submit.confirm_task", confirm_and_remove)
    run_submit("-m", "net.mge", "-w", "x86-1", "-r", "2")
    assert [task.status for task in Task.objects.all()] == ["waiting", "waiting"]


def test_dry_run_prints_the_matrix_and_creates_no_task(alice, folder):
    output = run_submit("-m", "*.mge", "-w", "x86-1", "-r", "2", dry_run=True)
    assert "6 tasks; nothing was created." in output
    assert output.count("net.mge") == 2
    assert not Task.objects.exists()


def test_invalid_batch_reports_all_errors_and_creates_no_task(alice, folder):
    np.save(folder / "complex.npy", np.zeros(3, "complex64"))
    (folder / "empty.mge").write_bytes(b"")
    (folder / "batch.toml").write_text(
        'models = "net.mge"\nworkers = "x86-1"\n[[tasks]]\n[[tasks]]\nplan = "slow"\n'
        "[[tasks]]\n[tasks.option_sets.bad]\nno_such_option = 1\n"
        '[[tasks]]\n[tasks.data]\ndata = "complex.npy"\n[[tasks]]\nmodels = "empty.mge"\n'
        "[[tasks]]\n[tasks.inputs]\nx = {shape = [1, 0]}\n[[tasks]]\npriority = 99\n"
        "[[tasks]]\nseed = -1\n[tasks.options]\niter = [1, 2]\n[tasks.inputs]\n"
        'x = {shape = "1,x"}\n'
    )
    error = rejection("batch.toml")
    assert error.returncode == 2
    places = [line.split(": ")[0] for line in str(error).splitlines()]
    assert places == [
        "tasks[1].plan", "tasks[2].option_sets.bad.no_such_option", "tasks[3].data",
        "tasks[4].models", "tasks[5].inputs.x", "tasks[6].priority", "tasks[7].options.iter",
        "tasks[7].seed", "tasks[7].inputs.x.shape",
    ]  # fmt: skip


@pytest.mark.parametrize("offline", [True, False])
def test_private_device_has_the_error_of_an_unknown_device(alice, folder, offline):
    make_worker("secret", is_public=False)
    error = rejection("-m", "net.mge", "-w", "secret" if offline else "none")
    assert "does not exist, or you don’t have access" in str(error)


def test_two_files_for_one_input_are_rejected(alice, folder):
    (folder / "values.json").write_text('{"x": {"shape": [1], "type": "float32", "raw": [1]}}')
    error = rejection("-m", "net.mge", "-w", "x86-1", "-d", "values.json", "-i", "x=1")
    assert str(error).startswith("data: ")


def test_unknown_or_inactive_owner_is_rejected(alice, folder):
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert rejection("-m", "net.mge", "-w", "x86-1").returncode == 2
    User.objects.filter(pk=alice.pk).delete()
    assert "User alice@example.com does not exist" in str(rejection("-m", "net.mge", "-w", "x86-1"))


def test_unreachable_storage_stops_the_command_after_one_failed_task(alice, folder, settings):
    settings.S3_ENDPOINT_URL = "http://127.0.0.1:9"
    with pytest.raises(CommandError) as caught:
        run_submit("-m", "net.mge", "-w", "x86-1", "-r", "3")
    assert caught.value.returncode == 1
    (task,) = Task.objects.all()
    assert (task.status, task.reason) == (Status.FAILED, "upload_abandoned")


@pytest.fixture
def outcomes(monkeypatch):
    """A list of outcomes: while the command sleeps, a task ends with the next one."""
    outcomes: list[str] = []

    def end_one(seconds: float) -> None:
        task = Task.objects.exclude(state=TaskState.FINISHED).order_by("pk").first()
        transition_if(task, TaskState.FINISHED, set(TaskState), outcome=outcomes.pop(0))

    monkeypatch.setattr(submit_command.time, "sleep", end_one)
    return outcomes


@pytest.mark.parametrize(("last", "code"), [("succeeded", 0), ("failed", 1), ("cancelled", 1)])
def test_exit_code_reports_whether_all_tasks_succeeded(alice, folder, outcomes, last, code):
    outcomes += ["succeeded", last]
    out = io.StringIO()
    arguments = ("-m", "net.mge", "-w", "x86-1", "-r", "2", "--json", "--as", "ALICE@example.com")
    try:
        call_command("submit", *arguments, stdout=out)
        exit_code = 0
    except CommandError as error:
        exit_code = error.returncode
    assert exit_code == code
    assert [row["status"] for row in json.loads(out.getvalue())] == ["succeeded", last]


def test_timeout_has_its_own_exit_code(alice, folder):
    arguments = ("-m", "net.mge", "-w", "x86-1", "--as", alice.email, "--timeout", "0.01")
    with pytest.raises(CommandError) as caught:
        call_command("submit", *arguments)
    assert caught.value.returncode == 4
    assert Task.objects.get().is_live


def test_interrupt_while_waiting_lists_live_tasks(alice, folder, monkeypatch, capsys):
    def stop(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(submit_command.time, "sleep", stop)
    arguments = ("-m", "net.mge", "-w", "x86-1", "-r", "2", "--as", alice.email)
    with pytest.raises(CommandError) as caught:
        call_command("submit", *arguments)
    assert caught.value.returncode == 130
    first, second = Task.objects.order_by("pk")
    assert (first.is_live, second.is_live) == (True, True)
    message = f"2 of 2 were submitted; 2 continue: {first.pk} {second.pk}"
    assert message in capsys.readouterr().err


def test_interrupt_during_an_upload_fails_the_incomplete_task(alice, folder, monkeypatch, capsys):
    write_from, keys = object_store.write_from, []

    def stop(key, file) -> None:
        if keys:
            raise KeyboardInterrupt
        keys.append(key)
        write_from(key, file)

    monkeypatch.setattr(ObjectStorage, "write_from", staticmethod(stop))
    with pytest.raises(CommandError) as caught:
        run_submit("-m", "net.mge", "-m", "other.mge", "-w", "x86-1")
    assert caught.value.returncode == 130
    first, incomplete = Task.objects.order_by("pk")
    assert (first.is_live, incomplete.status) == (True, Status.FAILED)
    assert f"1 of 2 were submitted; 1 continue: {first.pk}" in capsys.readouterr().err


def test_command_waits_when_the_task_limit_is_reached(alice, folder, outcomes):
    User.objects.filter(pk=alice.pk).update(task_limit=1)
    outcomes += ["succeeded"] * 3
    call_command("submit", "-m", "net.mge", "-w", "x86-1", "-r", "3", "--as", alice.email)
    assert Task.objects.filter(outcome="succeeded").count() == 3


def test_no_wait_rejects_tasks_beyond_the_limit(alice, folder):
    User.objects.filter(pk=alice.pk).update(task_limit=1)
    with pytest.raises(CommandError, match="1 of 2 tasks"):
        run_submit("-m", "net.mge", "-w", "x86-1", "-r", "2")
    assert Task.objects.count() == 1
