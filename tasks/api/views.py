"""API views that list and create tasks, check requests, and act on one task or on several."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.urls import reverse
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agent.protocol.pairs import MOST_ARMS
from profiles.earlier import earlier_of_request
from profiles.parts import upload_target_of
from profiles.retention.deletion import delete_task, discard_draft, keep_task_files
from profiles.task_figures import figures_of
from tasks.api.serializers import BaselineAnswer, CreatedTask, ListedTask, TaskAnswer
from tasks.baselines import baseline_of, pin_baseline, unpin_baseline
from tasks.filters import TaskFilters
from tasks.lifecycle.cancel import cancel_own_tasks, cancel_task, cancel_tasks, end_early
from tasks.models import Task
from tasks.scheduling import rebinding
from tasks.scheduling.eligibility import RULES, SCRIPT
from tasks.scheduling.fair_share import ANY_PRIORITY
from tasks.scheduling.queue_status import QueueFacts, outlook, queue_facts
from tasks.scheduling.serializers import JudgedAnswer, PlaceAnswer, RefusalAnswer
from tasks.selectors import listed_tasks, visible_tasks
from tasks.states import Status, TaskState
from tasks.submission.copies import (
    check_task,
    compare_tasks_in_pairs,
    confirm_copy,
    copy_sources,
    end_refused,
    repeat_task,
    rows_of,
    upload_request,
)
from tasks.submission.creation import check_initiated, create_task, fail_copy
from tasks.submission.drafts import Draft, draft_of
from tasks.submission.schema import DraftBody, TaskBody, find_worker, task_request_of
from tasks.submission.uploads import check_sources, confirm_task
from tasks.submission.validation import allowed_priority, quota_of
from webprofile import fields
from webprofile.answers import whole
from webprofile.api import idempotency
from webprofile.api.problems import flattened
from webprofile.api.schema import problems
from webprofile.api.uploads import UploadsAnswer
from webprofile.api.views import ApiListView, ApiView, ApiViewSet
from webprofile.errors import DomainError
from workers.models import LONG, Runtime

MOST_AT_ONCE = 500
#: lower than the limit on cancellations, since each file takes a request to storage
MOST_SUBMITTED = 100
#: columns of the device that no answer about a task has
LONG_OF_WORKER = [f"worker__{name}" for name in LONG]
REFUSALS = [
    "invalid", "character_bad", *(rule.refusal for rule in RULES if rule not in SCRIPT), "target_*",
    "one_model_wanted", "too_many_files", "file_*", "checksum_bad", "data_kind_unknown", "input_*",
    "inputs_too_long", "option_*", "plan_*", "shape_*", "dtype_*", "literal_*",
    "priority_bad", "title_bad", "time_limit*", "source_unknown", "source_missing",
    "parts_not_here", "preset_unknown", "script_*", "scripts_*", "one_program_wanted", "model_*",
    "pairing_*",
]  # fmt: skip
#: errors of requests that create a task, and of those that copy an earlier one
CREATION = {
    404: ["object_missing"],
    409: ["idempotency_in_progress", "quota_reached", "storage_full"],
    422: [*REFUSALS, *idempotency.ERRORS],
}
COPY = CREATION | {404: ["not_found", "object_missing"]}


class SubmitQuery(fields.QueryParameters):
    """Whether a task that cannot be submitted is removed."""

    discard = serializers.BooleanField(
        default=False,
        help_text="Remove a task whose files or device cannot be used (422), for a caller that "
        "corrects the request and asks for another task.",
    )


class PairBody(fields.Body):
    """The tasks to compare with a task in pairs of processes."""

    others = fields.List(
        child=fields.Key(),
        min_length=1,
        max_length=MOST_ARMS - 1,
        help_text="Numbers of the tasks that are the arms after the baseline.",
    )


class MoveBody(fields.Body):
    """The device to move a task to."""

    worker = fields.Named(help_text="The device, by number or name.")


class TaskChange(fields.Body):
    """Changes to a task that has not started."""

    priority = fields.Integer(
        min_value=-ANY_PRIORITY,
        max_value=ANY_PRIORITY,
        help_text="Tasks with a higher priority run first among those of their owner.",
    )


class KeepBody(fields.Body):
    """Whether the files of a task are exempt from retention rules."""

    keep = fields.Flag(help_text="True to exempt the files of this task from retention rules.")


class PinBody(fields.Body):
    """Whether a task is the baseline of its model and device."""

    pin = fields.Flag(
        help_text="True to make this task the baseline of its owner's tasks of the same model and "
        "device, instead of the previous one; false to remove the pin."
    )


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
        default=list,
        max_length=MOST_AT_ONCE,
        help_text="Numbers of tasks; what is not yours or has ended is passed over.",
    )
    all_mine = fields.Flag(default=False, help_text="All tasks of the user that have not ended.")

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
        help_text="Reason why it was not submitted, or null.",
    )


class SubmittedAnswer(serializers.Serializer):
    """The result for each task, in the order of the request."""

    tasks = SubmittedTask(many=True, help_text="Tasks of the user.")
    unknown = whole("The task does not exist, or you don't have access.")


class CancelledAnswer(serializers.Serializer):
    """The result for each task, in the order of the request."""

    cancelled = whole("Cancelled, or being cancelled.")
    ended = whole("Had already ended.")
    unknown = whole("The task does not exist, or you don't have access.")


@extend_schema_view(get=extend_schema(summary="List tasks", operation_id="tasks_list"))
class TaskList(ApiListView):
    """The tasks of the user; administrators see all tasks."""

    queryset = Task.objects.all()
    serializer_class = ListedTask
    filterset_class = TaskFilters

    def get_queryset(self) -> QuerySet[Task]:
        return listed_tasks(self.request.user)

    def paginate_queryset(self, queryset: Any) -> Any:
        page = super().paginate_queryset(queryset)
        self.figures = figures_of(page or [])
        return page

    def get_serializer_context(self) -> dict[str, Any]:
        return {**super().get_serializer_context(), "figures": getattr(self, "figures", {})}

    @extend_schema(
        summary="Create a task",
        request=TaskBody,
        responses={201: CreatedTask} | problems(CREATION),
        parameters=[idempotency.PARAMETER],
        operation_id="tasks_create",
    )
    def post(self, request: Request) -> Response:
        """Validate the request, create the task and return a presigned URL for each file.

        Send each file with `PUT` to its URL, then submit the task. To repeat a task with changes,
        name its files with `from_file`: they are copied, and nothing has to be uploaded.
        """
        body = TaskBody.read(request.data)
        with idempotency.once(self.request) as use:
            task = self._make(body, use)
        row = visible_tasks(self.request.user).get(pk=task.pk)
        is_open = row.state == TaskState.INITIATED
        answer = TaskAnswer(row).data | {"uploads": upload_targets(row) if is_open else []}
        headers = {"Location": reverse("api:task", args=[task.pk])}
        return Response(answer, status=201, headers=headers)

    def _make(self, body: dict[str, Any], use: idempotency.KeyClaim) -> Task:
        """Create the task, or complete that of an earlier request with the same key, which may have
        died before it had copied all files.
        """
        user, task = self.request.user, use.task
        if task is not None and not _lacks_copies(task, body["files"]):
            return task
        request = task_request_of(body, user)
        if task is None:
            worker = find_worker(body["worker"])
            check_sources(request.files)
            with transaction.atomic():
                task = create_task(owner=user, worker=worker, request=request)
                use.keep(task)
        else:
            use.resume()
        copy_sources(task, request.files)
        return task


def _lacks_copies(task: Task, files: Sequence[Mapping[str, Any]]) -> bool:
    """Whether files that a new task takes over from earlier ones have not been copied yet.

    files: those of the request, as validated data
    """
    rows = rows_of(task, map(upload_request, files))
    return task.state == TaskState.INITIATED and any(
        (file["from_file"] or file["from_task"]) and row.stored_at is None
        for file, row in zip(files, rows, strict=True)
    )


class TasksJudge(ApiView):
    """Check a request without creating a task."""

    @extend_schema(
        summary="Judge a request",
        request=DraftBody,
        responses=JudgedAnswer,
        parameters=[idempotency.CHECK_PARAMETER],
        operation_id="tasks_judge",
    )
    def post(self, request: Request) -> Response:
        """Check a request, which may be incomplete, without creating a task.

        The response holds the error that would refuse it, all errors in the fields that are
        present, the device, the commands that would run there, the expected wait, and an earlier
        result of the same, if the request has the checksums of all files. If fields
        have the wrong structure or type, the refusal is `invalid`, the errors are those of the
        fields, and nothing else is checked.
        """
        body = DraftBody(data=request.data)
        user = self.request.user
        is_read = body.is_valid()
        draft = (
            draft_of(body.validated_data, user)
            if is_read
            else Draft(refusal=DomainError("invalid"))
        )
        runtime = draft.admitted.runtime if draft.admitted else None
        answer = vars(draft) | {
            "worker": runtime.worker_id if runtime else None,
            "runtime_version": runtime.version if runtime else "",
            "queue": self._queue(runtime, body.validated_data) if runtime else None,
            "quota": quota_of(user)._asdict(),
            # a repeated request returns its own task
            "earlier": None
            if idempotency.has_task(self.request)
            else earlier_of_request(user, draft.request, draft.admitted),
        }
        if not is_read:
            answer["problems"] = flattened(body.errors)
        return Response(JudgedAnswer(answer).data)

    def _queue(self, runtime: Runtime, body: dict[str, Any]) -> QueueFacts:
        user = self.request.user
        return outlook(
            runtime.worker,
            runtime.version,
            owner=user,
            priority=allowed_priority(user, body["priority"]),
            is_script=body["script"] is not None,
        )


class OneTask(ApiViewSet):
    """Base of the views of one task."""

    def get_object(self) -> Task:
        """Return the task if the user may see it. Raises Http404."""
        tasks = visible_tasks(self.request.user).defer(*LONG_OF_WORKER)
        return get_object_or_404(tasks, pk=self.kwargs["task_id"])


class TaskViewSet(OneTask):
    """One task."""

    @extend_schema(summary="Show a task", responses=TaskAnswer, operation_id="tasks_show")
    def retrieve(self, request: Request, task_id: int) -> Response:
        """Return the task without its events, its log and its results."""
        return Response(TaskAnswer(self.get_object()).data)

    @extend_schema(
        summary="Delete a task",
        responses={204: None} | problems({409: ["task_live"]}),
        operation_id="tasks_delete",
    )
    def destroy(self, request: Request, task_id: int) -> Response:
        """Delete a task that has ended, with its results; its files leave storage soon after."""
        delete_task(self.get_object(), by=self.request.user)
        return Response(status=204)

    @extend_schema(
        summary="Renew upload addresses",
        request=None,
        responses={200: UploadsAnswer} | problems({409: ["not_initiated"]}),
    )
    def uploads(self, request: Request, task_id: int) -> Response:
        """Return new presigned URLs, for an upload that was interrupted or whose URL has expired.

        For a file in parts, the response lists the parts that have arrived.
        """
        task = self.get_object()
        check_initiated(task)
        return Response({"uploads": upload_targets(task)})

    @extend_schema(
        summary="Submit a task",
        parameters=[SubmitQuery],
        request=None,
        responses={200: TaskAnswer}
        | problems(
            {
                400: ["query_invalid"],
                409: ["upload_missing", "upload_damaged", "storage_full"],
                422: ["input_*", "dtype_not_here", "script_*", "model_*", "scripts_*"],
            }
        ),
    )
    def submit(self, request: Request, task_id: int) -> Response:
        """Verify size and checksum of all files and put the task into the queue.

        A task that was submitted before, or has ended, is returned unchanged. A task fails if the
        content of a file does not match its kind.
        """
        query = SubmitQuery.read(request.query_params)
        task = self.get_object()
        is_open, events = task.state == TaskState.INITIATED, task.event_seq
        try:
            confirm_task(task)
        except DomainError as error:
            if query["discard"] and error.status == HTTPStatus.UNPROCESSABLE_ENTITY:
                discard_draft(task)
            else:
                end_refused(task, error)
            raise
        # if this call moved the task, it has no attempts yet, which saves a query
        is_new = is_open and task.event_seq == events + 1 and task.state == TaskState.WAITING
        return Response(TaskAnswer(task, context={"attempts": ()} if is_new else {}).data)

    @extend_schema(summary="Cancel a task", request=None, responses=TaskAnswer)
    def cancel(self, request: Request, task_id: int) -> Response:
        """Cancel a task. One that runs ends within seconds; one that has ended does not change."""
        cancel_task(self.get_object(), by=self.request.user)
        return self.retrieve(request, task_id)

    @extend_schema(
        summary="End a run early",
        request=None,
        responses={200: TaskAnswer}
        | problems({409: ["enough_nothing", "enough_old_agent", "enough_script"]}),
    )
    def enough(self, request: Request, task_id: int) -> Response:
        """End the run of a task after its current pass or pair, and keep what was measured as its
        result.

        A task whose run has ended, or is being cancelled, does not change.
        """
        end_early(self.get_object(), by=self.request.user)
        return self.retrieve(request, task_id)

    @extend_schema(
        summary="Repeat a task",
        request=None,
        responses={201: TaskAnswer}
        | problems(COPY | {404: [*COPY[404], "task_gone"], 409: ["not_ended", *COPY[409]]}),
        parameters=[idempotency.PARAMETER],
    )
    def retry(self, request: Request, task_id: int) -> Response:
        """Create and submit a task of the user with the request and the files of a task that has
        ended. A second request within 5 s returns the same task while it has not ended.
        """
        task, user = self.get_object(), self.request.user
        return self._create(lambda keep: repeat_task(task, owner=user, keep=keep)[0])

    @extend_schema(
        summary="Compare tasks in pairs",
        request=PairBody,
        responses={201: TaskAnswer} | problems(COPY),
        parameters=[idempotency.PARAMETER],
    )
    def compare_paired(self, request: Request, task_id: int) -> Response:
        """Create and submit a paired comparison of what this task, the baseline, and others ran.

        It runs on the device of this task, with copies of the files. Options that a paired
        comparison does not accept, such as those that print or write files, are left out.
        """
        task, user = self.get_object(), self.request.user
        body = PairBody.read(request.data)
        others = [get_object_or_404(visible_tasks(user), pk=number) for number in body["others"]]
        return self._create(partial(compare_tasks_in_pairs, [task, *others], owner=user))

    @extend_schema(
        summary="Check a result",
        request=None,
        responses={201: TaskAnswer} | problems(COPY | {409: ["check_latency", *COPY[409]]}),
        parameters=[idempotency.PARAMETER],
    )
    def check(self, request: Request, task_id: int) -> Response:
        """Create and submit a task that measures the latency of a task again in a few seconds.

        It runs on the same device with copies of the files. Its page says whether the latency
        differs by more than that of equal runs.
        """
        return self._create(partial(check_task, self.get_object(), owner=self.request.user))

    def _create(self, create: Callable[..., Task]) -> Response:
        """Return the task that this request creates, or that of an earlier one with the same key.

        create: function with the parameter `keep` of `repeat_task`
        """
        with idempotency.once(self.request) as use:
            task = self._made(use.task, use) if use.task else None
            task = task or create(keep=use.keep)
        row = visible_tasks(self.request.user).defer(*LONG_OF_WORKER).get(pk=task.pk)
        return Response(TaskAnswer(row).data, status=201)

    def _made(self, task: Task, use: idempotency.KeyClaim) -> Task | None:
        """Return the task of an earlier request with the same key, and complete it if needed.

        None if the earlier request died before it had copied the files; its task then fails.
        """
        if task.state == TaskState.INITIATED:
            if task.files.filter(stored_at=None).exists():
                use.take_over()
                fail_copy(task)
                return None
            use.go_on()
            confirm_copy(task)
        return task

    @extend_schema(summary="Show the queue", responses=PlaceAnswer)
    def queue(self, request: Request, task_id: int) -> Response:
        """Return the position of a waiting task, its expected wait, the causes, and devices on
        which it would start sooner.
        """
        facts = queue_facts(self.get_object(), reader=self.request.user)
        return Response(PlaceAnswer({"queue": facts}).data)

    @extend_schema(
        summary="Move a task",
        request=MoveBody,
        responses={200: TaskAnswer}
        | problems({409: ["not_waiting", "check_stays"], 422: REFUSALS}),
    )
    def move(self, request: Request, task_id: int) -> Response:
        """Move a waiting task to another device that has the same version of MegEngine."""
        task = self.get_object()
        body = MoveBody.read(request.data)
        worker = find_worker(body["worker"])
        if worker is None:
            raise DomainError("worker_unknown", field="worker")
        rebinding.move_task(task, to=worker, by=self.request.user)
        return self.retrieve(request, task_id)

    @extend_schema(
        summary="Change the priority",
        request=TaskChange,
        responses={200: TaskAnswer}
        | problems({409: ["not_waiting"], 422: ["invalid", "priority_bad"]}),
    )
    def prioritize(self, request: Request, task_id: int) -> Response:
        """Change the priority of a task that has not started."""
        task = self.get_object()
        body = TaskChange.read(request.data)
        rebinding.prioritize_task(task, **body, by=self.request.user)
        return self.retrieve(request, task_id)

    @extend_schema(summary="Keep the files of a task", request=KeepBody, responses=TaskAnswer)
    def keep_files(self, request: Request, task_id: int) -> Response:
        """Exempt the files of a task from retention rules, or revoke the exemption; results are
        always kept.
        """
        task = self.get_object()
        body = KeepBody.read(request.data)
        keep_task_files(task, **body, by=self.request.user)
        return self.retrieve(request, task_id)

    @extend_schema(summary="Show the baseline", responses=BaselineAnswer)
    def baseline(self, request: Request, task_id: int) -> Response:
        """Return the pinned baseline of a task's owner, model and device."""
        return Response(BaselineAnswer({"baseline": baseline_of(self.get_object())}).data)

    @extend_schema(
        summary="Pin a baseline",
        request=PinBody,
        responses={200: BaselineAnswer} | problems({409: ["baseline_result"]}),
    )
    def pin(self, request: Request, task_id: int) -> Response:
        """Pin a task that has succeeded as the baseline of its model and device, or unpin it.

        Models are identified by their file names. Each owner has one baseline per model and device.
        """
        task = self.get_object()
        change = pin_baseline if PinBody.read(request.data)["pin"] else unpin_baseline
        change(task, by=self.request.user)
        return self.baseline(request, task_id)


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


def upload_targets(task: Task) -> list[dict[str, Any]]:
    """Return upload URLs for the files not yet in storage.

    Raises DomainError as `upload_target_of`.
    """
    return [
        {"file": file.pk, **target}
        for file in task.files.filter(stored_at=None)
        if (target := upload_target_of(file))
    ]
