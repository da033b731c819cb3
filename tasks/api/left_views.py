"""API views of a task's output: events, log and artifacts; and of its uploaded files."""

from typing import Any

from django.db.models import F, Q
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from profiles.retention.deletion import refuse_removed
from tasks.api.serializers import ArtifactAnswer, EventsAnswer
from tasks.api.views import OneTask
from tasks.models import Artifact, Attempt, LogChunk, Task
from tasks.selectors import events_after, last_attempt
from webprofile import fields
from webprofile.api.schema import REDIRECT, problems
from webprofile.storage import storage

NEXT_OFFSET = OpenApiParameter(
    "Log-Next-Offset",
    int,
    OpenApiParameter.HEADER,
    response=[200],
    description="Value of `offset` for the next request, bytes.",
)


class PlainText(BaseRenderer):
    """A renderer that lets `Accept: text/plain` match; the view itself produces the text."""

    media_type = "text/plain"
    format = "txt"

    def render(self, data: Any, *args: Any, **kwargs: Any) -> bytes:
        return str(data).encode()


class EventsQuery(fields.QueryParameters):
    """The number of the last event that the caller has."""

    after = fields.Whole(default=0, help_text="Events after this number.")
    limit = fields.Whole(default=200, min_value=1, max_value=1000, help_text="Maximum number.")


class AttemptQuery(fields.QueryParameters):
    """Selects an attempt."""

    attempt = fields.Whole(
        required=False,
        min_value=1,
        max_value=32767,
        help_text="Number of the attempt; the last one if not given.",
    )


class LogQuery(AttemptQuery):
    """Selects an attempt and a part of its log."""

    offset = fields.Whole(default=0, help_text="Offset in bytes of UTF-8, from `Log-Next-Offset`.")


class TaskOutputViewSet(OneTask):
    """The output of a task, and its uploaded files."""

    @extend_schema(summary="List events", parameters=[EventsQuery], responses=EventsAnswer)
    def events(self, request: Request, task_id: int) -> Response:
        """Return the events after a number, in order; pass `last_seq` as the next `after`."""
        task = self.get_object()
        query = EventsQuery.read(request.query_params)
        after, limit = query["after"], query["limit"]
        rows = list(events_after(task, after)[: limit + 1])
        events = rows[:limit]
        answer = {
            "results": events,
            "last_seq": events[-1].seq if events else after,
            "is_complete": len(rows) == len(events),
        }
        return Response(EventsAnswer(answer).data)

    @extend_schema(
        summary="Read a log",
        parameters=[LogQuery, NEXT_OFFSET],
        responses={(200, "text/plain"): OpenApiResponse(str, description="The log's text.")},
    )
    def log(self, request: Request, task_id: int) -> HttpResponse:
        """Return the log from a byte offset on; it grows while the task runs. It is empty for an
        attempt without a log and for a task without an attempt.
        """
        query = LogQuery.read(request.query_params)
        offset = query["offset"]
        attempt = attempt_of(self.get_object(), query.get("attempt"))
        text, end = log_from(attempt, offset) if attempt else ("", offset)
        headers = {"Log-Next-Offset": str(end)}
        return HttpResponse(text, content_type="text/plain; charset=utf-8", headers=headers)

    @extend_schema(summary="List artifacts", responses=ArtifactAnswer(many=True))
    def artifacts(self, request: Request, task_id: int) -> Response:
        """List the artifacts of all attempts, including those that a rule removed."""
        task = self.get_object()
        known = Q(is_stored=True) | Q(removed_at__isnull=False)
        artifacts = Artifact.objects.filter(known, attempt__task=task)
        rows = artifacts.select_related("attempt").order_by("attempt__number", "name")
        return Response(ArtifactAnswer(rows, many=True).data)

    @extend_schema(
        summary="Download an artifact",
        parameters=[AttemptQuery],
        responses=REDIRECT | problems({410: ["removed_by_rule"]}),
    )
    def artifact(self, request: Request, task_id: int, name: str) -> HttpResponse:
        """Redirect to a presigned URL of storage; send no `Authorization` header to it."""
        task = self.get_object()
        query = AttemptQuery.read(request.query_params)
        attempt = attempt_of(task, query.get("attempt"))
        row = Artifact.objects.filter(attempt=attempt, name=name).first()
        refuse_removed(row)
        if attempt is None or row is None or not row.is_stored:
            raise Http404
        return redirect(storage.presign_get(row.object_key, filename=f"task-{task.pk}-{name}"))

    @extend_schema(
        summary="Download a file of a task",
        responses=REDIRECT | problems({410: ["removed_by_rule"]}),
    )
    def file(self, request: Request, task_id: int, file_id: int) -> HttpResponse:
        """Redirect to a presigned URL of storage; send no `Authorization` header to it."""
        return redirect_to_file(self.get_object(), file_id)


def redirect_to_file(task: Task, file_id: int) -> HttpResponse:
    """Redirect to a file of a task in storage.

    Raises Http404, and DomainError removed_by_rule.
    """
    row = get_object_or_404(task.files.all(), pk=file_id)
    refuse_removed(row)
    if not row.is_stored:
        raise Http404
    return redirect(storage.presign_get(row.object_key, filename=row.name))


def attempt_of(task: Task, number: int | None) -> Attempt | None:
    """Return the attempt with this number, or the last one by default; None if there is none yet.

    Raises Http404 for a number that does not exist.
    """
    if number is None:
        return last_attempt(task)
    return get_object_or_404(task.attempts, number=number)


def log_from(attempt: Attempt, offset: int) -> tuple[str, int]:
    """Return the log from a byte offset on, and its current end; drops an incomplete character."""
    end, parts = offset, list[str]()
    chunks = LogChunk.objects.filter(attempt=attempt, offset__gt=offset - F("size"))
    for chunk in chunks.order_by("offset"):
        raw = chunk.text.encode()
        parts.append(raw[max(0, offset - chunk.offset) :].decode(errors="ignore"))
        end = chunk.offset + chunk.size
    return "".join(parts), end
