"""The list of tasks, and each of them."""

from http import HTTPStatus
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from profiles.removal import draft_discard, task_delete
from profiles.task_files import sources_check, task_confirm, upload_targets
from tasks import services
from tasks.asking.request import TaskRequest
from tasks.models import Task
from tasks.queue.eligibility import RULES, SCRIPT
from tasks.rest.answers import (
    CreatedTask,
    TaskAnswer,
    TaskRow,
    UploadsAnswer,
)
from tasks.rest.bodies import SubmitQuery
from tasks.rest.filters import TaskFilters
from tasks.selectors import tasks_listed_for, tasks_visible_to
from tasks.states import TaskState
from tasks.submission.files import copy_confirm, copy_sources, end_refused, task_repeat
from tasks.submission.schema import TaskBody, request_asked, worker_asked
from webprofile.errors import DomainError
from webprofile.rest import idempotency
from webprofile.rest.schema import documented
from webprofile.rest.views import ApiListView, ApiView
from workers.models import LONG

#: columns of the device that no answer about a task has
LONG_OF_WORKER = [f"worker__{name}" for name in LONG]
REFUSALS = [
    "invalid", *(rule.refusal for rule in RULES if rule not in SCRIPT), "target_*",
    "one_model_wanted", "too_many_files", "file_*", "checksum_bad", "data_kind_unknown", "input_*",
    "inputs_too_long", "option_*", "plan_*", "seed_bad", "shape_*", "dtype_*", "literal_*",
    "priority_bad", "title_bad", "time_limit*", "source_unknown", "source_missing", "agent_old*",
    "parts_not_here", "script_*", "scripts_*", "one_program_wanted", "model_is_script",
]  # fmt: skip


class TaskView(ApiView):
    """What one task's views share."""

    def task(self, task_id: int) -> Task:
        """The task, if it exists for the reader. Raises Http404."""
        return get_object_or_404(tasks_visible_to(self.reader).defer(*LONG_OF_WORKER), pk=task_id)

    def shown(self, task: Task, *, status: int = 200) -> Response:
        """The answer that shows a task as it is now."""
        return Response(TaskAnswer(self.task(task.pk)).data, status=status)

    def shown_submitted(self, task: Task, *, before: int | None) -> Response:
        """The same of one that this request read: the rest of it is as it was.

        before: number of its last event when it was not submitted yet; None: it was
        """
        # one event later it waits, and nothing was tried
        is_new = before is not None and task.event_seq == before + 1
        context = {"attempts": ()} if is_new and task.state == TaskState.WAITING else {}
        return Response(TaskAnswer(task, context=context).data)


class TaskList(ApiListView):
    """Tasks."""

    serializer_class = TaskRow
    filterset_class = TaskFilters

    def rows(self) -> QuerySet[Task]:
        return tasks_listed_for(self.reader)

    @documented("List tasks", answers={200: TaskRow(many=True)}, operation_id="tasks_list")
    def get(self, request: Request) -> Response:
        """One's own tasks; an administrator sees all."""
        return self.list(request)

    @documented(
        "Ask for a task",
        body=TaskBody,
        answers={201: CreatedTask},
        errors={
            404: ["object_missing"],
            409: ["idempotency_in_progress", "quota_reached"],
            422: [*REFUSALS, *idempotency.ERRORS],
        },
        parameters=[idempotency.PARAMETER],
        operation_id="tasks_create",
    )
    def post(self, request: Request) -> Response:
        """Judges the request and answers with an address for each file that is to be uploaded.

        Send each file by `PUT` to its address, then submit the task. To repeat a task with changes,
        name its files by `from_file`: they are copied, and nothing has to be uploaded.
        """
        body = self.read(TaskBody)
        with idempotency.once(request, self.reader) as use:
            task = use.task or self._make(body, use)
        shown = tasks_visible_to(self.reader).get(pk=task.pk)
        is_open = shown.state == TaskState.INITIATED
        answer = TaskAnswer(shown).data | {"uploads": upload_targets(shown) if is_open else []}
        headers = {"Location": reverse("api:task", args=[task.pk])}
        return Response(answer, status=201, headers=headers)

    def _make(self, body: dict[str, Any], use: idempotency.Once) -> Task:
        asked: TaskRequest = request_asked(body, self.reader)
        worker = worker_asked(body["worker"])
        sources_check(asked.files)
        with transaction.atomic():
            task = services.task_create(owner=self.reader, worker=worker, request=asked)
            use.keep(task)
        copy_sources(task, asked.files)
        return task


