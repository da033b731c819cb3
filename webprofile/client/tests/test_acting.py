"""Tests of `webprofile list`, `cancel`, `retry` and `delete`, with a result for each task."""

import pytest

from tasks.lifecycle.transitions import transition_if
from tasks.models import Task
from tasks.states import TaskState
from tasks.tests.make import make_user, make_waiting_task, model_file
from webprofile.storage import storage as object_store


@pytest.fixture
def ended(alice):
    """Makes an ended task whose model lies in storage."""

    def make(**more):
        task = make_waiting_task(alice, files=[model_file()], **more)
        object_store.write(task.files.get().object_key, b"hello world")
        transition_if(task, TaskState.FINISHED, set(TaskState), outcome="failed", reason="x")
        task.attempts.update(ended_at=task.created_at)
        return task

    return make


def lines(done):
    return done.stdout.splitlines()


def test_tasks_are_listed_by_filters_under_both_names(client, alice):
    mine = [make_waiting_task(alice, title=title) for title in ("nightly", "other")]
    assert [row["id"] for row in client.json("list", "--title", "night")] == [mine[0].pk]
    assert [row["id"] for row in client.json("tasks", "--title", "night")] == [mine[0].pk]
    shown = client.run("list", "--limit", "1").stdout
    assert ("other" in shown, "nightly" in shown) == (True, False)


def test_cancel_says_of_each_task_what_became_of_it(client, alice, ended):
    going, over, theirs = make_waiting_task(alice), ended(), make_waiting_task(make_user("bob"))
    output = lines(client.run("cancel", going.pk, over.pk, theirs.pk, 99999, code=1))
    nothing = "left There is no such task that you may see."
    assert output == [
        f"#{going.pk} cancelled",
        f"#{over.pk} ended The run had ended already.",
        f"#{theirs.pk} {nothing}",
        f"#99999 {nothing}",
    ]
    rows = client.json("cancel", going.pk, over.pk)
    assert [(row["task"], row["result"]) for row in rows] == [
        (going.pk, "cancelled"), (over.pk, "ended"),
    ]  # fmt: skip


def test_a_title_is_taken_as_written_before_tasks_are_ended_by_it(client, alice, ended):
    first, other = (make_waiting_task(alice, title=title) for title in ("abc d", "abcd"))
    assert lines(client.run("cancel", "--title", "c ", "--yes")) == [f"#{first.pk} cancelled"]
    assert Task.objects.get(pk=other.pk).is_live
    first, other = ended(title="abc d"), ended(title="abcd")
    client.run("delete", "--title", "c ", "--status", "failed", "--yes")
    assert [*Task.objects.filter(pk__in=[first.pk, other.pk])] == [other]


def test_cancel_takes_filters_or_all_of_ones_own_but_never_nothing(client, alice):
    one, two = make_waiting_task(alice, title="nightly"), make_waiting_task(alice)
    theirs = make_waiting_task(make_user("bob"))
    client.run("cancel", code=2)
    client.run("cancel", one.pk, "--all-mine", code=2)
    assert "--yes" in client.run("cancel", "--title", "night", code=2).stderr
    assert lines(client.run("cancel", "--title", "night", "--yes")) == [f"#{one.pk} cancelled"]
    assert client.run("cancel", "--title", "no such", "--yes").stdout.startswith("No task fits")
    assert f"#{two.pk} cancelled" in lines(client.run("cancel", "--all-mine"))
    going = Task.objects.exclude(state__in=[TaskState.CANCELLING, TaskState.FINISHED])
    assert list(going) == [theirs]


def test_retry_names_the_new_tasks_and_why_others_were_left_out(client, alice, ended):
    good, gone, live = ended(), ended(), make_waiting_task(alice)
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
    assert "“net.mge” is not in storage any more" in rows[1]["detail"]
    assert Task.objects.count() == 4


def test_retry_by_filters_repeats_what_has_ended(client, alice, ended):
    task, _ = ended(title="nightly 1"), make_waiting_task(alice, title="nightly 2")
    output = lines(client.run("retry", "--title", "nightly", "--yes"))
    assert output == [f"#{task.pk} repeated as #{Task.objects.get(copied_from=task).pk}"]


def test_delete_asks_first_and_says_what_was_left(client, alice, ended):
    gone, live = ended(), make_waiting_task(alice)
    assert f"Delete #{gone.pk} with files" in client.run("delete", gone.pk, code=2).stderr
    assert Task.objects.filter(pk=gone.pk).exists()
    output = lines(client.run("delete", gone.pk, live.pk, "--yes", code=1))
    assert output == [
        f"#{gone.pk} deleted",
        f"#{live.pk} left This task has not ended. Cancel it first.",
    ]
    assert list(Task.objects.all()) == [live]
    assert client.run("delete", "--status", "waiting", "--yes", code=1).stdout.count("left") == 1


def test_what_was_done_before_the_site_went_away_is_told(client, alice, ended, proxy):
    first, second = ended(), ended()
    proxy.plan = lambda method, path: "401" if f"/{second.pk}/" in path else ""
    client.environment["WEBPROFILE_SITE"] = proxy.address
    done = client.run("retry", first.pk, second.pk, "--json", code=1)
    assert f'"task": {first.pk}' in done.stdout
    assert "answered 401" in done.stderr


@pytest.mark.parametrize("verb", ["retry", "delete"])
def test_an_answer_that_was_lost_does_it_once_and_is_told_as_done(
    client, alice, ended, proxy, verb
):
    task, lost = ended(), []

    def plan(method, path):
        if method in ("POST", "DELETE") and not lost:
            lost.append(path)
            return "lost"
        return ""

    proxy.plan = plan
    client.environment["WEBPROFILE_SITE"] = proxy.address
    (row,) = client.json(verb, task.pk, "--yes")
    assert row["result"] == {"retry": "repeated", "delete": "deleted"}[verb]
    assert Task.objects.exclude(pk=task.pk).count() == (1 if verb == "retry" else 0)
