"""Tests of `webprofile show`, `check`, `compare`, `export`, `list`, `cancel`: computed results."""

import csv
import io
import json

import pytest

from agent.protocol.artifacts import profile_name
from agent.protocol.plan import Plan
from profiles.exports.fields import FIELDS, SOURCE_FIELDS
from profiles.models import AttemptMeasurement
from profiles.services import build_attempt_profile
from profiles.tests.make import (
    CLEAN,
    MEMORY,
    finish_measured,
    finished_attempt,
    make_profile,
    make_scatter,
    make_script_profile,
    measurement_json,
    profiled_pass,
    to_json,
)
from profiles.tests.pages import ended_attempt
from tasks.models import Attempt, Task
from tasks.tests.make import make_task, make_user, make_waiting_task
from workers.models import Worker


@pytest.fixture
def make_result(alice):
    """Function that creates a task with a latency and an operator that takes `seconds`."""

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


def test_show_prints_latency_operators_and_address(client, make_result, live_server):
    task = make_result(0.25)
    output = client.run("show", task).stdout
    assert f"{live_server.url}/tasks/{task}/\n" in output
    assert "median 10 ms" in output
    assert "total on the device: 750 ms" in output
    assert "2 operators" in output
    first, second = (line for line in output.splitlines() if "Elemwise" in line)
    assert ("500 ms" in first, "66.7 %" in first, "250 ms" in second) == (True, True, True)
    assert "conv" in second
    assert "Elemwise" in client.run("show", task, "--by-type").stdout
    assert len(client.json("show", task, "-n", "1000")["operators"]["operators"]) == 2
    summary = client.json("show", task, "-n", "1")
    assert [row["device"]["time_s"] for row in summary["operators"]["operators"]] == [0.5]


def test_show_and_compare_print_the_peak_memory(client, make_result):
    before, after = make_result(0.25), make_result(0.25)
    assert "peak memory: not recorded" in client.run("show", before).stdout
    Attempt.objects.filter(task=before).update(
        host_memory_bytes=149 << 20, gpu_memory_bytes=5 << 29
    )
    assert "peak memory: 149 MiB, GPU 2.50 GiB\n" in client.run("show", before).stdout
    first, second = client.run("compare", before, after).stdout.splitlines()[2:4]
    assert ("149 MiB" in first, "not recorded" in second) == (True, True)


def test_compare_prints_the_change_of_the_page_and_not_the_ratio_of_the_times(client, alice):
    plan = Plan(preset="custom", clean=False, profiled=3)

    def make(*passes: dict[str, float]) -> int:
        names = [profile_name(number) for number in range(1, 4)]
        files = {
            name: to_json(make_profile(each)) for name, each in zip(names, passes, strict=True)
        }
        records = [profiled_pass(n, 11.0, profile=name) for n, name in enumerate(names, start=1)]
        files["measurement.json"] = measurement_json(*records, plan=plan)
        attempt = ended_attempt(files, alice, plan=plan)
        build_attempt_profile(attempt)
        return attempt.task_id

    # the sum of the medians is 300 ms, but each pass takes 400 ms
    before = make(*({name: 0.1 + 0.1 * (name == slow) for name in "123"} for slow in "123"))
    after = make(*({name: 0.1 for name in "123"} for _ in range(3)))
    output = client.run("compare", before, after).stdout
    device = next(line for line in output.splitlines() if line.startswith("device  "))
    (total,) = (t for t in client.json("compare", before, after)["totals"] if t["key"] == "device")
    assert total["others"][0]["change"] == pytest.approx(-0.25)
    assert ("300 ms  300 ms" in device, "-25.0 %" in device) == (True, True)


def test_show_prints_a_result_without_operators(client, alice, testdata):
    memory = testdata / "traces" / "dynamic_train_mlp_scopes" / f"profile.{MEMORY}"
    profile = make_script_profile({MEMORY: memory.read_bytes()}, alice)
    task = profile.attempt.task_id
    assert f"#{task} succeeded" in client.run("show", task).stdout
    assert client.json("show", task)["profile"]["operators"] == 0


