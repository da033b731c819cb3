"""Devices as their users see them."""

from typing import Any

from django.conf import settings
from django.db.models import Prefetch, QuerySet
from django.http import Http404
from django.utils import translation
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from agent.protocol.options import OPTIONS, unavailable
from agent.protocol.options_json import describe
from tasks.options.help import OPTION_HELP
from tasks.options.words import GROUP_TITLES
from tasks.queue.facts import outlook
from tasks.queue.loads import loads_of
from tasks.queue.turns import ANY_PRIORITY, OWN_PRIORITY
from tasks.rest.queue_answers import QueueAnswer
from webprofile.errors import DomainError
from webprofile.rest import fields
from webprofile.rest.schema import documented
from webprofile.rest.views import ApiListView, ApiView
from webprofile.wording import word
from workers.models import Pool, Runtime, Worker
from workers.rest.answers import (
    OptionAnswer,
    PoolAnswer,
    RuntimeOptionAnswer,
    WorkerAnswer,
    WorkerRow,
)
from workers.rest.filters import WorkerFilters
from workers.selectors import workers_visible_to


class QueueQuery(fields.Query):
    """A task that could be asked for."""

    version = serializers.CharField(max_length=40, help_text="One of its MegEngines.")
    priority = fields.Whole(
        required=False,
        default=0,
        min_value=-ANY_PRIORITY,
        max_value=ANY_PRIORITY,
        help_text=f"Of the task; users may set -{OWN_PRIORITY} to {OWN_PRIORITY}.",
    )


class WorkerView(ApiView):
    """What one device's views share."""

    def worker(self, name: str) -> Worker:
        """The device of this name, if the reader may see it. Raises Http404."""
        rows = workers_visible_to(self.reader)
        rows = rows.prefetch_related("pools", "runtimes__worker")
        found = rows.filter(name=name).first()
        if found is None:
            raise Http404
        return found

    def runtime(self, name: str, version: str) -> Runtime:
        worker = self.worker(name)
        for runtime in worker.runtimes.all():
            if runtime.version == version:
                return runtime
        raise Http404


class WorkerList(ApiListView):
    """Devices."""

    serializer_class = WorkerRow
    filterset_class = WorkerFilters

    def rows(self) -> QuerySet[Worker]:
        return workers_visible_to(self.reader).prefetch_related("pools")

    def get_serializer(self, *args: Any, **kwargs: Any) -> Any:
        if args and not getattr(self, "swagger_fake_view", False):
            kwargs["context"] = _context(self.reader.is_staff, args[0])
        return super().get_serializer(*args, **kwargs)

    @documented("List devices", answers={200: WorkerRow(many=True)}, operation_id="workers_list")
    def get(self, request: Request) -> Response:
        """Public ones, and private ones that were granted; an administrator sees all."""
        return self.list(request)


class WorkerDetail(WorkerView):
    """One device."""

    @documented("Show a device", answers={200: WorkerAnswer}, operation_id="workers_show")
    def get(self, request: Request, name: str) -> Response:
        """Facts, MegEngines, measured limits, labels, how busy it is."""
        worker = self.worker(name)
        return Response(WorkerAnswer(worker, context=_context(self.reader.is_staff, [worker])).data)


class RuntimeOptions(WorkerView):
    """What a MegEngine can do."""

    @documented(
        "List options of a MegEngine",
        answers={200: RuntimeOptionAnswer(many=True)},
        operation_id="workers_runtime_options",
    )
    def get(self, request: Request, name: str, version: str) -> Response:
        """Every option of load_and_run, and why one cannot be used there."""
        able = self.runtime(name, version).capabilities
        rows = _option_rows()
        for row in rows:
            code = unavailable(OPTIONS[row["name"]], able)
            error = DomainError(f"option_{code}", option=row["name"], limit="")
            row |= {"unavailable": code, "unavailable_text": word(error) if code else ""}
        return Response(RuntimeOptionAnswer(rows, many=True).data)


class WorkerQueue(WorkerView):
    """The queue of a device."""

    @documented(
        "Show a device's queue",
        answers={200: QueueAnswer},
        query=QueueQuery,
        errors={422: ["runtime_missing"]},
        operation_id="workers_queue",
    )
    def get(self, request: Request, name: str) -> Response:
        """Where a task that the reader asked for now would stand, how long it would wait and why,
        and which device would start it sooner.
        """
        wanted = self.query(QueueQuery)
        worker, version = self.worker(name), wanted["version"]
        if not any(each.version == version for each in worker.runtimes.all()):
            raise DomainError(
                "runtime_missing", field="version", worker=worker.name, version=version
            )
        facts = outlook(worker, version, owner=self.reader, priority=wanted["priority"])
        return Response(QueueAnswer(facts).data)


class PoolList(ApiListView):
    """Pools of devices."""

    serializer_class = PoolAnswer

    def rows(self) -> QuerySet[Pool]:
        visible = workers_visible_to(self.reader).prefetch_related(None)
        pools = Pool.objects.prefetch_related(Prefetch("workers", visible, to_attr="seen"))
        if self.reader.is_staff:
            return pools
        return pools.filter(workers__in=visible.values("pk")).distinct()

    @documented("List pools", answers={200: PoolAnswer(many=True)}, operation_id="pools_list")
    def get(self, request: Request) -> Response:
        """Those with a device that the reader may see; an administrator sees all."""
        return self.list(request)


class OptionList(ApiView):
    """The options of load_and_run."""

    permission_classes = (AllowAny,)

    @documented("List options", answers={200: OptionAnswer(many=True)}, operation_id="options_list")
    def get(self, request: Request) -> Response:
        """All of load_and_run 1.13, also those that users may not set."""
        return Response(OptionAnswer(_option_rows(), many=True).data)


def _context(is_staff: bool, workers: Any) -> dict[str, Any]:
    return {"loads": loads_of(workers), "is_staff": is_staff}


def _option_rows() -> list[dict[str, Any]]:
    titles = {group.value: str(title) for group, title in GROUP_TITLES.items()}
    helps: dict[str, dict[str, str]] = {name: {} for name in OPTIONS}
    for language, _name in settings.LANGUAGES:
        with translation.override(language):
            for name in OPTIONS:
                helps[name][language] = str(OPTION_HELP[name])
    return [
        {**row, "group_title": titles[row["group"]], "help": helps[row["name"]]}
        for row in describe()
    ]
