"""Tests of `webprofile show`, `compare`, `export`, `list` and `cancel` with computed results."""

import csv
import io
import json

import pytest

from agent.protocol import Plan
from agent.protocol.artifacts import profile_name
from agent.protocol.measurement import Contamination
from profiles.exports.fields import FIELDS, SOURCE_FIELDS
from profiles.models import AttemptMeasurement, Profile
from profiles.services import build_attempt_profile
from profiles.tests.make import (
    CLEAN,
    finished_attempt,
    make_profile,
    measurement_json,
    profiled_pass,
    to_json,
)
from profiles.tests.pages import ended_attempt, make_equal_runs
from tasks.models import Task
from tasks.tests.make import make_task, make_user, make_waiting_task


@pytest.fixture
def result(alice):
    """Makes a task with a result: a latency, and an operator of this many seconds."""

    def make(seconds: float, *, latency_ms: float = 10.0, iterations: int = 3, owner=None) -> int:
        plan = Plan(preset="custom", clean=True, profiled=1)
        clean = CLEAN.model_copy(update={"e2e_ms": (latency_ms,) * iterations})
        files = {
            "profile.json": to_json(make_profile({"1": seconds, "2": 0.5}, names={"1": "conv"})),
            "measurement.json": measurement_json(clean, profiled_pass(2, 11.0), plan=plan),
        }
        attempt = ended_attempt(files, owner or alice, plan=plan)
        build_attempt_profile(attempt)
        return attempt.task_id

    return make


def test_a_result_is_shown_with_latency_operators_and_its_address(client, result, live_server):
    task = result(0.25)
    shown = client.run("show", task).stdout
    assert f"{live_server.url}/tasks/{task}/result/" in shown
    assert "median 10 ms" in shown
    assert "total on the device: 750 ms" in shown
    assert "2 operators" in shown
    first, second = (line for line in shown.splitlines() if "Elemwise" in line)
    assert ("500 ms" in first, "66.7 %" in first, "250 ms" in second) == (True, True, True)
    assert "conv" in second
    assert "Elemwise" in client.run("show", task, "--by-type").stdout
    summary = client.json("show", task, "-n", "1")
    assert [row["device"]["time_s"] for row in summary["operators"]["operators"]] == [0.5]


def test_the_exit_code_of_show_is_that_of_its_task(client, alice):
    failed = finished_attempt(b"{", owner=alice)
    build_attempt_profile(failed)
    assert "failed" in client.run("show", failed.task_id, code=1).stdout
    task = make_waiting_task(alice)
    assert "waiting" in client.run("show", task.pk, code=4).stdout
    client.run("show", make_task(make_user("bob")).pk, code=2)


@pytest.fixture
def steady(alice):
    """Makes a task with five passes of so many seconds on the device, each off by up to 0.2 %.

    The device has five equal runs of the first one, which differ by 1 %.
    """
    plan = Plan(preset="standard", clean=True, profiled=5)
    made = []

    def make(seconds: float, *, disturbed: bool = False) -> int:
        profiles = {
            profile_name(number): to_json(make_profile({"1": seconds * (1 + number / 2500)}))
            for number in range(1, 6)
        }
        causes = (Contamination(code="hot", detail="93 °C"),) if disturbed else ()
        passes = (CLEAN, *(profiled_pass(number, 11.0) for number in range(2, 7)))
        files = profiles | {
            "measurement.json": measurement_json(*passes, plan=plan, contaminations=causes)
        }
        attempt = ended_attempt(files, alice, plan=plan)
        # each duration is another model
        attempt.task.files.filter(kind="model").update(md5=f"{seconds:032.4f}")
        build_attempt_profile(attempt)
        if not made:
            runs = [[seconds * (1 + number / 400)] * 5 for number in range(5)]
            make_equal_runs(Profile.objects.get(attempt=attempt), *runs)
        made.append(attempt)
        return attempt.task_id

    return make


