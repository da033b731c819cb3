"""Format the selected rows of a comparison as CSV and JSON, in the displayed order.

The JSON is also the core of the response of `/api/v1/profiles/compare/`.
"""

import io
import math
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

import msgspec
from django.http import QueryDict

from agent.statistics.unpaired import Judgement, Verdict
from profiles.comparison.facts import Fact, compared_facts, warnings_of
from profiles.comparison.loading import ComparisonResult, comparison_of
from profiles.comparison.messages import letter, origin_of, verdict_word
from profiles.comparison.question import RowSelection, select_rows
from profiles.comparison.request import ComparisonRequest, read_comparison_request
from profiles.comparison.rows import Reason, Status
from profiles.exports.csv_file import write_csv
from profiles.exports.fields import Field, Kind
from profiles.exports.provenance import title_of
from profiles.models import Profile
from profiles.presenters.described import means, unknown

CONTENT_TYPES = {"csv": "text/csv; charset=utf-8", "json": "application/json"}


class ComparedProfile(TypedDict):
    """One of the profiles."""

    letter: Annotated[str, means("`A` to `H`.")]
    profile: Annotated[int, means("Its id.")]
    name: Annotated[str, means("Name of the model or file.")]
    origin: Annotated[str, means("Device and version, or that it was opened.")]
    passes: Annotated[int, means("Its profiled passes: samples of each operator.")]
    total_s: Annotated[
        float | None, unknown("Sum of self times on the side that was asked for, s.")
    ]
    host_memory_bytes: Annotated[int | None, unknown("Peak memory of its run on the host, bytes.")]
    gpu_memory_bytes: Annotated[int | None, unknown("Peak memory of its run on GPUs, bytes.")]


class TestAnswer(TypedDict):
    """A difference from the baseline and its significance."""

    difference_s: Annotated[
        float | None, unknown("Time minus that of the baseline, s; negative is faster.")
    ]
    verdict: Annotated[
        Verdict,
        means(
            "absent: no times; disturbed: one of the runs was; single: one sample; few: too "
            "few passes; unknown: how far equal runs differ on the device; none: equal runs "
            "differ as much; faster; slower. All but the last two mean that there is not enough "
            "evidence."
        ),
    ]
    verdict_text: Annotated[str, means("The verdict in the reader's words; empty without times.")]
    change: Annotated[
        float | None,
        unknown("Estimated ratio to the baseline minus 1 (Hodges-Lehmann, of logarithms)."),
    ]
    change_low: Annotated[
        float | None, unknown("Where the 95 % interval of `change` begins; never below -1.")
    ]
    change_high: Annotated[float | None, unknown("Where it ends.")]


class BaselineCell(TypedDict):
    """The operators of the baseline in a row."""

    operators: Annotated[Sequence[str], means("Names of its operators.")]
    time_s: Annotated[float | None, unknown("Sum of their medians, s.")]
    samples_s: Annotated[Sequence[float | None], unknown("The sum in each pass, s.")]


class OtherCell(TestAnswer):
    """The operators of another profile in a row."""

    status: Annotated[Status, means("What became of it.")]
    reasons: Annotated[Sequence[Reason], means("What differs.")]
    aligned: Annotated[Sequence[str], means("How it was found.")]
    operators: Annotated[Sequence[str], means("Names of its operators.")]
    time_s: Annotated[float | None, unknown("Sum of their medians, s.")]
    samples_s: Annotated[Sequence[float | None], unknown("The sum in each pass, s.")]


class ComparedRow(TypedDict):
    """Aligned operators."""

    row: Annotated[int, means("Its number in this comparison.")]
    operator: Annotated[str, means("What it is called after.")]
    type: Annotated[str, means("That operator's type.")]
    baseline: Annotated[BaselineCell, means("What the baseline has.")]
    others: Annotated[
        Sequence[OtherCell | None],
        means("What each other profile has; null: neither it nor the baseline has anything."),
    ]


class ComparedFile(TypedDict):
    """A comparison of profiles, as the JSON file has it."""

    format: Annotated[str, means("Name and version of this shape.")]
    side: Annotated[str, means("Whose times rows have: `device` or `host`.")]
    profiles: Annotated[Sequence[ComparedProfile], means("The profiles, the baseline first.")]
    facts: Annotated[Sequence[Fact], means("What is known of the runs.")]
    warnings: Annotated[Sequence[str], means("What one must know before trusting a difference.")]
    rows: Annotated[Sequence[ComparedRow], means("The rows.")]


