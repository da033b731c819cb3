"""API views of comparisons: rows, totals, waterfall, files. The first profile is the baseline."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any, Literal, TypedDict

from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request

from agent.statistics.unpaired import ScatterSource, Verdict
from profiles.api.base import EXPORT_PROBLEMS, NOT_READY, AnyFile, ResultView, json_response
from profiles.api.chart_views import NETRON, netron_answer, window_of
from profiles.api.queries import (
    ChangeQuery,
    ChosenQuery,
    ComparedTimelinesQuery,
    CompareQuery,
    RowsQuery,
)
from profiles.api.serializer_fields import answer_of
from profiles.comparison import export
from profiles.comparison.candidates import chosen_profiles, problem_of
from profiles.comparison.graph import graph_document
from profiles.comparison.loading import ComparisonResult, comparison_of
from profiles.comparison.messages import letter, verdict_advice
from profiles.comparison.question import select_rows
from profiles.comparison.request import ComparisonRequest, read_comparison_request
from profiles.comparison.timelines import ComparedTimelines, compared_timelines
from profiles.comparison.waterfall import WaterfallStep, waterfall
from profiles.exports.heavy import content_response
from profiles.models import Profile
from profiles.presenters.described import means, unknown
from webprofile.api.schema import problems
from webprofile.errors import DomainError
from webprofile.sentences import sentences

#: error responses of every view of a comparison
COMPARE_PROBLEMS = {**NOT_READY, 422: ["comparison_choice", "comparison_large", "export_question"]}


class TotalAnswer(export.TestAnswer):
    """A sum of one of the other profiles, compared with the baseline."""

    letter: Annotated[str, means("Whose.")]
    time_s: Annotated[float | None, unknown("Value of the sum, s.")]
    verdict_advice: Annotated[
        str, means("Reason why there is no verdict, and the next step, in the user's language.")
    ]
    equal_runs_differ_by: Annotated[
        float | None,
        unknown(
            "Relative difference of equal runs on the device; a smaller change gets no verdict. "
            "Null if unknown."
        ),
    ]
    equal_runs_are: Annotated[
        ScatterSource | None,
        means(
            "Runs from which it was derived: equal: of the same task; device: all equal runs of "
            "the device; sample: runs of the sample model on the idle device."
        ),
    ]


class TotalsAnswer(TypedDict):
    """The latency or a sum of all profiles."""

    key: Annotated[
        Literal["latency", "device", "host"],
        means("Median latency with the profiler off, total on the device, or total on the host."),
    ]
    baseline_s: Annotated[float | None, unknown("Value of the baseline, s.")]
    others: Annotated[Sequence[TotalAnswer], means("Values of the other profiles.")]


class StepAnswer(TypedDict):
    """A step of the waterfall from the total of the baseline to another total."""

    kind: Annotated[Literal["start", "step", "rest", "end"], means("Totals are `start` and `end`.")]
    name: Annotated[str, means("Operator, type or scope; empty: none.")]
    delta_s: Annotated[float | None, unknown("Difference, s.")]
    from_s: Annotated[float | None, unknown("Start of the step, s.")]
    to_s: Annotated[float | None, unknown("End of the step, s.")]
    rows: Annotated[int, means("Number of rows in the step.")]
    row: Annotated[int | None, means("The row, if it is a single one.")]
    verdict: Annotated[
        Verdict,
        means("Verdict on the difference, as for a row; `absent` for totals and the rest."),
    ]


class CompareAnswer(export.ComparedFile):
    """A comparison of profiles."""

    common: Annotated[
        Sequence[int], means("Rows that each other profile shares with the baseline.")
    ]
    totals: Annotated[Sequence[TotalsAnswer], means("Latency, if any profile has one, and totals.")]
    waterfall: Annotated[
        Sequence[StepAnswer], means("From the baseline's total to that of `with`.")
    ]
    counts: Annotated[dict[str, int], means("Rows by status, before filters.")]
    quiet: Annotated[int, means("Matching rows with a smaller change.")]
    quiet_delta_s: Annotated[
        Sequence[float | None], unknown("Total difference of these rows for each other profile, s.")
    ]
    total: Annotated[int, means("Requested rows.")]
    offset: Annotated[int, means("Index of the first row.")]


class CompareView(ResultView):
    """A view that compares the profiles given in the query."""

    def compared(
        self, query: type[ChosenQuery]
    ) -> tuple[ComparisonResult, ComparisonRequest, Mapping[str, Any]]:
        """Return the comparison, the request as the page parses it, and the validated query.

        Raises as `chosen`; DomainError comparison_large.
        """
        profiles, request, parameters = self.chosen(query)
        return comparison_of(profiles), request, parameters

    def chosen(
        self, query: type[ChosenQuery]
    ) -> tuple[Sequence[Profile], ComparisonRequest, Mapping[str, Any]]:
        """Return the profiles to compare, the request, and the validated query.

        Raises Http404 if any of the profiles is not visible to the user; DomainError
        comparison_choice, export_question.
        """
        parameters = self.validated_query(query)
        request = read_comparison_request(self.request.query_params)
        profiles = self.shared or chosen_profiles(self.request.user, request.ids)
        if profiles is None:
            raise Http404
        if problem := problem_of(request.ids):
            raise DomainError("comparison_choice", field="p", status=422, detail=problem)
        if request.problems:
            detail = sentences(request.problems)
            raise DomainError("export_question", status=422, detail=detail)
        return profiles, request, parameters


class Compare(CompareView):
    """A comparison of profiles."""

    @extend_schema(
        summary="Compare profiles",
        parameters=[CompareQuery],
        responses={200: answer_of(CompareAnswer)} | problems(COMPARE_PROBLEMS),
        operation_id="profiles_compare",
    )
    def get(self, request: Request) -> HttpResponse:
        """Compare 2 to 8 profiles row by row: aligned operators, and the significance of each
        difference.

        The first request for large profiles takes some seconds; further pages of it do not.
        """
        compared, compare_request, parameters = self.compared(CompareQuery)
        answer = select_rows(compared.comparison, compare_request.question)
        side = compare_request.question.side
        steps = waterfall(
            compared.comparison, compare_request.other, side=side, by=compare_request.by
        )
        start, stop = parameters["offset"], parameters["offset"] + parameters["limit"]
        window = replace(answer, rows=answer.rows[start:stop])
        return json_response(
            export.as_json(compared, compare_request, window)
            | {
                "common": compared.comparison.common,
                "totals": _totals_of(compared),
                "waterfall": [_step_of(step) for step in steps],
                "counts": answer.counts,
                "quiet": answer.quiet,
                "quiet_delta_s": [export.plain_number(value) for value in answer.quiet_delta_s],
                "total": len(answer.rows),
                "offset": start,
            }
        )


class CompareExport(CompareView):
    """The rows of a comparison as a file."""

    renderer_classes = (AnyFile,)

    @extend_schema(
        summary="Export a comparison",
        parameters=[RowsQuery],
        responses={
            (200, "text/csv"): OpenApiResponse(OpenApiTypes.BINARY, description="The file."),
            (200, "application/json"): OpenApiResponse(
                OpenApiTypes.OBJECT, description="The rows, with samples, facts and warnings."
            ),
        }
        | problems(
            EXPORT_PROBLEMS
            | {
                404: ["not_found", "export_unknown"],
                422: [*COMPARE_PROBLEMS[422], "export_heavy"],
            }
        ),
        operation_id="profiles_compare_export",
    )
    def get(self, request: Request, name: str) -> HttpResponseBase:
        """All selected rows, as `csv` or `json`; the column names of a profile begin with its
        letter.
        """
        profiles, _, _ = self.chosen(RowsQuery)
        if name not in export.CONTENT_TYPES:
            raise DomainError("export_unknown", status=404)
        response = content_response(
            request._request,
            profiles,
            name,
            export.CONTENT_TYPES[name],
            lambda: export.pieces_of(profiles, request.query_params, name),
        )
        response["Content-Disposition"] = f'attachment; filename="comparison.{name}"'
        return response


class CompareGraph(CompareView):
    """The graph of one of the profiles, for the viewer."""

    @extend_schema(
        summary="Document of a comparison's graph",
        parameters=[ChangeQuery],
        responses={200: NETRON}
        | problems(COMPARE_PROBLEMS | {404: ["not_found", "operator_not_drawn"]}),
        operation_id="profiles_compare_graph",
    )
    def get(self, request: Request) -> HttpResponse:
        """One view of the graph, coloured by the difference, in the format of the site's Netron."""
        compared, compare_request, parameters = self.compared(ChangeQuery)
        scope, row = parameters["scope"], parameters["row"]
        body = graph_document(compared, compare_request, scope=scope, row=row)
        return netron_answer(request._request, body)


