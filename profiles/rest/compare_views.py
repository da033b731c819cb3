"""Results side by side: rows, totals, waterfall, files; and the values of two tasks."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from django.http import Http404, HttpResponse
from drf_spectacular.utils import OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response

from profiles.analysis.comparison.question import Answer, ask
from profiles.analysis.comparison.waterfall import waterfall
from profiles.comparisons import export
from profiles.comparisons.choosing import candidates, chosen_profiles, problem_of
from profiles.comparisons.dumps import dumps_compare
from profiles.comparisons.loading import Compared, comparison_of
from profiles.comparisons.request import Asked, read_asked
from profiles.models import Profile
from profiles.rest import compare_answers as answers
from profiles.rest.access import NOT_READY, AnyFile, ResultView, written
from profiles.rest.compare_totals import totals_of
from profiles.rest.questions import (
    CandidatesQuery,
    ChosenQuery,
    CompareQuery,
    RowsQuery,
    ValuesQuery,
)
from profiles.selectors import dump_asked, dumps_beside
from webprofile.errors import DomainError
from webprofile.rest.schema import documented

TOGETHER = {**NOT_READY, 422: ["comparison_choice", "comparison_large", "export_question"]}


class CompareView(ResultView):
    """A view of profiles that the address names."""

    def compared(self, query: type[ChosenQuery]) -> tuple[Compared, Asked, Mapping[str, Any]]:
        """The comparison, what is asked of it as the page reads it, and the whole question.

        Raises Http404 if any of the profiles is not there for the reader; DomainError
        comparison_choice, comparison_large.
        """
        wanted = self.asked(query)
        asked = read_asked(self.request.query_params)
        profiles = self._chosen(asked.ids)
        if problem := problem_of(asked.ids):
            raise DomainError("comparison_choice", field="p", status=422, detail=problem)
        if asked.problems:
            detail = " ".join(asked.problems)
            raise DomainError("export_question", status=422, detail=detail)
        return comparison_of(profiles), asked, wanted

    def _chosen(self, ids: Any) -> list[Profile]:
        found = chosen_profiles(self.reader, ids)
        if found is None:
            raise Http404
        return found


class Compare(CompareView):
    """Profiles side by side."""

    @documented(
        "Compare profiles",
        answers={200: answers.CompareAnswer},
        query=CompareQuery,
        errors=TOGETHER,
        operation_id="profiles_compare",
    )
    def get(self, request: Request) -> HttpResponse:
        """2 to 8 profiles, row by row: which operator is which, and how sure each difference is.

        The first comparison of large profiles takes some seconds; its pages do not.
        """
        compared, asked, wanted = self.compared(CompareQuery)
        answer = ask(compared.comparison, asked.question)
        side = asked.question.side
        steps = waterfall(compared.comparison, asked.other, side=side, by=asked.by)
        start, stop = wanted["offset"], wanted["offset"] + wanted["limit"]
        window = replace(answer, rows=answer.rows[start:stop])
        return written(
            export.as_json(compared, asked, window)
            | {
                "common": compared.comparison.common,
                "totals": totals_of(compared),
                "waterfall": [asdict(step) for step in steps],
                "counts": answer.counts,
                "quiet": answer.quiet,
                "quiet_delta_s": answer.quiet_delta_s.tolist(),
                "total": len(answer.rows),
                "offset": start,
            }
        )


class CompareCsv(CompareView):
    """The rows of a comparison as a file."""

    renderer_classes = (AnyFile,)

    @documented(
        "Export a comparison as CSV",
        answers={(200, "text/csv"): OpenApiResponse(str, description="The file.")},
        query=RowsQuery,
        errors=TOGETHER,
        operation_id="profiles_compare_csv",
    )
    def get(self, request: Request) -> HttpResponse:
        """All rows that are asked for; columns of a profile begin with its letter."""
        compared, asked, answer = self._answer()
        text = export.as_csv(compared, asked, answer)
        headers = {"Content-Disposition": 'attachment; filename="comparison.csv"'}
        return HttpResponse(text, content_type="text/csv; charset=utf-8", headers=headers)

    def _answer(self) -> tuple[Compared, Asked, Answer]:
        compared, asked, _ = self.compared(RowsQuery)
        return compared, asked, ask(compared.comparison, asked.question)


class CompareCandidates(CompareView):
    """What can be added to a comparison."""

    @documented(
        "Find profiles to compare",
        answers={200: answers.CandidatesAnswer},
        query=CandidatesQuery,
        operation_id="profiles_compare_candidates",
    )
    def get(self, request: Request) -> Response:
        """Results by words, those of the first chosen one's model first."""
        wanted = self.asked(CandidatesQuery)
        chosen = self._chosen(wanted["p"])
        page = candidates(self.reader, chosen, find=wanted["find"], page=str(wanted["page"]))
        found = {
            "page": page.number,
            "pages": page.paginator.num_pages,
            "total": page.paginator.count,
            "results": [
                {
                    "profile": each.profile.pk,
                    "title": each.title,
                    "origin": each.origin,
                    "kin": each.kin,
                    **_apart(each.profile),
                }
                for each in page.object_list
            ],
        }
        return Response(found)


def _apart(profile: Profile) -> dict[str, Any]:
    """What tells a result from others of its model."""
    if profile.attempt is None:
        return {"task_title": "", "options": []}
    task = profile.attempt.task
    return {"task_title": task.title, "options": task.changed_options}


class ValuesBeside(ResultView):
    """Whose values can be compared with a task's."""

    @documented(
        "Find tasks with values to compare",
        answers={200: answers.BesideAnswer(many=True)},
        operation_id="profiles_values_beside",
    )
    def get(self, request: Request, task_id: int) -> Response:
        """Other tasks of the reader that left a dump of all variables; the newest 50."""
        found = dumps_beside(self.task(task_id), self.reader)
        return Response(
            [
                {
                    "task": task.pk,
                    "model_name": task.model_name,
                    "worker_name": task.worker.name,
                    "runtime_version": task.runtime_version,
                }
                for task in found
            ]
        )


class Values(ResultView):
    """The values of all variables of two tasks."""

    @documented(
        "Compare values of variables",
        answers={200: answers.ValuesAnswer},
        query=ValuesQuery,
        errors={
            404: ["not_found", "dump_missing", "object_missing"],
            410: ["removed_by_rule"],
            422: ["dump_large", "dump_unreadable"],
            503: ["dumps_busy", "storage_unreachable"],
        },
        operation_id="profiles_values",
    )
    def get(self, request: Request, task_id: int, other_id: int) -> HttpResponse:
        """Of two tasks that left dumps (the option `bin_io_dump`), in order of execution."""
        wanted = self.asked(ValuesQuery)
        a, b = (dump_asked(self.task(number)) for number in (task_id, other_id))
        found = dumps_compare(a, b)
        rows = found.rows
        if wanted.get("differing"):
            rows = [row for row in rows if row["status"] != "equal"]
        start = wanted["offset"]
        return written(
            {
                "total": found.total,
                "differing": found.differing,
                "changed": found.changed,
                "ordered": found.ordered,
                "rows_total": len(rows),
                "offset": start,
                "rows": rows[start : start + wanted["limit"]],
            }
        )
