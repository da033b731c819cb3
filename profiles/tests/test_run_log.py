"""Summary and warnings in the log of load_and_run."""

import time

import pytest

from profiles.ingest.results import RunSummary, parse_run_log, parse_warnings
from testdata import DATA


def test_the_summary_of_a_recorded_run_is_read() -> None:
    text = (DATA / "load_and_run" / "opt__plain" / "stderr.txt").read_text()
    summary = parse_run_log(text)
    assert summary is not None
    assert summary.iterations == 10
    assert summary.min_ms <= summary.mean_ms <= summary.max_ms


def test_the_summary_of_megengine_1_6_is_read() -> None:
    text = (
        "iter 0/1: 1.250ms (exec=0.100,device=1.200)\n"
        "=== finished test #0: time=1.250ms avg_time=1.250ms sd=-nanms minmax=1.250,1.250\n"
    )
    assert parse_run_log(text) == RunSummary(1, 1.25, 1.25, 1.25)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "iter 0/10: e2e=1.000 ms (host=1.000 ms)",
        "=== finished test #0: time=1 ms avg_time=1 ms standard_deviation=1 ms min=1 ms max=1 ms",
        "iter 0/0: e2e=1.000 ms (host=1.000 ms)\n"
        "=== finished test #0: time=1 ms avg_time=1 ms standard_deviation=1 ms min=1 ms max=1 ms",
    ],
)
def test_an_incomplete_log_has_no_summary(text: str) -> None:
    assert parse_run_log(text) is None


def test_warnings_are_unique_and_truncated() -> None:
    text = "[20 22:51:35 f@a.cpp:1][WARN] beware\n[20 22:51:36 @:1] [WARN] beware\n"
    assert parse_warnings(text + "[20 @:1][WARN] " + "x" * 999) == ["beware", "x" * 300]
    assert parse_warnings("[20 @:1][ERR] no warning\nnothing [WARN] here\n") == []


def test_a_mebibyte_of_brackets_is_read_quickly() -> None:
    started = time.process_time()
    assert parse_warnings("[\n" * 2**19) == []
    assert time.process_time() - started < 5
