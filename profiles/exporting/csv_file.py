"""One line for each operator, as spreadsheets read it (RFC 4180)."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from profiles.analysis.select import Selection
from profiles.exporting.asked import GROUP_FIELDS, group_rows
from profiles.exporting.fields import SOURCE_FIELDS, Values, as_json

#: what a spreadsheet takes for the beginning of a formula, also in its full-width form
_FORMULA = tuple("=+-@\t\r\n＝＋－＠")


def to_csv(values: Sequence[Values], meta: Mapping[str, Any]) -> bytes:
    """Return UTF-8 text: a line of headings, then one for each operator; lines end in CR LF.

    meta: where the profile is from (`provenance`), for `SOURCE_FIELDS`
    An empty cell is a number that the profile does not tell; `nan` and `inf` are numbers that it
    tells. Numbers have all their digits. A text that a spreadsheet would take for a formula gets an
    apostrophe in front, which spreadsheets do not show; JSON has it as it is.
    """
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    source = _source(meta)
    writer.writerow([*(each.field.heading for each in values), *source])
    own = tuple(source.values())
    writer.writerows(row + own for row in zip(*(_cells(each) for each in values), strict=True))
    return file.getvalue().encode()


def groups_to_csv(groups: Selection, meta: Mapping[str, Any]) -> bytes:
    """Return one line for each group that was asked for, as `to_csv` writes them."""
    file = io.StringIO(newline="")
    source = _source(meta)
    writer = csv.DictWriter(file, [*GROUP_FIELDS, *source])
    writer.writeheader()
    for each in group_rows(groups):
        writer.writerow(each | {"type": safe_text(each["type"])} | source)
    return file.getvalue().encode()


def _source(meta: Mapping[str, Any]) -> dict[str, str]:
    """The cells of `SOURCE_FIELDS` by heading; empty what is not known of a file."""
    is_task = meta.get("source") == "task"
    options = meta.get("options")
    cells = {
        "model": safe_text(meta["title"] if is_task else ""),
        "title": safe_text(meta.get("task_title", "") if is_task else meta.get("title", "")),
        "options": "" if options is None else as_json(options),
        "device": safe_text(meta.get("device", "")),
        "version": safe_text(meta.get("megengine", "")),
    }
    return {field.heading: cells[field.key] for field in SOURCE_FIELDS}


def _cells(values: Values) -> list[object]:
    cells = values.optional()
    if values.field.kind == "text":
        return [None if cell is None else safe_text(cell) for cell in cells]
    return cells


def safe_text(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text
