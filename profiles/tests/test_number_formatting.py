"""Durations, milliseconds and sizes as pages show them."""

import math

import pytest
from django.template import Context, Template

from profiles.analysis.durations import TRACE_CLOCK_S, duration, unit_of
from profiles.presenters.formatting import bytesize, milliseconds


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0123456, "12.3 ms"),
        (5e-6, "5 µs"),
        (2.5e-6, "3 µs"),
        (9.997e-4, "1.00 ms"),
        (0.001105, "1.11 ms"),
        (1105 / 1e6, "1.11 ms"),
        (0.0099996, "10.0 ms"),
        (3e-7, "< 1 µs"),
        (12.3456, "12.3 s"),
        (123456.0, "123456 s"),
        (0.0, "0 s"),
        (None, "–"),
        (math.nan, "–"),
    ],
)
def test_a_time_has_three_digits_and_a_fitting_unit(value, text):
    assert duration(value) == text


def test_milliseconds_have_three_digits():
    assert milliseconds(12.59) == "12.6 ms"
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
    assert texts == ["12.3 ms", "0.005 ms", "0 ms", "0.940 ms", "–", "–"]


def test_no_digits_below_the_resolution_of_the_clock_are_shown():
    assert duration(1.23456e-6, unit_of([0.012])) == "0.001 ms"
    assert duration(1.23456e-7, unit_of([0.012])) == "< 0.001 ms"
    assert duration(1.23456e-7, unit_of([0.2e-3], clock_s=TRACE_CLOCK_S)) == "0.123 µs"


def test_neighbouring_values_of_an_axis_differ():
    unit = unit_of([0.01234], step_s=1e-5)
    assert [duration(time_s, unit) for time_s in (0.01232, 0.01233)] == ["12.32 ms", "12.33 ms"]


def test_the_template_tag_gives_a_column_one_unit():
    text = """{% load quantities %}{% time_unit_ms rows of="pass.median_ms" as unit %}
        {% for row in rows %}{{ row.pass.median_ms|milliseconds:unit }}|{% endfor %}"""
    rows = [{"pass": {"median_ms": value}} for value in (1500.0, 0.25, None)]
    assert Template(text).render(Context({"rows": rows})).strip() == "1.50 s|0.000250 s|–|"
