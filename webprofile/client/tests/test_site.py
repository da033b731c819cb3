"""Tests of `Site`, the Python interface."""

import json
import subprocess
import sys

import msgspec
import pytest
from allauth.mfa.totp.internal import auth as totp

from accounts.models import AccessToken
from accounts.tests.make import totp_code
from profiles.services import build_attempt_profile
from profiles.tests.make import make_profile, to_json
from profiles.tests.pages import ended_attempt
from tasks.tests.make import make_user, make_waiting_task
from webprofile.client import BatchError, ClientError, ProblemError, Site, UsageError
from webprofile.client.answers import (
    Artifact,
    Comparison,
    Device,
    Gate,
    Latency,
    OperatorTable,
    Planned,
    Statistics,
    Task,
)
from webprofile.client.tests.conftest import ROOT


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
    with pytest.raises(BatchError) as raised:
        site.check(models=[str(home / "net.mge")], workers=["x86-1"], repeats=0)
    assert [place for place, _ in raised.value.mistakes] == ["repeats"]
    assert site.tasks() == []


def test_check_returns_the_matrix_of_a_submission_without_creating_it(site, client, home):
    (home / "nightly.toml").write_text('models = "net.mge"\nworkers = "x86-1"\nrepeats = 2\n')
    rows = site.check_file(home / "nightly.toml")
    assert rows == client.json("submit", "nightly.toml", "--dry-run")
    assert [(row["worker"], row["repeat"]) for row in rows] == [("x86-1", 1), ("x86-1", 2)]
    assert len(site.check(models=[str(home / "net.mge")], workers=["x86-1"], repeats=2)) == 2
    assert site.tasks() == []
    assert len(site.submit_file(home / "nightly.toml")) == 2


def test_cancel_all_ends_the_live_tasks_of_the_user(site, alice):
    mine = [make_waiting_task(alice).pk for _ in range(2)]
    make_waiting_task(make_user("bob"))
    assert sorted(site.cancel_all()["cancelled"]) == mine
    assert site.cancel_all()["cancelled"] == []


def test_table_has_a_row_for_each_known_task(site, client, alice, result):
    waiting = make_waiting_task(alice, title="nightly").pk
    rows = site.table([waiting, result, 99999])
    assert [(row["task"], row["status"]) for row in rows] == [
        (result, "succeeded"), (waiting, "waiting"),
    ]  # fmt: skip
    assert rows == json.loads(
        client.run("export", "--table", result, waiting, "--format", "json").stdout
    )


def test_judge_gives_the_verdict_of_the_command(site, client, make_steady):
    before, after = make_steady(0.25), make_steady(0.30)
    gate = site.judge([before, after], 5)
    command = client.json("compare", before, after, "--fail-above", "5", code=1)["gate"]
    assert gate == command
    assert (gate["result"], gate["others"][0]["task"]) == ("failed", after)
    assert site.judge([before, after], 25)["result"] == "passed"
    disturbed = make_steady(0.25, disturbed=True)
    assert site.judge([before, disturbed], 5)["result"] == "not enough evidence"


def test_log_in_creates_a_token_and_log_out_revokes_it(live_server, alice):
    address, password = live_server.url, "correct horse battery"
    with Site.log_in(address + "/", alice.email, password, days=2) as site:
        assert [device["name"] for device in site.workers()] == ["x86-1"]
        assert AccessToken.objects.get().scopes == ["read", "write"]
        site.log_out()
        with pytest.raises(ProblemError) as refused:
            site.workers()
    assert refused.value.status == 401
    with pytest.raises(ProblemError):
        Site.log_in(address, alice.email, "wrong")
    secret = totp.generate_totp_secret()
    totp.TOTP.activate(alice, secret)
    with pytest.raises(ProblemError) as missing:
        Site.log_in(address, alice.email, password)
    assert missing.value.code == "code_needed"
    with Site.log_in(address, alice.email, password, code=totp_code(secret)) as site:
        assert site.tasks() == []


def test_names_of_artifacts_are_no_part_of_an_address(site, result, tmp_path):
    for name in ("profile.json/#", "profile.json/?x=", "../artifacts/profile.json", "a b%2F"):
        with pytest.raises(ProblemError) as refused:
            site.download(result, name, tmp_path / "file")
        assert refused.value.status == 404


def test_batch_files_are_read_without_the_http_client():
    code = "import webprofile.client.batchfile, sys; sys.exit('httpx2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_objects_are_of_their_types(site, make_steady, home):
    first, second = make_steady(0.25), make_steady(0.30)
    cancelled = site.submit(models=[str(home / "net.mge")], workers=["x86-1"])
    site.cancel(cancelled)
    answers = [
        (site.workers(), list[Device]),
        (site.tasks(), list[Task]),
        (site.task(first), Task),
        (site.wait([*cancelled, first]), dict[int, Task]),
        (site.check(models=[str(home / "net.mge")], workers=["x86-1"]), list[Planned]),
        (site.latency(first), Latency),
        (site.statistics(first), Statistics),
        (site.operators(first), OperatorTable),
        (site.operators(first, side="host", by_type=True), OperatorTable),
        (site.compare([first, second]), Comparison),
        (site.judge([first, second], 5), Gate),
        (site.artifacts(first), list[Artifact]),
    ]
    for value, expected in answers:
        assert value, expected
        msgspec.convert(value, expected)  # raises ValidationError


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