def test_exit_code_of_show_depends_on_the_task(client, alice):
    failed = finished_attempt(b"{", owner=alice)
    build_attempt_profile(failed)
    assert "failed" in client.run("show", failed.task_id, code=1).stdout
    task = make_waiting_task(alice)
    assert "waiting" in client.run("show", task.pk, code=4).stdout
    client.run("show", make_task(make_user("bob")).pk, code=2)


def test_show_tells_how_many_passes_were_disturbed(client, make_steady):
    output = client.run("show", make_steady(0.25, disturbed_passes=2)).stdout
    assert "The figures are from 3 of 5 profiled passes. The others were disturbed." in output
    assert "This run was disturbed" not in output
    assert "figures of" not in client.run("show", make_steady(0.3)).stdout


def gate_of(result):
    """Return the lines about the gate."""
    return result.stdout.partition("\n\n--fail-above ")[2].splitlines()


@pytest.mark.parametrize(
    ("median_ms", "code", "text"),
    [
        (10.02, 0, "so the result of the task still holds"),
        (13.0, 1, "so the earlier result no longer holds"),
        (None, 5, "It is not known yet how much equal runs differ on this device"),
    ],
)
def test_check_tells_whether_a_result_still_holds(client, proxy, median_ms, code, text):
    task = int(client.run("submit", "-m", "net.mge", "-w", "x86-1", "--no-wait").stdout)
    finish_measured(Task.objects.get(), 10.0)
    if median_ms:
        make_scatter(Worker.objects.get())

    def plan(method: str, path: str) -> str:
        if method == "GET" and (check := Task.objects.filter(copied_from=task, outcome="").first()):
            finish_measured(check, median_ms or 10.0)
        return ""

    proxy.plan = plan
    assert text in client.run("check", task, code=code).stdout
    assert text in client.run("show", Task.objects.latest("pk").pk).stdout


def test_check_refuses_a_task_that_has_no_result(client, alice):
    task = make_waiting_task(alice, Worker.objects.get())
    assert "from a successful task can be checked" in client.run("check", task.pk, code=1).stderr


def test_gate_fails_for_a_slower_task(client, make_steady):
    before, after = make_steady(0.25), make_steady(0.30)
    gate_lines = gate_of(client.run("compare", before, after, "--fail-above", "5", code=1))
    number = "median latency (profiler off)"
    assert gate_lines[0] == f"5: {number}, #{before} 250 ms; not measured in pairs"
    assert gate_lines[1].startswith(
        f"  #{after} 300 ms: failed; slower; estimated change +20.0 % (95 %: "
    )
    assert "equal runs of this task may differ by" in gate_lines[1]
    assert gate_of(client.run("compare", before, after, "--fail-above", "25"))[1].startswith(
        f"  #{after} 300 ms: passed; slower"
    )
    assert "passed; faster" in client.run("compare", after, before, "--fail-above", "0").stdout
    gate = client.json("compare", before, after, "--fail-above", "5", code=1)["gate"]
    assert (gate["number"], gate["meaning"], gate["result"]) == ("latency", number, "failed")
    (other,) = gate["others"]
    assert (other["task"], other["verdict"], other["result"]) == (after, "slower", "failed")
    assert other["change_percent"] == pytest.approx(20.0)
    assert 0 < other["low_percent"] < 20 < other["high_percent"]
    assert "gate" not in client.json("compare", before, after)


def test_gate_judges_the_device_total_of_results_without_a_latency(client, make_steady):
    before, after = make_steady(0.25, is_clean=False), make_steady(0.30)
    gate = client.json("compare", before, after, "--fail-above", "5", code=1)["gate"]
    assert (gate["number"], gate["baseline_s"]) == ("device", pytest.approx(0.2503))
    assert gate["others"][0]["time_s"] == pytest.approx(0.30036)