class TaskDetail(TaskView):
    """One task."""

    @documented("Show a task", answers={200: TaskAnswer}, operation_id="tasks_show")
    def get(self, request: Request, task_id: int) -> Response:
        """All about a task but its events, its log and its results."""
        return self.shown(self.task(task_id))

    @documented(
        "Delete a task",
        answers={204: None},
        errors={409: ["task_live"]},
        operation_id="tasks_delete",
    )
    def delete(self, request: Request, task_id: int) -> Response:
        """A task that has ended, with its results; its files leave storage soon after."""
        task_delete(self.task(task_id), by=self.reader)
        return Response(status=204)


class TaskUploads(TaskView):
    """Addresses for files."""

    @documented(
        "Renew upload addresses",
        answers={200: UploadsAnswer},
        errors={409: ["not_initiated"]},
        operation_id="tasks_uploads",
    )
    def post(self, request: Request, task_id: int) -> Response:
        """For an upload that broke, or took longer than its address lives; of files in parts it
        says which parts have arrived.
        """
        task = self.task(task_id)
        services.initiated_check(task)
        return Response({"uploads": upload_targets(task)})


class TaskSubmit(TaskView):
    """The end of the uploads."""

    @documented(
        "Submit a task",
        query=SubmitQuery,
        answers={200: TaskAnswer},
        errors={
            400: ["query_invalid"],
            409: ["upload_missing", "upload_damaged", "not_initiated"],
            422: ["input_*", "dtype_not_here", "script_*", "model_is_script", "scripts_*"],
        },
        operation_id="tasks_submit",
    )
    def post(self, request: Request, task_id: int) -> Response:
        """Looks whether all files arrived whole, and puts the task into the queue.

        Repeating it changes nothing. A task with a file that cannot be what it was sent as fails.
        """
        is_discarded = self.query(SubmitQuery)["discard"]
        task = self.task(task_id)
        before = task.event_seq if task.state == TaskState.INITIATED else None
        try:
            task_confirm(task)
        except DomainError as error:
            if is_discarded and error.status == HTTPStatus.UNPROCESSABLE_ENTITY:
                draft_discard(task)
            else:
                end_refused(task, error)
            raise
        return self.shown_submitted(task, before=before)


class TaskCancel(TaskView):
    """The end of one task."""

    @documented("Cancel a task", answers={200: TaskAnswer}, operation_id="tasks_cancel")
    def post(self, request: Request, task_id: int) -> Response:
        """A task on a device ends within seconds; one that has ended stays as it is."""
        task = self.task(task_id)
        services.task_cancel(task)
        return self.shown(task)


class TaskRetry(TaskView):
    """The same once more."""

    @documented(
        "Repeat a task",
        answers={201: TaskAnswer},
        errors={
            404: ["not_found", "object_missing", "task_gone"],
            409: ["idempotency_in_progress", "not_ended", "quota_reached"],
            422: ["file_gone", *REFUSALS, *idempotency.ERRORS],
        },
        parameters=[idempotency.PARAMETER],
        operation_id="tasks_retry",
    )
    def post(self, request: Request, task_id: int) -> Response:
        """A new task of the reader's with the request and files of one that has ended, submitted
        at once.
        """
        origin = self.task(task_id)
        with idempotency.once(request, self.reader) as use:
            task = self._made(use.task, use) if use.task else None
            task = task or task_repeat(origin, owner=self.reader, keep=use.keep)[0]
        return self.shown(task, status=201)

    def _made(self, task: Task, use: idempotency.Once) -> Task | None:
        """What an earlier request with the key made, None if its process died too soon for that."""
        if task.state == TaskState.INITIATED:
            if task.files.filter(stored_at=None).exists():
                use.take_over()
                services.task_copy_failed(task)
                return None
            use.go_on()
            copy_confirm(task)
        return task
