"""load_and_run's log is parsed for all versions, with prefixes, colours and other output."""

import json
import time

import pytest

from agent.protocol.run_log import LONGEST_LINE, RunLog, TensorInfo, parse_log
from testdata import DATA

RECORDED = DATA / "load_and_run"
CASES = sorted(path.name for path in RECORDED.iterdir())


def read_recorded(case: str) -> tuple[RunLog, dict]:
    folder = RECORDED / case
    text = (folder / "stdout.txt").read_text() + (folder / "stderr.txt").read_text()
    return parse_log(text), json.loads((folder / "run.json").read_text())


@pytest.mark.parametrize("case", [case for case in CASES if not case.startswith("err__")])
def test_a_recorded_run_is_parsed_completely(case):
    log, run = read_recorded(case)
    iterations = run["argv"][run["argv"].index("--iter") + 1]
    assert log.load_ms and log.prepare_ms and len(log.warmup_ms) == 1
    assert log.warmup_ms[0] > 0
    assert len(log.e2e_ms) == len(log.host_ms) == int(iterations)
    pairs = zip(log.host_ms, log.e2e_ms, strict=True)
    assert all(host is not None and host <= e2e for host, e2e in pairs)


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith("err__")])
def test_a_recorded_failure_has_no_times(case):
    log, _ = read_recorded(case)
    assert log.e2e_ms == ()


def test_all_recorded_runs_are_covered():
    assert len(CASES) == 21


def test_the_figures_of_a_recorded_run_are_exact():
    log, _ = read_recorded("opt__model_info")
    assert (log.load_ms, log.prepare_ms, log.warmup_ms) == (3.985, 2.418, (17.724,))
    assert (log.e2e_ms, log.host_ms) == ((7.703, 7.625), (0.264, 0.197))
    # printed twice, once before the run and once after it
    assert log.inputs == (TensorInfo("INPUT", "data", (1, 3, 224, 224), "float32"),)
    assert log.outputs == (TensorInfo("OUTPUT", "fc.ADD", (1, 100), "float32"),)


OLDER_LOGS = {
    "1.6, test cases": """\
mgb load-and-run: using MegBrain 1.6.0(0) and MegDNN 9.3.0
[13 10:11:12 from_argv@mgblar.cpp:1][WARN] use cpu mode
load model: 3.250ms
=== going to run 1 testcases; output vars: fc{1,100}
=== prepare: 1.500ms; going to warmup
warmup 0: 9.125ms
=== going to run test #0 for 2 times
iter 0/2: 1.250ms (exec=0.100,device=1.200)
iter 1/2: 1.750ms (exec=0.125,device=1.700)
=== finished test #0: time=3.000ms avg_time=1.500ms sd=0.354ms minmax=1.250,1.750

=== total time: 3.000ms
""",
    "1.6, --input (no total)": """\
mgb load-and-run: using MegBrain 1.6.0(0) and MegDNN 9.3.0
load model: 3.250ms
=== prepare: 1.500ms; going to warmup
warmup 0: 9.125ms
=== going to run input for 2 times
iter 0/2: 1.250ms (exec=0.100,device=1.200)
iter 1/2: 1.750ms (exec=0.125,device=1.700)
=== finished test #0: time=3.000ms avg_time=1.500ms sd=0.354ms minmax=1.250,1.750
""",
    "1.7": """\
megbrain/lite/load_and_run:
using MegBrain 1.7.0(0) and MegDNN 9.3.0
load model: 3.250ms
=== prepare: 1.500ms; going to warmup
warm up 0  9.125ms
iter 0/2: 1.250ms (exec=0.100ms)
iter 1/2: 1.750ms (exec=0.125ms)

=== finished test #0: time=3.000ms avg_time=1.500ms sexec=0.354ms min=1.250ms max=1.750ms
=== total time: 3.000ms
""",
    "1.9": """\
megbrain/lite/load_and_run:
using MegBrain 1.9.1(0) and MegDNN 9.3.0
load model: 3.250ms
=== prepare: 1.500ms; going to warmup

warm up 0  9.125ms
iter 0/2: 1.250 ms (exec=0.100 ms)
iter 1/2: 1.750 ms (exec=0.125 ms)

=== finished test #0: time=3.000 ms avg_time=1.500 ms sexec=0.354 ms min=1.250 ms max=1.750 ms
=== total time: 3.000ms
""",
    "1.10": """\
megbrain/lite/load_and_run:
using MegBrain 1.10.0(1) and MegDNN 9.3.0
load model: 3.250ms
=== prepare: 1.500ms; going to warmup

warm up 0  9.125ms
iter 0/2: e2e=1.250 ms (host=0.100 ms)
iter 1/2: e2e=1.750 ms (host=0.125 ms)

=== finished test #0: time=3.000 ms avg_time=1.500 ms standard_deviation=0.354 ms min=1.250 ms \
max=1.750 ms

=== total time: 3.000ms
""",
}


