"""Tests of `webprofile list`, `cancel`, `enough`, `retry`, `delete` and `share`."""

import httpx2
import pytest

from profiles.models import Share
from tasks.lifecycle.transitions import transition_if
from tasks.models import Task
from tasks.states import TaskState
from tasks.tests.make import (
    MODEL,
    make_user,
    make_waiting_task,
    make_worker,
    model_file,
    start_run,
)
from webprofile.storage import storage as object_store


@pytest.fixture
def make_ended(alice):
    """Function that creates an ended task with its model in storage."""

    def make(**more):
        task = make_waiting_task(alice, files=[model_file()], **more)
        object_store.write(task.files.get().object_key, MODEL)
        transition_if(task, TaskState.FINISHED, set(TaskState), outcome="failed", reason="x")
        task.attempts.update(ended_at=task.created_at)
        return task

    return make


def lines(result):
    return result.stdout.splitlines()


def test_share_prints_a_link_that_anybody_can_open(client, alice, make_steady, live_server):
    task = make_steady(0.5)
    result = client.run("share", task, "--days", "7", "--show", "log")
    (address,) = lines(result)
    share = Share.objects.get()
    assert (share.ids, share.parts) == ([task], ["log"])
    assert f"Expires {share.ends_at.date().isoformat()}" in result.stderr
    assert httpx2.get(address).status_code == 200
    assert client.json("share", task)["url"].startswith(f"{live_server.url}/s/mws_")
    waiting = make_waiting_task(alice)
    assert "has no result" in client.run("share", waiting.pk, code=1).stderr


def test_list_and_tasks_filter_the_tasks(client, alice):
    mine = [make_waiting_task(alice, title=title) for title in ("nightly", "other")]
    assert [row["id"] for row in client.json("list", "--title", "night")] == [mine[0].pk]
    assert [row["id"] for row in client.json("tasks", "--title", "night")] == [mine[0].pk]
    output = client.run("list", "--limit", "1").stdout
    assert ("other" in output, "nightly" in output) == (True, False)


def test_enough_ends_runs_that_have_measured_something(client, alice):
    measured, fresh = (
        start_run(alice, worker=make_worker(facts={"features": ["enough"]}), passes_done=done)
        for done in (3, 0)
    )
    output = lines(client.run("enough", measured.task_id, fresh.task_id, code=1))
    assert output[0] == f"#{measured.task_id} ending"
    assert output[1].startswith(f"#{fresh.task_id} left Nothing has been measured yet")
    measured.refresh_from_db()
    assert measured.enough_at is not None


def test_enough_says_that_a_run_had_already_ended(client, make_ended):
    task = make_ended()
    output = lines(client.run("enough", task.pk))
    assert output == [f"#{task.pk} ended The run had already ended."]


def test_cancel_prints_the_result_for_each_task(client, alice, make_ended):
    live, finished = make_waiting_task(alice), make_ended()
    foreign = make_waiting_task(make_user("bob"))
    output = lines(client.run("cancel", live.pk, finished.pk, foreign.pk, 99999, code=1))
    unknown = "left The task does not exist, or you don’t have access."
    assert output == [
        f"#{live.pk} cancelled",
        f"#{finished.pk} ended The run had already ended.",
        f"#{foreign.pk} {unknown}",
        f"#99999 {unknown}",
    ]
    rows = client.json("cancel", live.pk, finished.pk)
    assert [(row["task"], row["result"]) for row in rows] == [
        (live.pk, "cancelled"), (finished.pk, "ended"),
    ]  # fmt: skip


def test_filter_by_title_keeps_spaces(client, alice, make_ended):
    first, other = (make_waiting_task(alice, title=title) for title in ("abc d", "abcd"))
    assert lines(client.run("cancel", "--title", "c ", "--yes")) == [f"#{first.pk} cancelled"]
    assert Task.objects.get(pk=other.pk).is_live
    first, other = make_ended(title="abc d"), make_ended(title="abcd")
    client.run("delete", "--title", "c ", "--status", "failed", "--yes")
    assert [*Task.objects.filter(pk__in=[first.pk, other.pk])] == [other]


