"""The text that `python -m megengine.tools.profile_analyze` prints, byte for byte.

Checked against MegEngine 1.13.0 under Python 3.10 with tabulate 0.10. As there, names that are
not ASCII are padded differently if the package wcwidth is installed.
"""

from itertools import zip_longest

from tabulate import tabulate

from profiles.analysis.table import Table, table
from profiles.analysis.totals import Totals, totals
from profiles.parsers.columns import ProfileColumns


def profile_text(columns: ProfileColumns, top: int = 3, show_host: bool = False) -> str:
    """Return what `profile_analyze -t TOP [--show-host]` prints.

    Raises AnalysisError if the device total is 0.
    """
    parts = [summary_text(totals(columns)), table_text(table(columns, side="device", top=top))]
    if show_host:
        parts.append(table_text(table(columns, side="host", top=top)))
    return "\n\n".join(parts) + "\n"


def summary_text(sums: Totals) -> str:
    """Return the two totals; as in the original, `N/A` in one prints the other in full."""
    rows = [
        ("total device time", "N/A" if sums.device_s is None else sums.device_s),
        ("total host time", "N/A" if sums.host_s is None else sums.host_s),
    ]
    text: str = tabulate(rows, tablefmt="simple")
    return text


def table_text(made: Table) -> str:
    """Return the table drawn with lines.

    Each line of a cell goes to tabulate as a row of its own, and the rules between lines of one
    operator are taken out again. So does the original, and it decides how tabulate sees a
    column: one whose lines all look like numbers is aligned on the point.
    """
    lines: list[tuple[str, ...]] = []
    inner_rules: set[int] = set()
    for row in made.rows:
        cells = list(zip_longest(*row.cells, fillvalue=""))
        # drawn: top rule, headers, rule, then line and rule in turns
        inner_rules.update(2 * (len(lines) + at) + 2 for at in range(1, len(cells)))
        lines.extend(cells)
    drawn = tabulate(lines, headers=made.headers, tablefmt="fancy_grid").split("\n")
    return "\n".join(text for at, text in enumerate(drawn) if at not in inner_rules)
