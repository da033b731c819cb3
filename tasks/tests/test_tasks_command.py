"""Tests of `manage.py tasks`: list, cancel, repeat and delete many at once."""

import io
import json

import pytest
from django.core.management import CommandError, call_command

from tasks.lifecycle.cancel import cancel_task
from tasks.lifecycle.transitions import transition_if
from tasks.models import Task
from tasks.states import TaskState
from tasks.tests.make import make_task, make_user, make_waiting_task, make_worker, model_file
from webprofile.storage import storage as object_store
from webprofile.storage.s3 import ObjectStorage

pytestmark = pytest.mark.django_db


def tasks(*arguments: object) -> str:
    out = io.StringIO()
    call_command("tasks", *map(str, arguments), stdout=out)
    return out.getvalue()


def listed(*arguments: object) -> list[int]:
    return [json.loads(line)["task"] for line in tasks("list", "--json", *arguments).splitlines()]


@pytest.fixture
def some():
    """Two of alice that wait, one of bob that was cancelled."""
    alice, bob = make_user("alice"), make_user("bob")
    x86, pi = make_worker("x86-1"), make_worker("pi-4", version="1.12.4")
    first = make_waiting_task(alice, x86, files=[model_file()], title="nightly 1")
    files = [model_file(name="Other.mge")]
    second = make_waiting_task(alice, pi, files=files, runtime_version="1.12.4")
    third = make_task(bob, x86)
    cancel_task(third)
    return first, second, third


def test_list_is_filtered_and_sorted_newest_first(some):
    first, second, third = (task.pk for task in some)
    assert listed() == [third, second, first]
    assert listed("--status", "cancelled") == [third]
    assert listed("--status", "cancelled", "--status", "waiting") == [third, second, first]
    assert listed("--owner", "ALICE@example.com", "--worker", "pi-4") == [second]
    assert listed("--megengine", "1.12.4") == [second]
    assert listed("--model", "other") == [second]
    assert listed("--title", "NIGHT") == [first]
    assert listed("--created-after", "2100-01-01T00:00Z") == []
    assert listed(first, second, "--worker", "x86-1") == [first]
    assert listed("--limit", "1") == [third]
    assert "alice@example.com" in tasks("list")


def test_invalid_filter_has_exit_code_2(some):
    with pytest.raises(CommandError) as excinfo:
        tasks("list", "--created-after", "yesterday")
    assert excinfo.value.returncode == 2


def test_cancel_accepts_ids_or_filters(some):
    first, second, _ = some
    tasks("cancel", first.pk, "--yes")
    first.refresh_from_db(), second.refresh_from_db()
    assert (first.status, second.is_live) == ("cancelled", True)
    tasks("cancel", "--owner", "alice@example.com", "--yes")
    second.refresh_from_db()
    assert not second.is_live
    assert "No task fits" in tasks("cancel", "--owner", "alice@example.com", "--yes")


def test_cancel_of_an_ended_run_is_an_error(some, capsys):
    Task.objects.filter(pk=some[0].pk).update(state="processing")
    with pytest.raises(CommandError, match="1 of 1"):
        tasks("cancel", some[0].pk, "--yes")
    assert f"#{some[0].pk} The run had ended already." in capsys.readouterr().err


def test_action_without_ids_and_filters_is_an_error(some):
    for verb in ("cancel", "retry", "delete"):
        with pytest.raises(CommandError, match="Say which"):
            tasks(verb, "--yes")
    assert Task.objects.count() == 3


def test_action_without_yes_and_terminal_changes_nothing(some, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    with pytest.raises(CommandError, match="--yes"):
        tasks("delete", some[2].pk)
    assert Task.objects.filter(pk=some[2].pk).exists()


def test_unusable_id_prevents_all_changes(some):
    first, _, third = some
    with pytest.raises(CommandError, match=f"Not ended yet: #{first.pk}[.] Nothing was changed"):
        tasks("delete", first.pk, third.pk, "--yes")
    whys = f"Had ended already: #{third.pk}[.] There is no such task: #99999[.]"
    with pytest.raises(CommandError, match=whys):
        tasks("cancel", first.pk, third.pk, 99999, "--yes")
    with pytest.raises(CommandError, match=f"Left out by the filters: #{first.pk}[.]"):
        tasks("cancel", first.pk, "--title", "another", "--yes")
    assert Task.objects.count() == 3
    first.refresh_from_db()
    assert first.is_live


def test_delete_removes_ended_tasks(some):
    tasks("delete", "--status", "cancelled", "--yes")
    assert set(Task.objects.all()) == set(some[:2])


def test_retry_copies_task_and_files_for_the_owner(some, storage):
    data = b"hello world"
    first = some[0]
    for file in first.files.all():
        object_store.write(file.object_key, data)
    transition_if(first, TaskState.FINISHED, set(TaskState), outcome="failed", reason="x")
    first.attempts.update(ended_at=first.created_at)
    gone = some[2]
    with pytest.raises(CommandError, match="1 of 2"):
        tasks("retry", first.pk, gone.pk, "--yes")  # whose files never came
    copy = Task.objects.order_by("-pk").first()
    assert (copy.copied_from, copy.owner, copy.title) == (first, first.owner, "nightly 1")
    assert copy.is_live
    model = copy.files.first()
    assert object_store.read(model.object_key, limit_bytes=99) == data


def test_retry_without_files_reports_reasons_and_creates_no_task(some, storage, capsys):
    first, gone = some[0], some[2]
    transition_if(first, TaskState.FINISHED, set(TaskState), outcome="failed", reason="x")
    count = Task.objects.count()
    with pytest.raises(CommandError, match="2 of 2"):
        tasks("retry", first.pk, gone.pk, "--yes")
    errors = capsys.readouterr().err
    assert f"#{first.pk} “net.mge” is not in storage any more" in errors  # though its row says so
    assert f"#{gone.pk} “net.mge” was never uploaded whole" in errors
    assert "choose the file again" in errors
    assert Task.objects.count() == count


@pytest.mark.parametrize("answers", [1, 2], ids=["while it copies", "while it submits"])
def test_retry_that_raises_fails_the_copy(some, storage, monkeypatch, answers):
    for file in some[0].files.all():
        object_store.write(file.object_key, b"hello world")
    transition_if(some[0], TaskState.FINISHED, set(TaskState), outcome="failed", reason="x")
    some[0].attempts.update(ended_at=some[0].created_at)

    good, keys = object_store.head, []

    def break_then(key):
        keys.append(key)
        if len(keys) > answers:
            raise ValueError("not what the client of storage promises")
        return good(key)

    monkeypatch.setattr(ObjectStorage, "head", staticmethod(break_then))
    with pytest.raises(ValueError, match="promises"):
        tasks("retry", some[0].pk, "--yes")
    copy = Task.objects.get(copied_from=some[0])
    assert (copy.status, copy.reason) == ("failed", "copy_failed")
