"""Numbers and units, compared with the loop of profile_analyze."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiles.analysis.numbers import PREFIXES, percent, short, with_unit

FLO = ("FLO", "FLO")
BYTE = ("byte", "iB")


def format_like_profile_analyze(value: float, base: int) -> tuple[str, str]:
    """Return number and prefix as profile_analyze does; raise StopIteration above 1000 P."""
    if not math.isfinite(value):
        return f"{value:.2f}", ""
    prefixes = iter(PREFIXES)
    while value >= base:
        value /= base
        next(prefixes)
    return f"{value:.2f}", next(prefixes)


@given(st.floats(max_value=9e17), st.sampled_from([1000, 1024]))
def test_numbers_are_formatted_like_profile_analyze(value: float, base: int) -> None:
    number, prefix = format_like_profile_analyze(value, base)
    assert with_unit(value, FLO, base) == (number, f"{prefix}FLO")


@given(st.integers(min_value=0, max_value=2**53))
def test_integers_are_formatted_like_profile_analyze(value: int) -> None:
    assert with_unit(float(value), BYTE, 1024)[0] == format_like_profile_analyze(value, 1024)[0]


@given(st.floats(min_value=1e-9, max_value=1e9))
def test_three_significant_digits_are_rounded(value: float) -> None:
    assert math.isclose(float(short(value)), value, rel_tol=5.001e-3)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (999_999.0, ("1000.00", "KFLO")),
        (1_000_000.0, ("1.00", "MFLO")),
        (999.999, ("1000.00", "FLO")),
        (-5e9, ("-5000000000.00", "FLO")),
        (math.inf, ("inf", "FLO")),
        (math.nan, ("nan", "FLO")),
        (5e20, ("500000.00", "PFLO")),
        (None, ("N/A", "FLO")),
    ],
)
def test_the_prefix_is_chosen_before_rounding(value: float | None, text: tuple[str, str]) -> None:
    assert with_unit(value, FLO, 1000) == text


def test_bytes_have_another_unit_after_a_prefix() -> None:
    assert with_unit(64.0, BYTE, 1024) == ("64.00", "byte")
    assert with_unit(2048.0, BYTE, 1024) == ("2.00", "KiB")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0239, "0.0239"),
        (1e-6, "1e-06"),
        (0.000123, "0.000123"),
        (1.0, "1.0"),
        (12.0, "12.0"),
        (123.4, "1.23e+02"),
        (0.0, "0.0"),
    ],
)
def test_seconds_have_three_significant_digits(value: float, text: str) -> None:
    assert short(value) == text


def test_percentages_have_one_decimal() -> None:
    assert percent(0.673) == "67.3%"
    assert percent(math.nan) == "nan%"
