"""API views that submit or cancel several tasks in one request."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from tasks.api.views import LONG_OF_WORKER
from tasks.lifecycle.cancel import cancel_own_tasks, cancel_tasks
from tasks.scheduling.serializers import RefusalAnswer
from tasks.selectors import visible_tasks
from tasks.states import Status
from tasks.submission.copies import end_refused
from tasks.submission.uploads import confirm_task
from webprofile import fields
from webprofile.api.schema import problems
from webprofile.api.views import ApiViewSet
from webprofile.errors import DomainError

MOST_AT_ONCE = 500
#: lower than the limit on cancellations, since each file takes a request to storage
MOST_SUBMITTED = 100


class SubmitBody(fields.Body):
    """The tasks to submit."""

    tasks = fields.List(
        child=fields.Key(),
        min_length=1,
        max_length=MOST_SUBMITTED,
        help_text="Numbers of tasks whose files were uploaded.",
    )


class CancelBody(fields.Body):
    """The tasks to cancel: some, or all of the user's; exactly one of the two is given."""

    tasks = fields.List(
        child=fields.Key(),
        required=False,
        default=list,
        max_length=MOST_AT_ONCE,
        help_text="Numbers of tasks; what is not yours or has ended is passed over.",
    )
    all_mine = fields.Flag(
        required=False, default=False, help_text="All of your own that have not ended."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if bool(attrs["tasks"]) is attrs["all_mine"]:
            raise DomainError("cancel_which", field="tasks")
        return attrs


class SubmittedTask(serializers.Serializer):
    """The result of submitting one task."""

    id = serializers.IntegerField(help_text="Its number.")
    status = serializers.ChoiceField(Status.choices, help_text="Its status now.")
    refusal = RefusalAnswer(
        allow_null=True,
        help_text="Why it was not put into the queue; null if it is, or was before.",
    )


class SubmittedAnswer(serializers.Serializer):
    """The result for each task, in the order of the request."""

    tasks = SubmittedTask(many=True, help_text="Those that are yours.")
    unknown = serializers.ListField(
        child=serializers.IntegerField(), help_text="There is no such task, or it is not yours."
    )


class CancelledAnswer(serializers.Serializer):
    """The result for each task, in the order of the request."""

    cancelled = serializers.ListField(
        child=serializers.IntegerField(), help_text="Ended, or told to end."
    )
    ended = serializers.ListField(
        child=serializers.IntegerField(), help_text="Had ended otherwise before."
    )
    unknown = serializers.ListField(
        child=serializers.IntegerField(), help_text="There is no such task, or it is not yours."
    )


class TasksViewSet(ApiViewSet):
    """Several tasks."""

    @extend_schema(summary="Submit several tasks", request=SubmitBody, responses=SubmittedAnswer)
    def submit_several(self, request: Request) -> Response:
        """Verify the files of each task and put it into the queue. A refused task does not affect
        the others, and repeating the request changes nothing.
        """
        body = SubmitBody.read(request.data)
        requested = list(dict.fromkeys(body["tasks"]))
        rows = visible_tasks(self.request.user).defer(*LONG_OF_WORKER)
        by_id = {task.pk: task for task in rows.filter(pk__in=requested)}
        tasks = [by_id[number] for number in requested if number in by_id]
        refused = dict[int, DomainError]()
        for task in tasks:
            try:
                confirm_task(task)
            except DomainError as error:
                if error.code == "storage_unreachable":
                    raise
                refused[task.pk] = error
                end_refused(task, error)
        answer: dict[str, Any] = {
            "tasks": [
                {"id": task.pk, "status": task.status, "refusal": refused.get(task.pk)}
                for task in tasks
            ],
            "unknown": [number for number in requested if number not in by_id],
        }
        return Response(SubmittedAnswer(answer).data)

    @extend_schema(
        summary="Cancel several tasks",
        request=CancelBody,
        responses={200: CancelledAnswer} | problems({422: ["invalid", "cancel_which"]}),
    )
    def cancel_several(self, request: Request) -> Response:
        """Cancel tasks by number, or all tasks of the user."""
        body = CancelBody.read(request.data)
        if body["all_mine"]:
            report = cancel_own_tasks(owner=self.request.user)
        else:
            report = cancel_tasks(body["tasks"], by=self.request.user)
        return Response(CancelledAnswer(report).data)
