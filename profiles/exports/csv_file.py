"""One line for each operator, as spreadsheets read it (RFC 4180)."""

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

#: what a spreadsheet takes for the beginning of a formula, also in its full-width form
_FORMULA = tuple("=+-@\t\r\n＝＋－＠")


def to_csv(values: Sequence[FieldValues], meta: Mapping[str, Any]) -> bytes:
    """Return UTF-8 text: a line of headings, then one for each operator; lines end in CR LF.

    meta: where the profile is from (`provenance`), for `SOURCE_FIELDS`
    An empty cell is a number that the profile does not tell; `nan` and `inf` are numbers that it
    tells. Numbers have all their digits. A text that a spreadsheet would take for a formula gets an
    apostrophe in front, which spreadsheets do not show; JSON has it as it is.
    """
    return _whole([each.field for each in values], [each.optional() for each in values], meta)


def groups_to_csv(groups: Selection, meta: Mapping[str, Any]) -> bytes:
    """Return one line for each group that was asked for, as `to_csv` writes them."""
    return _whole(GROUP_FIELDS, group_columns(groups), meta)


class CsvWriter:
    """RFC 4180, empty where nothing is told, formulas disarmed."""

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
    """A file of its own, with what is known of the source in each row."""
    file = io.BytesIO()
    writer = CsvWriter(file, [*fields, *SOURCE_FIELDS])
    writer.write([*columns, *([cell] * len(columns[0]) for cell in _source(meta))])
    writer.close()
    return file.getvalue()


def _source(meta: Mapping[str, Any]) -> tuple[str, ...]:
    """The cells of `SOURCE_FIELDS`; empty what is not known of a file."""
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
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text
