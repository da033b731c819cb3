"""Tests of `manage.py tasks`: list, cancel, retry and delete tasks."""

import io
import json

import pytest
from django.core.management import CommandError, call_command

from tasks.health_checks import create_health_task
from tasks.lifecycle.cancel import cancel_task
from tasks.lifecycle.transitions import transition_if
from tasks.models import Task
from tasks.states import TaskState
from tasks.tests.make import MODEL, make_task, make_user, make_waiting_task, make_worker, model_file
from tasks.tests.scripts import make_script_task
from webprofile.storage import storage as object_store
from webprofile.storage.s3 import ObjectStorage
from workers.health import open_check
from workers.models import HealthCheck

pytestmark = pytest.mark.django_db


def run_tasks(*arguments: object) -> str:
    out = io.StringIO()
    call_command("tasks", *map(str, arguments), stdout=out)
    return out.getvalue()


def list_rows(*arguments: object) -> list[dict]:
    return [json.loads(line) for line in run_tasks("list", "--json", *arguments).splitlines()]


def list_ids(*arguments: object) -> list[int]:
    return [row["task"] for row in list_rows(*arguments)]


@pytest.fixture
def tasks():
    """Create two waiting tasks of alice and a cancelled task of bob."""
    alice, bob = make_user("alice"), make_user("bob")
    x86, pi = make_worker("x86-1"), make_worker("pi-4", version="1.12.4")
    first = make_waiting_task(alice, x86, files=[model_file()], title="nightly 1")
    files = [model_file(name="Other.mge")]
    second = make_waiting_task(alice, pi, files=files, runtime_version="1.12.4")
    third = make_task(bob, x86)
    cancel_task(third)
    return first, second, third


def test_list_is_filtered_and_sorted_newest_first(tasks):
    first, second, third = (task.pk for task in tasks)
    assert list_ids() == [third, second, first]
    assert list_ids("--status", "cancelled") == [third]
    assert list_ids("--status", "cancelled", "--status", "waiting") == [third, second, first]
    assert list_ids("--owner", "ALICE@example.com", "--worker", "pi-4") == [second]
    assert list_ids("--megengine", "1.12.4") == [second]
    assert list_ids("--model", "other") == [second]
    assert list_ids("--title", "NIGHT") == [first]
    assert list_ids("--created-after", "2100-01-01T00:00Z") == []
    assert list_ids(first, second, "--worker", "x86-1") == [first]
    assert list_ids("--limit", "1") == [third]
    assert "alice@example.com" in run_tasks("list")


def test_list_says_whether_it_is_complete(tasks, capsys):
    for arguments, is_complete in (
        (["--limit", 2], False),
        (["--limit", 3], True),
        (["--limit", 0, "--worker", "none"], True),
    ):
        run_tasks("list", *arguments)
        assert ("Only the newest" not in capsys.readouterr().err) is is_complete


def test_list_filters_by_kind():
    make_waiting_task(make_user(), make_worker())
    script = make_script_task()
    (row,) = list_rows("--kind", "script")
    assert (row["task"], row["kind"]) == (script.pk, "script")


def test_health_checks_are_only_chosen_by_their_numbers(tasks):
    check = open_check(make_worker(), version="1.13.0", cause=HealthCheck.Cause.SCHEDULE)
    task = create_health_task(check)
    cancel_task(task)
    assert task.pk not in list_ids("--status", "cancelled")
    assert list_ids(task.pk) == [task.pk]
    with pytest.raises(CommandError, match="Health checks are not repeated"):
        run_tasks("retry", task.pk, "--yes")
    assert "No matching tasks" in run_tasks("retry", "--worker", check.worker.name, "--yes")
    run_tasks("delete", "--status", "cancelled", "--yes")
    assert Task.objects.filter(pk=task.pk).exists()


def test_invalid_filter_has_exit_code_2(tasks):
    with pytest.raises(CommandError) as caught:
        run_tasks("list", "--created-after", "yesterday")
    assert caught.value.returncode == 2


def test_cancel_accepts_ids_or_filters(tasks):
    first, second, _ = tasks
    run_tasks("cancel", first.pk, "--yes")
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.status, second.is_live) == ("cancelled", True)
    run_tasks("cancel", "--owner", "alice@example.com", "--yes")
    second.refresh_from_db()
    assert not second.is_live
    assert "No matching tasks" in run_tasks("cancel", "--owner", "alice@example.com", "--yes")


