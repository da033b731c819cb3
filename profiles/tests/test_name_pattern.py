"""Patterns in filters: they match as in Python, and never take exponential time."""

import re
import time

import pytest

from profiles.analysis import name_pattern
from profiles.analysis.name_pattern import MOST_S, PatternError, linear_time

NAMES = ("conv(data,conv1.weight)[493]", "RELU(ADD)[19]", "const{1,16,1,1}[98]", "", "x\nconv", "é")


@pytest.mark.parametrize(
    "pattern",
    [
        "conv*",
        "^conv",
        ".*conv",
        "a|const",
        "(?i)relu",
        r".*\[\d+\]$",
        "[^c]",
        "",
        ".",
        "é",
        "(?s).*n",
    ],
)
def test_a_pattern_matches_the_names_that_python_matches(pattern: str) -> None:
    match = linear_time(pattern)
    pythons = re.compile(pattern)
    assert [bool(match(name)) for name in NAMES] == [bool(pythons.match(n)) for n in NAMES]


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|a)*b", "(.*a){25}", "(?:[a-z.]*[0-9]?){900}z"])
def test_no_pattern_takes_exponential_time(pattern: str) -> None:
    match = linear_time(pattern)
    begin = time.process_time()
    match("a" * 8_000)
    assert time.process_time() - begin < MOST_S


def test_a_pattern_that_needs_many_states_still_matches() -> None:
    assert linear_time("(.{0,30}){30}7$")("a" * 200 + "7")


@pytest.mark.parametrize(
    ("pattern", "word"),
    [
        ("(", "missing )"),
        ("(?=a)", "(?="),
        (r"(a)\1", r"\1"),
        ("a{2000}", "repetition"),
        ("\ud800", "surrogate"),
        ("x" * 1_001, "1001 characters"),
        ("((a{30}){30}){30}", "repetition"),
    ],
)
def test_what_cannot_be_used_is_named(pattern: str, word: str) -> None:
    with pytest.raises(PatternError) as caught:
        linear_time(pattern)
    assert word in str(caught.value)


def test_matching_stops_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_pattern, "MOST_S", -1.0)
    match = linear_time("a")
    with pytest.raises(PatternError, match="simpler"):
        match("a")
