"""Tests of `Site`, the Python interface."""

import pytest

from profiles.services import build_attempt_profile
from profiles.tests.make import make_profile, to_json
from profiles.tests.pages import ended_attempt
from webprofile.client import Site
from webprofile.client.batchfile import BatchError
from webprofile.client.errors import ClientError, ProblemError, UsageError


@pytest.fixture
def site(client, capsys):
    values = client.environment
    with Site(values["WEBPROFILE_SITE"], values["WEBPROFILE_TOKEN"]) as site:
        yield site
    # a library prints nothing
    assert capsys.readouterr() == ("", "")


@pytest.fixture
def result(alice) -> int:
    files = {"profile.json": to_json(make_profile({"1": 0.25, "2": 0.5}, names={"1": "conv"}))}
    attempt = ended_attempt(files, alice)
    build_attempt_profile(attempt)
    return attempt.task_id


def test_submit_cancel_retry_and_delete(site, home):
    (device,) = site.workers()
    keys = {"models": [str(home / "net.mge")], "workers": [device["name"]], "repeats": 2}
    tasks = site.submit(**keys, data={"data": str(home / "cat.npy")}, key="nightly")
    assert tasks == site.submit(**keys, data={"data": str(home / "cat.npy")}, key="nightly")
    assert sorted(tasks) == sorted(task["id"] for task in site.tasks(status="waiting"))
    waited = site.wait(tasks, timeout_s=0)
    assert [task["status"] for task in waited.values()] == ["waiting", "waiting"]
    assert site.cancel(tasks) == {"cancelled": tasks, "ended": []}
    # repeating a request gives the same answer
    assert site.cancel(tasks) == {"cancelled": tasks, "ended": []}
    again = site.retry(tasks[0])
    assert site.task(again)["status"] == "waiting"
    site.delete(tasks[0])
    with pytest.raises(UsageError):
        site.task(tasks[0])


def test_submission_with_mistakes_creates_nothing(site, home):
    with pytest.raises(BatchError):
        site.submit(models=[str(home / "net.mge")], workers=["elsewhere"])
    assert site.tasks() == []


def test_result_as_objects_and_files(site, result, tmp_path):
    rows = site.operators(result, rows=1)["operators"]
    assert [row["self_s"] for row in rows] == [0.5]
    device = next(side for side in site.statistics(result)["sides"] if side["side"] == "device")
    assert device["total_s"] == 0.75
    assert b"conv" in site.export(result, "csv")
    names = [artifact["name"] for artifact in site.artifacts(result)]
    site.download(result, "profile.json", tmp_path / "profile.json")
    assert "profile.json" in names
    assert b"conv" in (tmp_path / "profile.json").read_bytes()
    with pytest.raises(ProblemError):
        site.download(result, "nothing.json", tmp_path / "nothing.json")
    assert not (tmp_path / "nothing.json").exists()


def test_task_without_a_result_is_an_error(site, home):
    (task,) = site.submit(models=[str(home / "net.mge")], workers=["x86-1"])
    with pytest.raises(ClientError, match="no result"):
        site.operators(task)
