"""Format the selected rows of a comparison as CSV and JSON, in the displayed order.

The JSON is also the core of the response of `/api/v1/profiles/compare/`.
"""

import csv
import io
import math
from typing import Any

import msgspec
from django.http import QueryDict

from profiles.comparison.facts import compared_facts, warnings_of
from profiles.comparison.loading import ComparisonResult, comparison_of
from profiles.comparison.messages import letter, origin_of, verdict_word
from profiles.comparison.question import RowSelection, select_rows
from profiles.comparison.request import ComparisonRequest, read_comparison_request
from profiles.exports.csv_file import for_spreadsheets, safe_text
from profiles.exports.provenance import title_of
from profiles.models import Profile

CONTENT_TYPES = {"csv": "text/csv; charset=utf-8", "json": "application/json"}


def pieces_of(profiles: list[Profile], parameters: QueryDict, name: str) -> list[bytes]:
    """Compare the profiles, and return the file of one of `CONTENT_TYPES`.

    parameters: of a request that was checked
    Raises DomainError comparison_large, and as `profile_data`.
    """
    request = read_comparison_request(parameters)
    compared = comparison_of(profiles)
    answer = select_rows(compared.comparison, request.question)
    if name == "csv":
        return [as_csv(compared, request, answer)]
    return [msgspec.json.encode(as_json(compared, request, answer))]


def as_json(
    compared: ComparisonResult, request: ComparisonRequest, answer: RowSelection
) -> dict[str, Any]:
    """Return the comparison for JSON: all times in s, null for missing numbers."""
    numbers = compared.comparison.side(request.question.side)
    return {
        "format": "megengine-web-profile comparison 2",
        "side": request.question.side,
        "profiles": [
            {
                "letter": letter(n),
                "profile": profile.pk,
                "name": title_of(profile),
                "origin": origin_of(profile),
                "passes": len(compared.data[n].passes),
                "total_s": _number(numbers.total_s[n]),
            }
            for n, profile in enumerate(compared.profiles)
        ],
        "facts": [
            {"name": fact.name, "values": fact.values, "differs": fact.differs}
            for fact in compared_facts(compared)
        ],
        "warnings": warnings_of(compared),
        "rows": [_row(compared, number, request) for number in answer.rows.tolist()],
    }


def as_csv(compared: ComparisonResult, request: ComparisonRequest, answer: RowSelection) -> bytes:
    """Return one line per row as CSV; columns of a profile begin with its letter."""
    count = len(compared.profiles)
    headers = ["row", "operator", "type", "A_time_s", "A_operators"]
    for n in range(1, count):
        headers += [f"{letter(n)}_{name}" for name in _COLUMNS]
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(headers)
    for number in answer.rows.tolist():
        row = _row(compared, number, request)
        line = [row["row"], row["operator"], row["type"], row["baseline"]["time_s"]]
        line.append("; ".join(row["baseline"]["operators"]))
        for cell in row["others"]:
            line += [_flat(cell[name]) if cell else "" for name in _COLUMNS]
        # a spreadsheet must not evaluate the name of an operator as a formula
        writer.writerow([safe_text(cell) if isinstance(cell, str) else cell for cell in line])
    return for_spreadsheets(out.getvalue().encode())


_COLUMNS = (
    "status",
    "reasons",
    "time_s",
    "difference_s",
    "verdict",
    "change",
    "change_low",
    "change_high",
    "operators",
)


def _row(compared: ComparisonResult, number: int, request: ComparisonRequest) -> dict[str, Any]:
    comparison = compared.comparison
    row, numbers = comparison.rows[number], comparison.side(request.question.side)
    profile, x = comparison.main[number]
    names = [
        [comparison.nodes[n].short_names[y] for y in row.members(n)]
        for n in range(len(compared.profiles))
    ]
    others: list[dict[str, Any] | None] = []
    for other, cell in enumerate(row.cells):
        test = numbers.judgements[other]
        others.append(
            None
            if cell is None
            else {
                "status": cell.status,
                "reasons": cell.reasons,
                "aligned": cell.how,
                "operators": names[other + 1],
                "time_s": _number(numbers.time_s[other + 1, number]),
                "difference_s": _number(numbers.delta_s[other, number]),
                "verdict": test.code(number),
                "verdict_text": verdict_word(test.code(number)),
                "change": _number(test.change[number]),
                "change_low": _number(test.low[number]),
                "change_high": _number(test.high[number]),
                "samples_s": _samples(numbers.samples[other + 1][:, number]),
            }
        )
    return {
        "row": number,
        "operator": comparison.nodes[profile].short_names[x],
        "type": comparison.nodes[profile].kinds[x],
        "baseline": {
            "operators": names[0],
            "time_s": _number(numbers.time_s[0, number]),
            "samples_s": _samples(numbers.samples[0][:, number]),
        },
        "others": others,
    }


def _samples(samples_s: Any) -> list[float | None]:
    return [_number(value) for value in samples_s]


def _number(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None


def _flat(value: Any) -> Any:
    return "; ".join(value) if isinstance(value, list | tuple) else value
