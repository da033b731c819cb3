"""Export one line per operator as CSV (RFC 4180) for spreadsheets."""

import codecs
import csv
import io
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, BinaryIO

from profiles.exports.fields import SOURCE_FIELDS, Field, as_json

#: characters with which a spreadsheet starts a formula, including their full-width forms
_FORMULA = tuple("=+-@\t\r\n＝＋－＠")
#: larger files are written to the disk
_IN_MEMORY_BYTES, _PART_BYTES = 16 << 20, 1 << 20


def to_csv(
    fields: Sequence[Field], columns: Sequence[Sequence[Any]], meta: Mapping[str, Any]
) -> bytes:
    """Return UTF-8 text: a line of headings, then one line per operator or group, ending in CR LF.

    columns: the values of each field
    meta: origin of the profile (`provenance`), for `SOURCE_FIELDS`, which are the same in each line

    An empty cell is a number that the profile does not contain; `nan` and `inf` are numbers that it
    contains. Numbers have 12 significant digits: more than the clocks of MegEngine, and no remains
    of a subtraction such as 0.0067390000000000505. A text that a spreadsheet would take for a
    formula is prefixed with an apostrophe, which spreadsheets do not show; JSON contains it
    unchanged.
    """
    file = io.BytesIO()
    source = ([cell] * len(columns[0]) for cell in _source(meta))
    write_csv(file, [*fields, *SOURCE_FIELDS], [[*columns, *source]])
    return file.getvalue()


def _shortened(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.12g}")


def write_csv(
    stream: BinaryIO, fields: Sequence[Field], pieces: Iterable[Sequence[Sequence[Any]]]
) -> None:
    """Write RFC 4180 for spreadsheets; missing values are empty, formulas are escaped.

    The file begins with a byte-order mark unless it is ASCII: Excel takes UTF-8 for ANSI else.
    pieces: the values of each field, for some of the rows
    """
    with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES) as file:
        text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
        writer = csv.writer(text)
        writer.writerow([field.heading for field in fields])
        for columns in pieces:
            cells = [
                [None if value is None else safe_text(value) for value in column]
                if field.kind == "text"
                else [_shortened(value) for value in column]
                if field.kind == "number"
                else column
                for field, column in zip(fields, columns, strict=True)
            ]
            writer.writerows(zip(*cells, strict=True))
        text.detach()
        # whether it begins with a byte-order mark is known at its end only
        if not all(part.isascii() for part in _parts(file)):
            stream.write(codecs.BOM_UTF8)
        for part in _parts(file):
            stream.write(part)


def _parts(file: IO[bytes]) -> Iterator[bytes]:
    file.seek(0)
    return iter(lambda: file.read(_PART_BYTES), b"")


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