def gate_of(shown):
    return shown.stdout.partition("\n\n--fail-above ")[2].splitlines()


def test_a_slower_task_fails_a_ci_and_the_gate_says_what_it_judged(client, steady):
    before, after = steady(0.25), steady(0.30)
    gate_lines = gate_of(client.run("compare", before, after, "--fail-above", "5", code=1))
    number = "sum of the operators' times on the device"
    assert gate_lines[0] == f"5: {number}, #{before} 250.3 ms"
    assert gate_lines[1].startswith(
        f"  #{after} 300.4 ms: failed; slower; estimated change +20.0 % (95 %: "
    )
    assert "equal runs may differ by" in gate_lines[1]
    assert gate_of(client.run("compare", before, after, "--fail-above", "25"))[1].startswith(
        f"  #{after} 300.4 ms: passed; slower"
    )
    assert "passed; faster" in client.run("compare", after, before, "--fail-above", "0").stdout
    gate = client.json("compare", before, after, "--fail-above", "5", code=1)["gate"]
    assert (gate["number"], gate["meaning"], gate["result"]) == ("device", number, "failed")
    (other,) = gate["others"]
    assert (other["task"], other["verdict"], other["result"]) == (after, "slower", "failed")
    assert other["change_percent"] == pytest.approx(20.0)
    assert 0 < other["low_percent"] < 20 < other["high_percent"]
    assert "gate" not in client.json("compare", before, after)


def test_a_difference_that_equal_runs_show_too_does_not_fail_a_ci(client, steady):
    before, after = steady(0.25), steady(0.2535)
    shown = client.run("compare", before, after, "--fail-above", "5").stdout
    assert "passed; no clear difference; estimated change +1.4 %" in shown
    undecided = client.run("compare", before, after, "--fail-above", "1", code=5).stdout
    assert "not enough evidence; no clear difference, since equal runs or passes" in undecided
    assert "hardly ever between two runs of the same files and settings" in undecided


def test_quick_results_of_one_sample_are_not_enough_evidence(client, result):
    before, after = result(0.25), result(0.60, latency_ms=20.0)
    shown = client.run("compare", before, after).stdout
    assert "one sample" in shown
    assert "conv" in shown
    gate_lines = gate_of(client.run("compare", before, after, "--fail-above", "5", code=5))
    assert (
        "not enough evidence; one sample of a result; run it with the plan “standard”"
        in gate_lines[1]
    )
    assert "estimated change +46.7 %" in gate_lines[1]
    gate = client.json("compare", before, after, "--fail-above", "5", code=5)["gate"]
    assert (gate["result"], gate["number"]) == ("not enough evidence", "device")
    assert len(client.json("compare", before, after)["profiles"]) == 2


def test_a_disturbed_task_is_not_enough_evidence_and_a_failed_one_outweighs_it(client, steady):
    before, disturbed, after = steady(0.25), steady(0.50, disturbed=True), steady(0.30)
    shown = client.run("compare", before, disturbed, "--fail-above", "5", code=5).stdout
    assert (
        "not enough evidence; a run was disturbed; run it again while the device is idle" in shown
    )
    client.run("compare", before, disturbed, after, "--fail-above", "5", code=1)
    client.run("compare", before, after, disturbed, "--fail-above", "30", code=5)


def test_without_equal_runs_there_is_not_enough_evidence(client, steady):
    before, after = steady(0.25), steady(0.30)
    AttemptMeasurement.objects.exclude(attempt__profile__isnull=False).delete()
    shown = client.run("compare", before, after, "--fail-above", "5", code=5).stdout
    assert "it is not known how far equal runs differ on the device" in shown


def test_what_cannot_be_compared_is_told(client, result, alice):
    task = result(0.25)
    client.run("compare", task, code=2)
    assert "no result" in client.run("compare", task, make_task(alice).pk, code=1).stderr
    client.run("compare", task, result(0.5, owner=make_user("bob")), code=2)


