"""Warnings in the log of load_and_run."""

import time

from profiles.ingest.results import parse_warnings


def test_warnings_are_unique_and_truncated() -> None:
    text = "[20 22:51:35 f@a.cpp:1][WARN] beware\n[20 22:51:36 @:1] [WARN] beware\n"
    assert parse_warnings(text + "[20 @:1][WARN] " + "x" * 999) == ["beware", "x" * 300]
    assert parse_warnings("[20 @:1][ERR] no warning\nnothing [WARN] here\n") == []


def test_a_mebibyte_of_brackets_is_read_quickly() -> None:
    started = time.process_time()
    assert parse_warnings("[\n" * 2**19) == []
    assert time.process_time() - started < 5
