"""Durations, milliseconds and sizes as pages show them."""

import math

import pytest
from django.template import Context, Template

from profiles.analysis.durations import duration, unit_of
from profiles.presenters.formatting import bytesize, milliseconds


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
def test_a_time_has_four_digits_and_a_fitting_unit(value, text):
    assert duration(value) == text


def test_milliseconds_have_four_digits():
    assert milliseconds(12.59) == "12.59 ms"
    assert milliseconds(None) == "–"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 1024**3, "5.0 GiB"), (None, "–")],
)
def test_sizes_are_binary(value, text):
    assert bytesize(value) == text


def test_times_of_a_column_have_the_unit_of_the_longest():
    times = [0.0123456, 5e-6, 0.0, 9.4e-4, None, math.nan]
    unit = unit_of(times)
    texts = [duration(time, unit) for time in times]
    assert texts == ["12.35 ms", "0.005000 ms", "0 ms", "0.9400 ms", "–", "–"]


def test_no_digits_below_a_nanosecond_are_shown():
    assert duration(1.23456e-9, unit_of([12.0])) == "0.000000001 s"
    assert duration(1.23456e-7, unit_of([0.2e-3])) == "0.123 µs"


def test_the_template_tag_gives_a_column_one_unit():
    text = """{% load quantities %}{% time_unit_ms rows of="pass.median_ms" as unit %}
        {% for row in rows %}{{ row.pass.median_ms|milliseconds:unit }}|{% endfor %}"""
    rows = [{"pass": {"median_ms": value}} for value in (1500.0, 0.25, None)]
    assert Template(text).render(Context({"rows": rows})).strip() == "1.500 s|0.0002500 s|–|"
