"""Numbers and units, compared with the rule of the specification."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiles.analysis.numbers import PREFIXES, percent, short, with_unit

FLO = ("FLO", "FLO")
BYTE = ("byte", "iB")


def original(value: float, base: int) -> tuple[str, str]:
    """Return number and prefix as the tool's loop does; it raises StopIteration above 1000 P."""
    if not math.isfinite(value):
        return f"{value:.2f}", ""
    prefixes = iter(PREFIXES)
    while value >= base:
        value /= base
        next(prefixes)
    return f"{value:.2f}", next(prefixes)


@given(st.floats(max_value=9e17), st.sampled_from([1000, 1024]))
def test_any_number_gets_the_digits_and_the_prefix_of_the_tool(value: float, base: int) -> None:
    number, prefix = original(value, base)
    assert with_unit(value, FLO, base) == (number, f"{prefix}FLO")


@given(st.floats(min_value=0, max_value=9e17))
def test_a_number_with_its_unit_is_right_to_half_a_hundredth(value: float) -> None:
    number, unit = with_unit(value, FLO, 1000)
    scale = 1000.0 ** PREFIXES.index(unit.removesuffix("FLO"))
    assert abs(float(number) * scale - value) <= 0.005001 * scale
    assert float(number) <= 1000


@given(st.integers(min_value=0, max_value=2**53))
def test_whole_numbers_print_as_the_tool_prints_integers(value: int) -> None:
    assert with_unit(float(value), BYTE, 1024)[0] == original(value, 1024)[0]


@given(st.floats(min_value=1e-9, max_value=1e9))
def test_three_digits_are_right_to_half_of_the_last(value: float) -> None:
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


def test_the_unit_after_a_prefix_may_differ() -> None:
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