def test_gate_passes_within_the_spread_of_equal_runs(client, make_steady):
    before, after = make_steady(0.25), make_steady(0.2535)
    output = client.run("compare", before, after, "--fail-above", "5").stdout
    assert "passed; estimated change +1.4 %" in output
    undecided = client.run("compare", before, after, "--fail-above", "1", code=5).stdout
    assert "not enough evidence; equal runs or passes differ by just as much" in undecided
    assert "two runs with the same files and settings are unlikely to differ" in undecided


@pytest.mark.exhaustive
def test_gate_needs_more_than_one_run(client, make_result):
    before, after = make_result(0.25), make_result(0.60, latency_ms=20.0)
    output = client.run("compare", before, after).stdout
    assert "one sample" in output
    assert "conv" in output
    gate_lines = gate_of(client.run("compare", before, after, "--fail-above", "5", code=5))
    assert "not enough evidence; the run-to-run variance of the device is unknown" in gate_lines[1]
    gate = client.json("compare", before, after, "--fail-above", "5", code=5)["gate"]
    assert (gate["result"], gate["number"]) == ("not enough evidence", "latency")
    assert len(client.json("compare", before, after)["profiles"]) == 2


@pytest.mark.exhaustive
def test_gate_is_undecided_for_a_disturbed_run_unless_another_fails(client, make_steady):
    before, after = make_steady(0.25), make_steady(0.30)
    disturbed = make_steady(0.50, disturbed=True)
    shown = client.run("show", disturbed).stdout
    assert "This run was disturbed: its times may be longer than usual" in shown
    assert "the device was hot: the CPU reached 93 °C" in shown
    output = client.run("compare", before, disturbed, "--fail-above", "5", code=5).stdout
    assert "not enough evidence; a run was disturbed; repeat it while the device is idle" in output
    client.run("compare", before, disturbed, after, "--fail-above", "5", code=1)
    client.run("compare", before, after, disturbed, "--fail-above", "30", code=5)


def test_gate_needs_equal_runs_of_the_device(client, make_steady):
    before, after = make_steady(0.25), make_steady(0.30)
    AttemptMeasurement.objects.exclude(attempt__profile__isnull=False).delete()
    output = client.run("compare", before, after, "--fail-above", "5", code=5).stdout
    assert "the run-to-run variance of the device is unknown" in output


def test_compare_reports_tasks_that_it_cannot_compare(client, make_result, alice):
    task = make_result(0.25)
    client.run("compare", task, code=2)
    assert "no result" in client.run("compare", task, make_task(alice).pk, code=1).stderr
    client.run("compare", task, make_result(0.5, owner=make_user("bob")), code=2)


def test_export_writes_each_format(client, make_result, home):
    task = make_result(0.25)
    rows = list(csv.DictReader(io.StringIO(client.run("export", task).stdout)))
    assert list(rows[0]) == [field.heading for field in (*FIELDS, *SOURCE_FIELDS)]
    client.run("export", task, "--format", "json", "-o", "a.json")
    assert len(json.loads((home / "a.json").read_text())["operators"]) == 2
    client.run("export", task, "--format", "report", "-o", "all/")
    assert b"<html" in (home / "all" / f"task-{task}.html").read_bytes()
    client.run("export", task, "-o", "nightly-2026.12/")
    assert (home / "nightly-2026.12" / f"task-{task}.csv").exists()


def test_export_derives_the_format_from_the_file_name(client, make_result, home):
    task = make_result(0.25)
    client.run("export", task, "-o", "a.json")
    assert json.loads((home / "a.json").read_text())["operators"]
    client.run("export", task, "-o", "a.trace.json")
    assert json.loads((home / "a.trace.json").read_text())["traceEvents"]
    assert "--format" in client.run("export", task, "-o", "a.parquet", code=2).stderr
    assert not (home / "a.parquet").exists()


