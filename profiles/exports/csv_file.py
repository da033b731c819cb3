"""Export one line per operator as CSV (RFC 4180) for spreadsheets."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from profiles.analysis.select import Selection
from profiles.exports.fields import (
    GROUP_FIELDS,
    SOURCE_FIELDS,
    Field,
    FieldValues,
    as_json,
    group_columns,
)

#: characters with which a spreadsheet starts a formula, including their full-width forms
_FORMULA = tuple("=+-@\t\r\n＝＋－＠")


def to_csv(values: Sequence[FieldValues], meta: Mapping[str, Any]) -> bytes:
    """Return UTF-8 text: a line of headings, then one line per operator; lines end in CR LF.

    meta: origin of the profile (`provenance`), for `SOURCE_FIELDS`

    An empty cell is a number that the profile does not contain; `nan` and `inf` are numbers that it
    contains. Numbers have all their digits. A text that a spreadsheet would take for a formula is
    prefixed with an apostrophe, which spreadsheets do not show; JSON contains it unchanged.
    """
    return _whole([value.field for value in values], [value.optional() for value in values], meta)


def groups_to_csv(groups: Selection, meta: Mapping[str, Any]) -> bytes:
    """Return one line per requested group, in the format of `to_csv`."""
    return _whole(GROUP_FIELDS, group_columns(groups), meta)


class CsvWriter:
    """Write RFC 4180; missing values are empty, formulas are escaped."""

    def __init__(self, stream: BinaryIO, fields: Sequence[Field]) -> None:
        self._fields = fields
        self._text = io.TextIOWrapper(stream, "utf-8", newline="", write_through=True)
        self._writer = csv.writer(self._text)
        self._writer.writerow([field.heading for field in fields])

    def write(self, columns: Sequence[Sequence[Any]]) -> None:
        cells = [
            [None if value is None else safe_text(value) for value in column]
            if field.kind == "text"
            else column
            for field, column in zip(self._fields, columns, strict=True)
        ]
        self._writer.writerows(zip(*cells, strict=True))

    def close(self) -> None:
        self._text.flush()
        self._text.detach()


def _whole(
    fields: Sequence[Field], columns: Sequence[Sequence[Any]], meta: Mapping[str, Any]
) -> bytes:
    """Return a complete file, with the source columns in each row."""
    file = io.BytesIO()
    writer = CsvWriter(file, [*fields, *SOURCE_FIELDS])
    writer.write([*columns, *([cell] * len(columns[0]) for cell in _source(meta))])
    writer.close()
    return file.getvalue()


def _source(meta: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of `SOURCE_FIELDS`; unknown ones are empty."""
    is_task = meta.get("source") == "task"
    options = meta.get("options")
    return (
        meta["title"] if is_task else "",
        meta.get("task_title", "") if is_task else meta.get("title", ""),
        "" if options is None else as_json(options),
        meta.get("device", ""),
        meta.get("megengine", ""),
    )


def safe_text(text: str) -> str:
    """Return a text that no spreadsheet evaluates as a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text
