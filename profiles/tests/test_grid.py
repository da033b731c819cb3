"""Long tables compared with those of the tabulate library."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tabulate import tabulate

from profiles.analysis import text
from profiles.analysis.grid import Grid
from profiles.formats.load_and_run.reader import parse
from profiles.tests.make import profile_text
from testdata import good_profile

CELLS = st.sampled_from(
    [
        "",
        "N/A",
        "FLO",
        "1.5",
        " 2",
        "#0",
        "nan",
        "True",
        "-inf",
        "1,000",
        "{1,3}",
        "a  b ",
        "1e5",
        "x",
    ]
)
ROWS = st.lists(
    st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=3), min_size=1, max_size=4
)


def fancy_grid(titles: list[str], rows: list[list[tuple[str, ...]]]) -> str | None:
    """Draw a table row by row; return None where only tabulate can format it."""
    grid = Grid(titles)
    for row in rows:
        grid.add([row])
    return "".join(grid.draw(rows)) if grid.is_plain else None


def by_tabulate(titles: list[str], rows: list[list[tuple[str, ...]]]) -> str:
    """Draw a table with tabulate, each line as a row, and remove the rules within rows."""
    drawn = tabulate([line for lines in rows for line in lines], titles, "fancy_grid").split("\n")
    kept, at = drawn[:3], 3
    for lines in rows:
        kept += drawn[at : at + 2 * len(lines) : 2]
        kept.append(drawn[at + 2 * len(lines) - 1])
        at += 2 * len(lines)
    return "\n".join(kept)


@given(ROWS)
def test_grid_draws_a_table_as_tabulate_does(rows: list[list[tuple[str, ...]]]) -> None:
    titles = ["device self time", "x", "operator info"]
    table = fancy_grid(titles, rows)
    assume(table is not None)
    assert table == by_tabulate(titles, rows)


def test_grid_draws_a_table_with_text_in_every_column() -> None:
    rows = [[("#0", "FLO", "{1}"), ("1.5", "", "N/A")], [("12%", "3", "")]]
    assert fancy_grid(["a", "b", "c"], rows) == by_tabulate(["a", "b", "c"], rows)


@pytest.mark.parametrize("cell", ["1.5", "nan", "日本", "\x1b[31mred", "a\nb"])
def test_grid_does_not_draw_numbers_and_wide_or_control_characters(cell: str) -> None:
    assert fancy_grid(["a"], [[(cell,)]]) is None


@pytest.mark.parametrize("name", ["bert_tiny", "hostile_names", "two_inputs"])
def test_the_text_depends_on_neither_cache_nor_library(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = parse(good_profile(name))
    drawn = profile_text(columns, 0, show_host=True)
    # first without cached rows, then with the library
    monkeypatch.setattr(text, "_KEPT_PIECES", 0)
    assert profile_text(columns, 0, show_host=True) == drawn
    monkeypatch.setattr(Grid, "is_plain", False)
    assert profile_text(columns, 0, show_host=True) == drawn
