"""`webprofile show`, `compare`, `export`, `list`, `cancel`, against real results."""

import csv
import io
import json

import pytest

from agent.protocol import Plan
from profiles.exporting.fields import FIELDS, SOURCE_FIELDS
from profiles.services import profile_build
from profiles.tests.make import make_profile, to_json
from profiles.tests.pages import ended_attempt
from profiles.tests.test_build import finished_attempt
from profiles.tests.test_measurement_build import CLEAN, measurement, profiled
from tasks.tests.make import make_task, make_user, make_waiting_task


@pytest.fixture
def result(alice):
    """Makes a task with a result: a latency, and an operator of this many seconds."""

    def make(seconds: float, *, latency_ms: float = 10.0, iterations: int = 3, owner=None) -> int:
        plan = Plan(preset="custom", clean=True, profiled=1)
        clean = CLEAN.model_copy(update={"e2e_ms": (latency_ms,) * iterations})
        files = {
            "profile.json": to_json(make_profile({"1": seconds, "2": 0.5}, names={"1": "conv"})),
            "measurement.json": measurement(clean, profiled(2, 11.0), plan=plan),
        }
        attempt = ended_attempt(files, owner or alice, plan=plan)
        profile_build(attempt)
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
    found = client.json("show", task, "-n", "1")
    assert [row["device"]["time_s"] for row in found["operators"]["operators"]] == [0.5]


def test_the_exit_code_of_show_is_that_of_its_task(client, alice):
    failed = finished_attempt(b"{", owner=alice)
    profile_build(failed)
    assert "failed" in client.run("show", failed.task_id, code=1).stdout
    task = make_waiting_task(alice)
    assert "waiting" in client.run("show", task.pk, code=4).stdout
    client.run("show", make_task(make_user("bob")).pk, code=2)


def test_results_are_compared_and_a_slower_one_can_fail_a_ci(client, result):
    before, after = result(0.25), result(0.40, latency_ms=12.0)
    shown = client.run("compare", before, after).stdout
    assert "+20.0 %" in shown
    assert "conv" in shown
    client.run("compare", before, after, "--fail-above", "25")
    client.run("compare", before, after, "--fail-above", "5", code=1)
    client.run("compare", after, before, "--fail-above", "0")
    assert len(client.json("compare", before, after)["profiles"]) == 2


def test_a_gate_says_which_number_it_judged_and_how(client, result):
    before, after = result(0.25), result(0.40, latency_ms=12.0)
    shown = client.run("compare", before, after, "--fail-above", "5", code=1).stdout
    said = shown.partition("\n\n--fail-above 5: ")[2].splitlines()
    number = "median time of an iteration without profiling"
    assert said[0] == f"{number}, #{before} 10 ms, at most 10.5 ms"
    assert said[1] == f"  #{after} 12 ms (+20.0 %): FAILED; single sample"
    shown = client.run("compare", before, after, "--fail-above", "25").stdout
    assert f"  #{after} 12 ms (+20.0 %): passed" in shown
    gate = client.json("compare", before, after, "--fail-above", "5", code=1)["gate"]
    assert (gate["number"], gate["meaning"], gate["unit"]) == ("latency", number, "s")
    assert (gate["baseline_s"], gate["limit_s"], gate["passed"]) == (0.01, 0.0105, False)
    (other,) = gate["others"]
    assert (other["task"], other["time_s"], other["passed"]) == (after, 0.012, False)
    assert (round(other["change_percent"], 6), other["verdict"]) == (20.0, "single")
    assert {"difference_s", "low_s", "high_s"} <= other.keys()
    assert "gate" not in client.json("compare", before, after)


def test_a_gate_says_how_sure_a_difference_is(client, result):
    tasks = [result(0.25, latency_ms=each, iterations=60) for each in (10.0, 12.0)]
    shown = client.run("compare", *tasks, "--fail-above", "5", code=1).stdout
    sure = "clear; 95 % interval of the difference +2 ms to +2 ms"
    assert f"  #{tasks[1]} 12 ms (+20.0 %): FAILED; {sure}" in shown


def test_without_a_clean_pass_the_gate_judges_the_total_on_the_device(client, result, alice):
    tasks = [result(0.25)]
    attempt = finished_attempt(to_json(make_profile({"1": 0.40, "2": 0.5})), owner=alice)
    profile_build(attempt)
    tasks.append(attempt.task_id)
    gate = client.json("compare", *tasks, "--fail-above", "5", code=1)["gate"]
    assert (gate["number"], gate["baseline_s"]) == ("device", 0.75)
    assert gate["meaning"] == "sum of the operators' times on the device"


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
    assert client.run("export", *tasks, "--format", "npz", code=2).stderr.count("folder") == 1
    client.run("export", "--status", "succeeded", "--format", "npz", "-o", "files")
    assert {path.name for path in (home / "files").iterdir()} == {f"task-{t}.npz" for t in tasks}
    # one without a result keeps the others from nothing
    told = client.run("export", tasks[0], make_task(alice).pk, "-o", "some.csv", code=1)
    assert "no result" in told.stderr
    assert len((home / "some.csv").read_text().splitlines()) == 3
    client.run("export", tasks[0], "-o", "none/a.csv", code=2)
    client.run("export", code=2)


def test_a_full_disk_is_told_and_leaves_what_was_there(client, result, home):
    task = result(0.25)
    (home / "full.csv").symlink_to("/dev/full")
    told = client.run("export", task, "-o", "full.csv", code=1).stderr
    assert "No space left on device; nothing was written" in told
    with open("/dev/full", "w") as full:
        process = client.start("export", task, stdout=full)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, "could not be written" in err) == (1, True)
    assert ("Traceback" in err, "Exception" in err) == (False, False)