def test_cancel_of_an_ended_run_is_an_error(tasks, capsys):
    Task.objects.filter(pk=tasks[0].pk).update(state="processing")
    with pytest.raises(CommandError, match="1 of 1"):
        run_tasks("cancel", tasks[0].pk, "--yes")
    assert f"#{tasks[0].pk} The run had already ended." in capsys.readouterr().err


def test_action_without_ids_and_filters_is_an_error(tasks):
    for verb in ("cancel", "retry", "delete"):
        with pytest.raises(CommandError, match="Give numbers"):
            run_tasks(verb, "--yes")
    assert Task.objects.count() == 3


def test_action_without_yes_and_terminal_changes_nothing(tasks, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    with pytest.raises(CommandError, match="--yes"):
        run_tasks("delete", tasks[2].pk)
    assert Task.objects.filter(pk=tasks[2].pk).exists()


def test_unusable_id_prevents_all_changes(tasks):
    first, _, third = tasks
    with pytest.raises(CommandError, match=f"Not ended yet: #{first.pk}[.] Nothing was changed"):
        run_tasks("delete", first.pk, third.pk, "--yes")
    whys = f"Already ended: #{third.pk}[.] Unknown task: #99999[.]"
    with pytest.raises(CommandError, match=whys):
        run_tasks("cancel", first.pk, third.pk, 99999, "--yes")
    with pytest.raises(CommandError, match=f"Excluded by the filters: #{first.pk}[.]"):
        run_tasks("cancel", first.pk, "--title", "another", "--yes")
    assert Task.objects.count() == 3
    first.refresh_from_db()
    assert first.is_live


def test_delete_removes_ended_tasks(tasks):
    run_tasks("delete", "--status", "cancelled", "--yes")
    assert set(Task.objects.all()) == set(tasks[:2])


def test_retry_copies_task_and_files_for_the_owner(tasks, storage):
    first = tasks[0]
    for file in first.files.all():
        object_store.write(file.object_key, MODEL)
    transition_if(first, TaskState.FINISHED, set(TaskState), outcome="failed", reason="x")
    first.attempts.update(ended_at=first.created_at)
    incomplete = tasks[2]
    with pytest.raises(CommandError, match="1 of 2"):
        run_tasks("retry", first.pk, incomplete.pk, "--yes")  # the second has no uploaded files
    copy = Task.objects.order_by("-pk").first()
    assert (copy.copied_from, copy.owner, copy.title) == (first, first.owner, "nightly 1")
    assert copy.is_live
    model = copy.files.first()
    assert object_store.read(model.object_key, limit_bytes=99) == MODEL


def test_retry_without_files_reports_reasons_and_creates_no_task(tasks, storage, capsys):
    first, incomplete = tasks[0], tasks[2]
    transition_if(first, TaskState.FINISHED, set(TaskState), outcome="failed", reason="x")
    count = Task.objects.count()
    with pytest.raises(CommandError, match="2 of 2"):
        run_tasks("retry", first.pk, incomplete.pk, "--yes")
    errors = capsys.readouterr().err
    # although the row says that the file is stored
    assert f"#{first.pk} “net.mge” is no longer in storage" in errors
    assert f"#{incomplete.pk} The upload of “net.mge” was never completed" in errors
    assert "choose the file again" in errors
    assert Task.objects.count() == count


@pytest.mark.parametrize("calls", [1, 2], ids=["copy", "submit"])
def test_retry_that_raises_fails_the_copy(tasks, storage, monkeypatch, calls):
    for file in tasks[0].files.all():
        object_store.write(file.object_key, MODEL)
    transition_if(tasks[0], TaskState.FINISHED, set(TaskState), outcome="failed", reason="x")
    tasks[0].attempts.update(ended_at=tasks[0].created_at)

    head, keys = object_store.head, []

    def fail_after_calls(key):
        keys.append(key)
        if len(keys) > calls:
            raise ValueError("an unexpected error")
        return head(key)

    monkeypatch.setattr(ObjectStorage, "head", staticmethod(fail_after_calls))
    with pytest.raises(ValueError, match="unexpected"):
        run_tasks("retry", tasks[0].pk, "--yes")
    copy = Task.objects.get(copied_from=tasks[0])
    assert (copy.status, copy.reason) == ("failed", "copy_failed")
