"""One line for each operator, as spreadsheets read it (RFC 4180)."""

import csv
import io
from collections.abc import Sequence

from profiles.analysis.select import Selection
from profiles.exporting.asked import GROUP_FIELDS, group_rows
from profiles.exporting.fields import Values

#: what a spreadsheet takes for the beginning of a formula, also in its full-width form
_FORMULA = tuple("=+-@\t\r\n＝＋－＠")


def to_csv(values: Sequence[Values]) -> bytes:
    """Return UTF-8 text: a line of headings, then one for each operator; lines end in CR LF.

    An empty cell is a number that the profile does not tell; `nan` and `inf` are numbers that it
    tells. Numbers have all their digits. A text that a spreadsheet would take for a formula gets an
    apostrophe in front, which spreadsheets do not show; JSON and npz have it as it is.
    """
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow([each.field.heading for each in values])
    writer.writerows(zip(*(_cells(each) for each in values), strict=True))
    return file.getvalue().encode()


def groups_to_csv(groups: Selection) -> bytes:
    """Return one line for each group that was asked for, as `to_csv` writes them."""
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, GROUP_FIELDS)
    writer.writeheader()
    writer.writerows(each | {"type": safe_text(each["type"])} for each in group_rows(groups))
    return file.getvalue().encode()


def _cells(values: Values) -> list[object]:
    cells = values.optional()
    if values.field.kind == "text":
        return [None if cell is None else safe_text(cell) for cell in cells]
    return cells


def safe_text(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text
