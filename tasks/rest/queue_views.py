"""Queues: the place of a task, moving it, and what would become of a request."""

from typing import Any

from django.db.models import QuerySet
from django.http import QueryDict
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import AccessToken
from profiles.removal import task_keep_files
from tasks import saved_views
from tasks.asking.admission import allowed_priority, quota_of
from tasks.listing.filters import TaskFilterForm
from tasks.models import SavedView
from tasks.queue import rebinding
from tasks.queue.facts import facts_of, outlook
from tasks.rest.answers import SavedAnswer, SavedViewAnswer, TaskAnswer
from tasks.rest.bodies import (
    KeepBody,
    MoveBody,
    SavedViewBody,
    TaskChange,
)
from tasks.rest.queue_answers import JudgedAnswer, PlaceAnswer
from tasks.rest.views import REFUSALS, TaskView
from tasks.submission.judging import admission_of, draft_of
from tasks.submission.schema import DraftBody, worker_asked
from webprofile.errors import DomainError
from webprofile.rest.schema import documented
from webprofile.rest.views import ApiListView, ApiView


class TasksJudge(ApiView):
    """What would become of a request."""

    scope = AccessToken.Scope.READ  # it changes nothing

    @documented(
        "Judge a request",
        body=DraftBody,
        answers={200: JudgedAnswer},
        operation_id="tasks_judge",
    )
    def post(self, request: Request) -> Response:
        """Says of a request for a task, without making it, whether it would be refused, all that is
        wrong with it as far as it is written, where it would go, what would run there and how long
        it would wait.
        """
        body = self.read(DraftBody)
        draft = draft_of(body, self.reader)
        answer: dict[str, Any] = {
            "refusal": None,
            "problems": draft.problems,
            "worker": None,
            "runtime_version": "",
            "commands": draft.commands,
            "unavailable": draft.unavailable,
            "libraries": draft.libraries,
            "queue": None,
            "quota": quota_of(self.reader)._asdict(),
        }
        try:
            answer |= self._judged(body)
        except DomainError as error:
            answer["refusal"] = error
        return Response(JudgedAnswer(answer).data)

    def _judged(self, body: dict[str, Any]) -> dict[str, Any]:
        found = admission_of(body, self.reader)
        return {
            "worker": found.worker.pk,
            "runtime_version": found.runtime_version,
            "queue": outlook(
                found.worker,
                found.runtime_version,
                owner=self.reader,
                priority=allowed_priority(self.reader, body["priority"]),
                is_script=body["script"] is not None,
            ),
        }


class TaskQueue(TaskView):
    """A task's place."""

    @documented("Show the queue", answers={200: PlaceAnswer}, operation_id="tasks_queue")
    def get(self, request: Request, task_id: int) -> Response:
        """The place of a waiting task, how long it may take, why it waits, and where it would
        start sooner.
        """
        facts = facts_of(self.task(task_id), reader=self.reader)
        return Response(PlaceAnswer({"queue": facts}).data)


class TaskMove(TaskView):
    """Another device."""

    @documented(
        "Move a task",
        body=MoveBody,
        answers={200: TaskAnswer},
        errors={409: ["not_waiting"], 422: REFUSALS},
        operation_id="tasks_move",
    )
    def post(self, request: Request, task_id: int) -> Response:
        """Lets a waiting task wait for another device, with the same version of MegEngine."""
        task = self.task(task_id)
        worker = worker_asked(self.read(MoveBody)["worker"])
        if worker is None:
            raise DomainError("worker_unknown", field="worker")
        rebinding.task_move(task, to=worker)
        return self.shown(task)


class TaskPriority(TaskView):
    """The place among one's own tasks."""

    @documented(
        "Change the priority",
        body=TaskChange,
        answers={200: TaskAnswer},
        errors={409: ["not_waiting"], 422: ["invalid", "priority_bad"]},
        operation_id="tasks_prioritize",
    )
    def post(self, request: Request, task_id: int) -> Response:
        """Of a task that has not started."""
        task = self.task(task_id)
        priority = self.read(TaskChange)["priority"]
        rebinding.task_prioritize(task, priority=priority, by=self.reader)
        return self.shown(task)


class TaskKeepFiles(TaskView):
    """Whether rules leave a task's files alone."""

    @documented(
        "Keep the files of a task",
        body=KeepBody,
        answers={200: TaskAnswer},
        errors={422: ["invalid"]},
        operation_id="tasks_keep_files",
    )
    def post(self, request: Request, task_id: int) -> Response:
        """Or let them go again. Results are kept in any case."""
        task = self.task(task_id)
        task_keep_files(task, keep=self.read(KeepBody)["keep"])
        return self.shown(task)


class SavedViewList(ApiListView):
    """Filters of the task list under names."""

    serializer_class = SavedViewAnswer

    def rows(self) -> QuerySet[SavedView]:
        return self.reader.saved_views.all()

    @documented("List saved views", answers={200: SavedViewAnswer(many=True)})
    def get(self, request: Request) -> Response:
        """One's own."""
        return self.list(request)

    @documented(
        "Save a view",
        body=SavedViewBody,
        answers={
            200: OpenApiResponse(SavedAnswer, description="One of the same name was replaced."),
            201: SavedAnswer,
        },
        errors={422: ["invalid", "view_*"]},
    )
    def post(self, request: Request) -> Response:
        """One of the same name is replaced, as `replaced_query` tells. What is no filter of the
        page is left out; nothing but that is refused.
        """
        body = self.read(SavedViewBody)
        form = TaskFilterForm(QueryDict(body["query"]), reader=self.reader)
        query = form.query if form.is_valid() else ""
        view, before = saved_views.view_save(self.reader, name=body["name"], query=query)
        answer = SavedViewAnswer(view).data | {"replaced_query": before}
        return Response(answer, status=200 if before else 201)


class SavedViewDetail(ApiView):
    """One saved view."""

    @documented("Delete a saved view", answers={204: None})
    def delete(self, request: Request, view_id: int) -> Response:
        """It is gone at once; tasks stay."""
        saved_views.view_delete(get_object_or_404(self.reader.saved_views.all(), pk=view_id))
        return Response(status=204)