class CompareTimelines(CompareView):
    """The timelines of two of the profiles."""

    @extend_schema(
        summary="Data of two timelines",
        parameters=[ComparedTimelinesQuery],
        responses={200: answer_of(ComparedTimelines)}
        | problems(COMPARE_PROBLEMS | {422: [*COMPARE_PROBLEMS[422], "window_bad"]}),
        operation_id="profiles_compare_timelines",
    )
    def get(self, request: Request) -> HttpResponse:
        """At most 8,000 bars of the baseline and of one other profile, in lanes. Bars of one row of
        the comparison belong together.
        """
        compared, compare_request, parameters = self.compared(ComparedTimelinesQuery)
        window = window_of(parameters)
        return json_response(compared_timelines(compared, compare_request, window))


def _step_of(step: WaterfallStep) -> dict[str, Any]:
    times = {name: getattr(step, name) for name in ("delta_s", "from_s", "to_s")}
    return asdict(step) | {name: export.plain_number(time_s) for name, time_s in times.items()}


def _totals_of(compared: ComparisonResult) -> list[TotalsAnswer]:
    return [
        {
            "key": key,
            "baseline_s": export.plain_number(values[0]),
            "others": [
                {
                    "letter": letter(number),
                    "time_s": export.plain_number(value),
                    **export.tested(value - values[0], test, 0),
                    "verdict_advice": verdict_advice(test.code(0)),
                    "equal_runs_differ_by": math.expm1(compared.basis(number, key).allowance),
                    "equal_runs_are": compared.basis(number, key).source,
                }
                for number, (value, test) in enumerate(
                    zip(values[1:], judged, strict=True), start=1
                )
            ],
        }
        for key, values, judged in compared.totals()
    ]
