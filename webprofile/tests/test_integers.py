"""Tests of the parser for integers in URLs and forms."""

import pytest

from webprofile.integers import parse_int


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("7", 7), ("007", 7), ("199", 199), ("200", 200)]
)
def test_integer_up_to_the_maximum_is_parsed(text, number):
    assert parse_int(text, maximum=200) == number


@pytest.mark.parametrize(
    "text",
    [
        "201", "999", "0200", "",
        "+1", "-1", "-0", " 1", "1 ", "1\n", "1_0", "1,0", "1.0", "1e2", "0x1", "a", "1\0",
        "\u0663", "\u0967", "\uff11", "\u00b2", "\u2460", "1\u0663",
    ],
)  # fmt: skip
def test_other_text_is_none(text):
    assert parse_int(text, maximum=200) is None


def test_text_beyond_the_limit_of_python_is_none():
    assert parse_int("9" * 5000, maximum=10**18 - 1) is None
    assert parse_int("0" * 5000, maximum=10**18 - 1) is None


def test_negative_maximum_allows_no_integer():
    assert parse_int("0", maximum=-1) is None
