"""Tests of types of command line arguments: invalid numbers are refused."""

import argparse

import pytest

from webprofile.terminal.arguments import count, seconds


@pytest.mark.parametrize("text", ["nan", "-1", "inf", "1e999", "", "soon"])
def test_invalid_time_limit_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError):
        seconds(text)


@pytest.mark.parametrize("text", ["-1", "1.5", "", "²", "many"])
def test_invalid_count_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError):
        count(text)


def test_valid_time_limits_and_counts_are_accepted():
    assert (seconds("0.5"), seconds("0"), count("0"), count("12")) == (0.5, 0.0, 0, 12)