@pytest.mark.parametrize("name", OLDER_LOGS)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_logs_of_older_versions_are_parsed(name, line_end):
    log = parse_log(OLDER_LOGS[name].replace("\n", line_end))
    assert (log.load_ms, log.prepare_ms, log.warmup_ms) == (3.25, 1.5, (9.125,))
    assert (log.e2e_ms, log.host_ms) == ((1.25, 1.75), (0.1, 0.125))


def test_the_times_of_a_model_without_inputs_on_1_6_are_parsed():
    log = parse_log(
        "=== finished run #0: time=2.000ms\n=== finished run #1: time=4.000ms\navg time: 3.100ms\n"
    )
    assert log.e2e_ms == (2.0, 4.0) and log.host_ms == (None, None)


def test_colours_and_prefixes_are_ignored():
    log = parse_log(
        "\x1b[32m[20 22:51:35 @:88] \x1b[0miter 0/1: e2e=1.500 ms (host=0.500 ms)\n"
        "11-20 22:51:35.1 99 99 I runtime : load model: 2.000ms\n"
    )
    assert (log.e2e_ms, log.host_ms, log.load_ms) == ((1.5,), (0.5,), 2.0)


def test_a_host_time_that_is_not_a_number_is_unknown():
    log = parse_log("iter 0/1: e2e=1.000 ms (host=nan ms)\n")
    assert (log.e2e_ms, log.host_ms) == ((1.0,), (None,))


def test_several_iterations_in_one_line_are_parsed():
    log = parse_log("iter 0/1: e2e=1.000 ms (host=0.1 ms)iter 0/1: e2e=3.000 ms (host=0.2 ms)\n")
    assert log.e2e_ms == (1.0, 3.0)


def test_trials_of_fitting_are_counted():
    log = parse_log(
        "[20 22:51:35 @:1] warm up 0 time 12.500000 ms\n"
        "[20 22:51:35 @:1] run iter 0 time 2.500000 ms\n"
        "[20 22:51:35 @:1] profile option:\n--cpu=true\n--fast_run=true\n\n avg_time=2.50 ms\n"
        "profile option:\n--cpu=true\n\naverage time = 3.50\n"
        "the best options:\n--cpu=true\n--fast_run=true\n"
    )
    assert log.trials == 2
    assert log.e2e_ms == () and log.warmup_ms == (12.5,)


def test_inputs_with_bars_in_names_and_without_types_are_parsed():
    log = parse_log(
        "| INPUT  | a|b c  |   {2,3}   |         |\n| OUTPUT |  x | {} | quint8<0.1> |\n"
    )
    assert log.inputs == (TensorInfo("INPUT", "a|b c", (2, 3), ""),)
    assert log.outputs == (TensorInfo("OUTPUT", "x", (), "quint8<0.1>"),)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0\ud800",
        "iter 0/",
        "iter 0/99999999999999999999: e2e=1 ms (host=1 ms)",
        "iter 0/1: e2e=1" + "0" * 5000 + " ms (host=1 ms)",
        "iter 0/1: e2e=1.2.3 ms (host=1 ms)",
        "| INPUT | x | {" + "9," * 4000 + "} | float32 |",
        "\x1b[" * 2000,
    ],
)
def test_hostile_text_yields_no_measurement(text):
    log = parse_log(text)
    assert (log.e2e_ms, log.inputs) == ((), ())


@pytest.mark.parametrize(
    "piece",
    [
        "iter 0/1: e2e=1.000 ms (host=",
        "[",
        "| INPUT |",
        "=== finished run #0: time=",
        "\x1b[0",
        "a",
    ],
)
def test_parsing_time_is_linear_for_repeated_text(piece):
    text = piece * (2**20 // len(piece))
    started = time.process_time()
    parse_log(text)
    parse_log(text.replace(piece, piece + "\n"))
    assert time.process_time() - started < 8


def test_a_line_after_a_very_long_one_is_parsed():
    log = parse_log("x" * (LONGEST_LINE * 3) + "\nload model: 1.000ms\n")
    assert log.load_ms == 1.0