def pieces_of(profiles: Sequence[Profile], parameters: QueryDict, name: str) -> list[bytes]:
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
) -> ComparedFile:
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
                "total_s": plain_number(numbers.total_s[n]),
                "host_memory_bytes": getattr(profile.attempt, "host_memory_bytes", None),
                "gpu_memory_bytes": getattr(profile.attempt, "gpu_memory_bytes", None),
            }
            for n, profile in enumerate(compared.profiles)
        ],
        "facts": compared_facts(compared),
        "warnings": warnings_of(compared),
        "rows": [_row(compared, number, request) for number in answer.rows.tolist()],
    }


def as_csv(compared: ComparisonResult, request: ComparisonRequest, answer: RowSelection) -> bytes:
    """Return one line per row as CSV; columns of a profile begin with its letter."""
    kinds: dict[str, Kind] = {"row": "count", "operator": "text", "type": "text"}
    kinds |= {"A_time_s": "number", "A_operators": "text"}
    for n in range(1, len(compared.profiles)):
        kinds |= {f"{letter(n)}_{name}": kind for name, kind in _COLUMNS.items()}
    rows = (_row(compared, number, request) for number in answer.rows.tolist())
    file = io.BytesIO()
    fields = [Field(name, kind, "") for name, kind in kinds.items()]
    write_csv(file, fields, ([[value] for value in _line(row)] for row in rows))
    return file.getvalue()


def _line(row: ComparedRow) -> list[Any]:
    base = row["baseline"]
    line = [row["row"], row["operator"], row["type"], base["time_s"], base["operators"]]
    for cell in row["others"]:
        values = dict(cell) if cell else {}
        line += [values.get(name) for name in _COLUMNS]
    return ["; ".join(value) if isinstance(value, list | tuple) else value for value in line]


#: columns of each profile after the baseline
_COLUMNS: dict[str, Kind] = {
    "status": "text",
    "reasons": "text",
    "time_s": "number",
    "difference_s": "number",
    "verdict": "text",
    "change": "number",
    "change_low": "number",
    "change_high": "number",
    "operators": "text",
}


def _row(compared: ComparisonResult, number: int, request: ComparisonRequest) -> ComparedRow:
    comparison = compared.comparison
    row, numbers = comparison.rows[number], comparison.side(request.question.side)
    profile, x = comparison.main[number]
    names = [
        [comparison.nodes[n].short_names[y] for y in row.members(n)]
        for n in range(len(compared.profiles))
    ]
    others: list[OtherCell | None] = []
    for other, cell in enumerate(row.cells):
        others.append(
            None
            if cell is None
            else {
                "status": cell.status,
                "reasons": cell.reasons,
                "aligned": cell.how,
                "operators": names[other + 1],
                "time_s": plain_number(numbers.time_s[other + 1, number]),
                **tested(numbers.delta_s[other, number], numbers.judgements[other], number),
                "samples_s": _samples(numbers.samples[other + 1][:, number]),
            }
        )
    return {
        "row": number,
        "operator": comparison.nodes[profile].short_names[x],
        "type": comparison.nodes[profile].kinds[x],
        "baseline": {
            "operators": names[0],
            "time_s": plain_number(numbers.time_s[0, number]),
            "samples_s": _samples(numbers.samples[0][:, number]),
        },
        "others": others,
    }


def tested(difference_s: float, test: Judgement, row: int) -> TestAnswer:
    """Return a difference from the baseline, s, with the result of its test."""
    return {
        "difference_s": plain_number(difference_s),
        "verdict": test.code(row),
        "verdict_text": verdict_word(test.code(row)),
        "change": plain_number(test.change[row]),
        "change_low": plain_number(test.low[row]),
        "change_high": plain_number(test.high[row]),
    }


def _samples(samples_s: Any) -> list[float | None]:
    return [plain_number(value) for value in samples_s]


def plain_number(value: float) -> float | None:
    """Return a time, s, or a ratio without the noise of floating-point sums; None if unknown.

    Clocks resolve 1 ns at best, and no ratio is known to 1e-9.
    """
    return round(float(value), 12) if math.isfinite(value) else None