@pytest.mark.exhaustive
def test_cancel_requires_ids_filters_or_all_mine(client, alice):
    nightly, other = make_waiting_task(alice, title="nightly"), make_waiting_task(alice)
    foreign = make_waiting_task(make_user("bob"))
    client.run("cancel", code=2)
    client.run("cancel", nightly.pk, "--all-mine", code=2)
    assert "--yes" in client.run("cancel", "--title", "night", code=2).stderr
    assert lines(client.run("cancel", "--title", "night", "--yes")) == [f"#{nightly.pk} cancelled"]
    assert client.run("cancel", "--title", "no such", "--yes").stdout.startswith(
        "No matching tasks"
    )
    assert f"#{other.pk} cancelled" in lines(client.run("cancel", "--all-mine"))
    live = Task.objects.exclude(state__in=[TaskState.CANCELLING, TaskState.FINISHED])
    assert list(live) == [foreign]


def test_retry_prints_new_tasks_and_why_others_were_skipped(client, alice, make_ended):
    good, gone, live = make_ended(), make_ended(), make_waiting_task(alice)
    object_store.delete(gone.files.get().object_key)
    rows = client.json("retry", good.pk, gone.pk, live.pk, 99999, code=1)
    copy = Task.objects.get(copied_from=good)
    assert copy.is_live
    assert [(row["task"], row["result"], row["code"], row["again_as"]) for row in rows] == [
        (good.pk, "repeated", "", copy.pk),
        (gone.pk, "left", "file_gone", None),
        (live.pk, "left", "not_ended", None),
        (99999, "left", "not_found", None),
    ]
    assert "“net.mge” is no longer in storage" in rows[1]["detail"]
    assert Task.objects.count() == 4


def test_retry_by_filters_repeats_ended_tasks(client, alice, make_ended):
    task, _ = make_ended(title="nightly 1"), make_waiting_task(alice, title="nightly 2")
    output = lines(client.run("retry", "--title", "nightly", "--yes"))
    assert output == [f"#{task.pk} repeated as #{Task.objects.get(copied_from=task).pk}"]


def test_delete_requires_yes_and_prints_skipped_tasks(client, alice, make_ended):
    gone, live = make_ended(), make_waiting_task(alice)
    assert f"Delete #{gone.pk} with files" in client.run("delete", gone.pk, code=2).stderr
    assert Task.objects.filter(pk=gone.pk).exists()
    output = lines(client.run("delete", gone.pk, live.pk, "--yes", code=1))
    assert output == [
        f"#{gone.pk} deleted",
        f"#{live.pk} left This task has not ended. Cancel it first.",
    ]
    assert list(Task.objects.all()) == [live]
    assert client.run("delete", "--status", "waiting", "--yes", code=1).stdout.count("left") == 1


def test_results_before_a_failure_are_printed(client, alice, make_ended, proxy):
    first, second = make_ended(), make_ended()
    proxy.plan = lambda method, path: "401" if f"/{second.pk}/" in path else ""
    result = client.run("retry", first.pk, second.pk, "--json", code=1)
    assert f'"task": {first.pk}' in result.stdout
    assert "answered 401" in result.stderr


@pytest.mark.parametrize("verb", ["retry", "delete"])
def test_action_is_repeated_after_a_lost_response_without_effect(
    client, alice, make_ended, proxy, verb
):
    task = make_ended()
    proxy.lose_first("POST", "DELETE")
    (row,) = client.json(verb, task.pk, "--yes")
    assert row["result"] == {"retry": "repeated", "delete": "deleted"}[verb]
    assert Task.objects.exclude(pk=task.pk).count() == (1 if verb == "retry" else 0)
