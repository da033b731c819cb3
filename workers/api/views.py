"""API views of devices, pools and options of load_and_run."""

from typing import Any

import django_filters
from django.db.models import Prefetch, QuerySet
from django.http import Http404
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import User
from agent.protocol.options import OPTIONS, describe, unavailable
from tasks.options import GROUP_TITLES, help_by_language
from tasks.scheduling.eligibility import find_runtime
from tasks.scheduling.fair_share import ANY_PRIORITY, OWN_PRIORITY
from tasks.scheduling.queue_depth import loads_of
from tasks.scheduling.queue_status import outlook
from tasks.scheduling.serializers import QueueAnswer
from tasks.submission.validation import allowed_priority
from webprofile import fields
from webprofile.api.schema import problems
from webprofile.api.views import ApiListView, ApiView, ApiViewSet
from webprofile.errors import DomainError
from webprofile.filters import TextFilter
from webprofile.messages.errors import word
from workers.api.serializers import (
    OptionAnswer,
    PoolAnswer,
    RuntimeOptionAnswer,
    WorkerAnswer,
    WorkerRow,
)
from workers.models import Pool, Worker
from workers.selectors import visible_workers
from workers.status import ONLINE


class QueueQuery(fields.QueryParameters):
    """Version and priority of a task that could be submitted."""

    version = serializers.CharField(max_length=40, help_text="One of its MegEngines.")
    priority = fields.Whole(
        default=0,
        min_value=-ANY_PRIORITY,
        max_value=ANY_PRIORITY,
        help_text=f"Of the task; users may set -{OWN_PRIORITY} to {OWN_PRIORITY}.",
    )


class WorkerFilters(django_filters.FilterSet):
    """Filters of the list of devices; a device must match all that are given."""

    online = django_filters.ChoiceFilter(
        choices=[("true", "connected"), ("false", "not connected")],
        method="with_online",
        help_text="Whether it is connected now.",
    )
    pool = TextFilter(field_name="pools__name", max_length=60, help_text="Name of a pool.")
    version = TextFilter(
        method="with_version",
        max_length=40,
        help_text="Device with a working MegEngine of this version.",
    )
    name = TextFilter(lookup_expr="icontains", max_length=60, help_text="Part of the name.")

    class Meta:
        model = Worker
        fields: tuple[str, ...] = ()

    def with_online(self, rows: QuerySet[Worker], name: str, value: str) -> Any:
        online = ONLINE.rows("")
        return rows.filter(online) if value == "true" else rows.exclude(online)

    def with_version(self, rows: QuerySet[Worker], name: str, value: str) -> Any:
        return rows.filter(runtimes__version=value, runtimes__problem="").distinct()


@extend_schema_view(get=extend_schema(summary="List devices", operation_id="workers_list"))
class WorkerList(ApiListView):
    """Public devices, and private devices that were granted to the user; for administrators all."""

    queryset = Worker.objects.all()
    serializer_class = WorkerRow
    filterset_class = WorkerFilters

    def get_queryset(self) -> QuerySet[Worker]:
        return visible_workers(self.request.user).prefetch_related("pools")

    def get_serializer(self, *args: Any, **kwargs: Any) -> Any:
        if args:  # there are none when the OpenAPI schema is generated
            kwargs["context"] = _context(self.request.user, args[0])
        return super().get_serializer(*args, **kwargs)


class WorkerViewSet(ApiViewSet):
    """One device."""

    def get_object(self) -> Worker:
        """The device of this name, if the user may see it. Raises Http404."""
        workers = visible_workers(self.request.user)
        workers = workers.prefetch_related("pools", "runtimes__worker")
        return get_object_or_404(workers, name=self.kwargs["name"])

    @extend_schema(summary="Show a device", responses=WorkerAnswer, operation_id="workers_show")
    def retrieve(self, request: Request, name: str) -> Response:
        """Return facts, MegEngine versions, peak performance, labels, and load of a device."""
        worker = self.get_object()
        return Response(WorkerAnswer(worker, context=_context(self.request.user, [worker])).data)

    @extend_schema(summary="List options of a MegEngine", responses=RuntimeOptionAnswer(many=True))
    def runtime_options(self, request: Request, name: str, version: str) -> Response:
        """Return all options of load_and_run, and the reason if one cannot be used there."""
        runtime = find_runtime(self.get_object(), version)
        if runtime is None:
            raise Http404
        rows = _option_rows()
        for row in rows:
            code = unavailable(OPTIONS[row["name"]], runtime.capabilities)
            error = DomainError(f"option_{code}", option=row["name"], limit="")
            row |= {"unavailable": code, "unavailable_text": word(error) if code else ""}
        return Response(RuntimeOptionAnswer(rows, many=True).data)

    @extend_schema(
        summary="Show a device's queue",
        parameters=[QueueQuery],
        responses={200: QueueAnswer} | problems({422: ["runtime_missing"]}),
    )
    def queue(self, request: Request, name: str) -> Response:
        """Return the position that a new task of the current user would have in the queue, how long
        it would wait and why, and which device would start it sooner.
        """
        query = QueueQuery.read(request.query_params)
        worker, version = self.get_object(), query["version"]
        if find_runtime(worker, version) is None:
            raise DomainError(
                "runtime_missing", field="version", worker=worker.name, version=version
            )
        priority = allowed_priority(self.request.user, query["priority"])
        facts = outlook(worker, version, owner=self.request.user, priority=priority)
        return Response(QueueAnswer(facts).data)


@extend_schema_view(get=extend_schema(summary="List pools"))
class PoolList(ApiListView):
    """Pools with a device that the current user may see; for administrators all."""

    queryset = Pool.objects.all()
    serializer_class = PoolAnswer

    def get_queryset(self) -> QuerySet[Pool]:
        user = self.request.user
        visible = visible_workers(user).prefetch_related(None)
        pools = Pool.objects.prefetch_related(Prefetch("workers", visible, to_attr="seen"))
        return pools if user.is_staff else pools.filter(workers__in=visible.values("pk")).distinct()


class OptionList(ApiView):
    """The options of load_and_run."""

    permission_classes = (AllowAny,)

    @extend_schema(
        summary="List options", responses=OptionAnswer(many=True), operation_id="options_list"
    )
    def get(self, request: Request) -> Response:
        """Return all options of load_and_run 1.13, including those that users may not set."""
        return Response(OptionAnswer(_option_rows(), many=True).data)


def _context(user: User, workers: Any) -> dict[str, Any]:
    return {"loads": loads_of(workers), "is_staff": user.is_staff}


def _option_rows() -> list[dict[str, Any]]:
    return [
        {
            **row,
            "group_title": str(GROUP_TITLES[row["group"]]),
            "help": help_by_language(row["name"]),
        }
        for row in describe()
    ]
