"""Patterns in filters: they match as in Python, and never take exponential time."""

import re

import pytest

from profiles.analysis import name_pattern
from profiles.analysis.name_pattern import PatternError, linear_time

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
def test_patterns_match_like_python(pattern: str) -> None:
    match = linear_time(pattern)
    expected = re.compile(pattern)
    assert [bool(match(n)) for n in NAMES] == [bool(expected.match(n)) for n in NAMES]


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("(a*)*b", False),
        ("(a|a)*b", False),
        ("(.*a){25}", True),
        ("(?:[a-z.]*[0-9]?){900}z", False),
    ],
)
def test_no_pattern_takes_exponential_time(
    monkeypatch: pytest.MonkeyPatch, pattern: str, matches: bool
) -> None:
    # for slow machines; a backtracking matcher would need years
    monkeypatch.setattr(name_pattern, "MOST_S", 60.0)
    assert bool(linear_time(pattern)("a" * 8_000)) is matches


def test_a_pattern_with_many_states_matches() -> None:
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
def test_unsupported_patterns_are_refused_with_the_reason(pattern: str, word: str) -> None:
    with pytest.raises(PatternError) as caught:
        linear_time(pattern)
    assert word in str(caught.value)


def test_matching_stops_after_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_pattern, "MOST_S", -1.0)
    match = linear_time("a")
    with pytest.raises(PatternError, match="simpler"):
        match("a")
