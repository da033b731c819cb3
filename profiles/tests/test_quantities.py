import math

import pytest

from profiles.templatetags.quantities import bytesize, milliseconds, seconds


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0123456, "12.35 ms"),
        (1.5e-6, "1.500 µs"),
        (2.5e-10, "0.250 ns"),
        (12.3456, "12.35 s"),
        (123456.0, "123456 s"),
        (0.0, "0 s"),
        (None, "–"),
        (math.nan, "–"),
    ],
)
def test_a_time_has_four_digits_and_the_unit_that_fits(value, text):
    assert seconds(value) == text


def test_milliseconds_are_the_same_from_another_unit():
    assert milliseconds(12.59) == "12.59 ms"
    assert milliseconds(None) == "–"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 1024**3, "5.0 GiB"), (None, "–")],
)
def test_sizes_are_binary(value, text):
    assert bytesize(value) == text
