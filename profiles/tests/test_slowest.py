"""The operators that an agent reports before the profile equal the rows of the result's table."""

from itertools import islice
from pathlib import Path

import pytest

from agent.execution.slowest import shorten, slowest_operators
from profiles.analysis.select import Query, select
from profiles.analysis.table import rows
from profiles.formats.load_and_run.reader import parse
from testdata import DATA

PROFILES = sorted((DATA / "profiles").glob("*.json"))
COMPILED = sorted((DATA / "load_and_run").glob("*/profile.json"))


@pytest.mark.parametrize(
    "path", [*PROFILES, *COMPILED], ids=lambda path: path.parent.name + path.stem
)
def test_reported_operators_equal_the_rows_of_the_result(path: Path) -> None:
    columns = parse(path.read_bytes())
    selection = select(columns, Query())
    slowest = slowest_operators(path)
    assert slowest is not None
    assert slowest.operators == len(selection)
    assert slowest.total_us == round(selection.total_s * 1e6, 3)
    longest = max(len(name) for name, _, _ in slowest.rows)
    expected = [
        (shorten(row.name, longest), row.type, round(row.self_s * 1e6, 3))
        for row in islice(rows(columns, selection), len(slowest.rows))
    ]
    assert [(name, slowest.types[at], time_us) for name, at, time_us in slowest.rows] == expected
    assert len(slowest.rows) >= min(50, len(selection)) * 0.9