def test_one_result_is_exported_in_every_format(client, result, home):
    task = result(0.25)
    rows = list(csv.DictReader(io.StringIO(client.run("export", task).stdout)))
    assert list(rows[0]) == [field.heading for field in (*FIELDS, *SOURCE_FIELDS)]
    client.run("export", task, "--format", "json", "-o", "a.json")
    assert len(json.loads((home / "a.json").read_text())["operators"]) == 2
    client.run("export", task, "--format", "report", "-o", "all/")
    assert b"<html" in (home / "all" / f"task-{task}.html").read_bytes()


def test_the_ending_of_a_file_says_its_format(client, result, home):
    task = result(0.25)
    client.run("export", task, "-o", "a.json")
    assert json.loads((home / "a.json").read_text())["operators"]
    client.run("export", task, "-o", "a.trace.json")
    assert json.loads((home / "a.trace.json").read_text())["traceEvents"]
    assert "--format" in client.run("export", task, "-o", "a.parquet", code=2).stderr
    assert not (home / "a.parquet").exists()


def test_several_results_become_one_table_or_a_folder_of_files(client, result, home, alice):
    tasks = [result(0.25), result(0.75)]
    client.run("export", *tasks, "-o", "all.csv")
    rows = list(csv.DictReader(io.StringIO((home / "all.csv").read_bytes().decode(), newline="")))
    assert [row["task"] for row in rows] == [str(tasks[0])] * 2 + [str(tasks[1])] * 2
    assert client.run("export", *tasks, "--format", "json", code=2).stderr.count("folder") == 1
    client.run("export", "--status", "succeeded", "--format", "json", "-o", "files")
    assert {path.name for path in (home / "files").iterdir()} == {f"task-{t}.json" for t in tasks}
    # one without a result keeps the others from nothing
    process = client.run("export", tasks[0], make_task(alice).pk, "-o", "some.csv", code=1)
    assert "no result" in process.stderr
    assert len((home / "some.csv").read_text().splitlines()) == 3
    client.run("export", tasks[0], "-o", "none/a.csv", code=2)
    client.run("export", code=2)


def test_a_full_disk_is_told_and_leaves_what_was_there(client, result, home):
    task = result(0.25)
    (home / "full.csv").symlink_to("/dev/full")
    stderr = client.run("export", task, "-o", "full.csv", code=1).stderr
    assert "No space left on device; nothing was written" in stderr
    with open("/dev/full", "w") as full:
        process = client.start("export", task, stdout=full)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, "could not be written" in err) == (1, True)
    assert ("Traceback" in err, "Exception" in err) == (False, False)


def test_a_matrix_is_exported_as_one_table(client, result, home, alice):
    done, waiting = result(0.25), make_task(alice, title="nightly")
    failed = finished_attempt(b"{", owner=alice)
    build_attempt_profile(failed)
    client.run("export", "--table", done, waiting.pk, failed.task_id, "-o", "matrix.csv")
    text = (home / "matrix.csv").read_bytes().decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["status"] for row in rows] == ["succeeded", "initiated", "failed"]
    first = rows[0]
    assert (first["model"], first["options"], first["worker"]) == (
        "net.mge", "{}", Task.objects.get(pk=done).worker.name
    )  # fmt: skip
    assert (float(first["median_ms"]), float(first["device_total_s"])) == (10.0, 0.75)
    assert rows[2]["reason"]
    client.run("export", "--table", "--title", "nightly", "-o", "matrix.json")
    (row,) = json.loads((home / "matrix.json").read_text())
    assert (row["task"], row["title"], row["median_ms"]) == (waiting.pk, "nightly", None)
    theirs = make_task(make_user("bob")).pk
    process = client.run("export", "--table", done, theirs, code=1)
    assert f"no task {theirs}" in process.stderr
    assert len(process.stdout.splitlines()) == 2
    client.run("export", "--table", done, "-o", "a.txt", code=2)