@pytest.mark.exhaustive
def test_export_writes_several_results_as_a_table_or_a_folder(client, make_result, home, alice):
    tasks = [make_result(0.25), make_result(0.75)]
    client.run("export", *tasks, "-o", "all.csv")
    rows = list(
        csv.DictReader(io.StringIO((home / "all.csv").read_bytes().decode("utf-8-sig"), newline=""))
    )
    assert [row["task"] for row in rows] == [str(tasks[0])] * 2 + [str(tasks[1])] * 2
    assert client.run("export", *tasks, "--format", "json", code=2).stderr.count("folder") == 1
    client.run("export", "--status", "succeeded", "--format", "json", "-o", "files")
    assert {path.name for path in (home / "files").iterdir()} == {f"task-{t}.json" for t in tasks}
    # a task without a result does not prevent the export of the others
    process = client.run("export", tasks[0], make_task(alice).pk, "-o", "some.csv", code=1)
    assert "no result" in process.stderr
    assert len((home / "some.csv").read_text().splitlines()) == 3
    client.run("export", tasks[0], "-o", "none/a.csv", code=2)
    client.run("export", code=2)


def test_export_of_several_results_contains_long_cells(client, alice, home):
    shapes = [[1, 10_000]] * 14_000
    footprint = {"1": {"in_shapes": shapes}}
    files = {"profile.json": to_json(make_profile({"1": 0.5}, footprint=footprint))}
    tasks = []
    for _ in range(2):
        attempt = ended_attempt(files, alice)
        build_attempt_profile(attempt)
        tasks.append(attempt.task_id)
    client.run("export", *tasks, "-o", "all.csv")
    text = (home / "all.csv").read_text("utf-8-sig")
    assert text.count("10000") == 2 * len(shapes)


@pytest.mark.parametrize(("status", "code"), [("", 1), ("503", 3)])
def test_failed_export_of_several_tasks_keeps_the_existing_file(
    client, alice, home, proxy, status, code
):
    proxy.plan = lambda method, path: status
    (home / "all.csv").write_text("before")
    tasks = [make_task(alice).pk, make_task(alice).pk]
    stderr = client.run("export", *tasks, "-o", "all.csv", code=code).stderr
    assert (home / "all.csv").read_text() == "before"
    # a failure of the site is reported once
    assert stderr.count("no result") == (2 if code == 1 else 0)


def test_export_reports_a_full_disk(client, make_result, home):
    task = make_result(0.25)
    (home / "full.csv").symlink_to("/dev/full")
    stderr = client.run("export", task, "-o", "full.csv", code=1).stderr
    assert "No space left on device; nothing was written" in stderr
    with open("/dev/full", "w") as full:
        process = client.start("export", task, stdout=full)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, "could not be written" in err) == (1, True)
    assert ("Traceback" in err, "Exception" in err) == (False, False)


@pytest.mark.exhaustive
def test_export_table_has_a_row_for_each_task(client, make_result, home, alice):
    finished, waiting = make_result(0.25), make_task(alice, title="nightly")
    failed = finished_attempt(b"{", owner=alice)
    build_attempt_profile(failed)
    client.run("export", "--table", finished, waiting.pk, failed.task_id, "-o", "matrix.csv")
    text = (home / "matrix.csv").read_bytes().decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["status"] for row in rows] == ["succeeded", "initiated", "failed"]
    first = rows[0]
    assert (first["model"], first["options"], first["worker"]) == (
        "net.mge", "{}", Task.objects.get(pk=finished).worker.name
    )  # fmt: skip
    assert (float(first["median_ms"]), float(first["device_total_s"])) == (10.0, 0.75)
    assert rows[2]["reason"]
    client.run("export", "--table", "--title", "nightly", "-o", "matrix.json")
    (row,) = json.loads((home / "matrix.json").read_text())
    assert (row["task"], row["title"], row["median_ms"]) == (waiting.pk, "nightly", None)
    foreign = make_task(make_user("bob")).pk
    process = client.run("export", "--table", finished, foreign, code=1)
    assert f"Task {foreign} does not exist" in process.stderr
    assert len(process.stdout.splitlines()) == 2
    client.run("export", "--table", finished, "-o", "a.txt", code=2)


def test_a_closed_output_has_its_own_exit_code(client, make_result):
    """A gate that failed must not count as passed because its reader was `head -1`."""
    with client.start("export", make_result(0.25), "--format", "report") as process:
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr.read() == ""
