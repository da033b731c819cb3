"""Devices and pools, for administrators."""

from collections.abc import Callable
from typing import Any

from django.db.models import Prefetch, QuerySet
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import AccessToken
from profiles.health import health_ask
from tasks.models import Attempt
from tasks.queue.loads import loads_of
from webprofile.rest.schema import documented
from webprofile.rest.views import ApiListView, ApiView
from workers import editing, services
from workers.enrolling import enrol_line
from workers.models import HealthCheck, Pool, Worker
from workers.rest.admin_answers import AdminPool, EnrolledAnswer, HardwareAnswer, HardwareRow
from workers.rest.admin_bodies import (
    HardwareFilters,
    PoolBody,
    PoolChange,
    RegisterBody,
    WorkerBody,
)
from workers.rest.answers import HealthAnswer
from workers.rest.filters import HealthFilters
from workers.tokens import CODE_LIFETIME

ADMIN = AccessToken.Scope.ADMIN


class HardwareView(ApiView):
    """What one device's views share."""

    scope = ADMIN

    def worker(self, worker_id: int) -> Worker:
        """The device of this number, also a retired one. Raises Http404."""
        return self.find(hardware(), worker_id)

    def shown(self, worker_id: int) -> Response:
        """The answer that shows a device as it is now."""
        return Response(_answer(self.worker(worker_id)))

    def enrolled(self, worker: Worker, *, status: int) -> Response:
        """A new code for a device, and what to paste there."""
        code = services.worker_enrol(worker, by=self.reader)
        answer = {
            "worker": _answer(self.worker(worker.pk)),
            "lines": enrol_line(worker, code),
            "expires_at": timezone.now() + CODE_LIFETIME,
        }
        return Response(answer, status=status)


class HardwareList(HardwareView, ApiListView):
    """All devices."""

    serializer_class = HardwareRow
    filterset_class = HardwareFilters

    def rows(self) -> QuerySet[Worker]:
        return hardware()

    def get_serializer(self, *args: Any, **kwargs: Any) -> Any:
        if args and not getattr(self, "swagger_fake_view", False):
            kwargs["context"] = {"loads": loads_of(args[0]), "is_staff": True}
        return super().get_serializer(*args, **kwargs)

    @documented(
        "List all devices",
        answers={200: HardwareRow(many=True)},
        operation_id="admin_workers_list",
    )
    def get(self, request: Request) -> Response:
        """With heartbeats and what they run; also retired ones, unless `state` says otherwise."""
        return self.list(request)

    @documented(
        "Register a device",
        body=RegisterBody,
        answers={201: EnrolledAnswer},
        errors={409: ["worker_name_taken"], 422: ["invalid", "worker_name_bad"]},
        operation_id="admin_workers_register",
    )
    def post(self, request: Request) -> Response:
        """Answers with the line to paste on the device, which holds a code for one use."""
        worker = services.worker_register(by=self.reader, **self.read(RegisterBody))
        return self.enrolled(worker, status=201)


class HardwareDetail(HardwareView):
    """One device."""

    @documented(
        "Show a device to administrators",
        answers={200: HardwareAnswer},
        operation_id="admin_workers_show",
    )
    def get(self, request: Request, worker_id: int) -> Response:
        """All about it, also where it stands in the network and who may use it."""
        return self.shown(worker_id)

    @documented(
        "Change a device",
        body=WorkerBody,
        answers={200: HardwareAnswer},
        errors={
            404: ["not_found", "pools_unknown"],
            409: ["worker_retired", "worker_name_taken"],
            422: ["invalid", "worker_name_bad", "slots_bad", "label_*", "labels_many"],
        },
        operation_id="admin_workers_change",
    )
    def patch(self, request: Request, worker_id: int) -> Response:
        """Its name, slots, labels and pools."""
        worker = self.worker(worker_id)
        editing.worker_change(worker, by=self.reader, changes=self.read(WorkerBody))
        return self.shown(worker_id)


class HardwareEnrol(HardwareView):
    """A code for an agent."""

    @documented(
        "Enrol a device",
        answers={200: EnrolledAnswer},
        errors={409: ["worker_retired"]},
        operation_id="admin_workers_enrol",
    )
    def post(self, request: Request, worker_id: int) -> Response:
        """The line to paste on the device; codes issued before are void."""
        return self.enrolled(self.worker(worker_id), status=200)


class HardwareHealth(HardwareView, ApiListView):
    """Health checks of a device, also of a retired one."""

    serializer_class = HealthAnswer
    filterset_class = HealthFilters

    def rows(self) -> QuerySet[HealthCheck]:
        return self.worker(self.kwargs["worker_id"]).health_checks.all()

    @documented(
        "List health checks to administrators",
        answers={200: HealthAnswer(many=True)},
        operation_id="admin_workers_health_checks",
    )
    def get(self, request: Request, worker_id: int) -> Response:
        """The last 200."""
        return self.list(request)


class HardwareCheck(HardwareView):
    """A health check now."""

    @documented(
        "Check a device",
        answers={201: HealthAnswer},
        errors={409: ["health_check_impossible", "health_check_not_begun"]},
        operation_id="admin_workers_check",
    )
    def post(self, request: Request, worker_id: int) -> Response:
        """Sends a tiny task to the device; its health checks tell how it ended."""
        check = health_ask(self.worker(worker_id), by=self.reader)
        return Response(HealthAnswer(check).data, status=201)


def _act(
    summary: str, apply: Callable[..., object], *, codes: tuple[str, ...], name: str, doc: str
) -> type[HardwareView]:
    """A view that does one thing with a device and shows what came of it."""

    class Act(HardwareView):
        @documented(
            summary,
            answers={200: HardwareAnswer},
            errors={409: codes} if codes else {},
            operation_id=f"admin_workers_{name}",
            description=doc,
        )
        def post(self, request: Request, worker_id: int) -> Response:
            apply(self.worker(worker_id), by=self.reader)
            return self.shown(worker_id)

    return Act


_IN_SERVICE = ("worker_retired",)
HardwareDrain = _act(
    "Drain a device",
    services.worker_drain,
    codes=_IN_SERVICE,
    name="drain",
    doc="It gets no new tasks; what runs goes on. Repeating it changes nothing.",
)
HardwareResume = _act(
    "Resume a device",
    services.worker_resume,
    codes=_IN_SERVICE,
    name="resume",
    doc="It gets tasks again, also if a health check held it back. Repeating it changes nothing.",
)
HardwarePublish = _act(
    "Make a device public",
    services.worker_publish,
    codes=_IN_SERVICE,
    name="publish",
    doc="Every user may choose it. Repeating it changes nothing.",
)
HardwareHide = _act(
    "Make a device private",
    services.worker_hide,
    codes=_IN_SERVICE,
    name="hide",
    doc="Only those may choose it to whom it was granted. Repeating it changes nothing.",
)
HardwareAllowScripts = _act(
    "Let users run scripts on a device",
    services.worker_allow_scripts,
    codes=_IN_SERVICE,
    name="allow_scripts",
    doc="Any Python code of those who may use it runs there, in a sandbox without network. Nothing "
    "starts before its owner allows scripts in the agent's configuration too. Repeating it changes "
    "nothing.",
)
HardwareForbidScripts = _act(
    "Run no more scripts on a device",
    services.worker_forbid_scripts,
    codes=_IN_SERVICE,
    name="forbid_scripts",
    doc="No further script starts there; what runs goes on. Repeating it changes nothing.",
)
HardwareRevoke = _act(
    "Shut a device's agent out",
    services.worker_revoke,
    codes=(),
    name="revoke",
    doc="Its token and unused codes are void until it is enrolled again.",
)
HardwareRetire = _act(
    "Retire a device",
    services.worker_retire,
    codes=(),
    name="retire",
    doc="It is taken out of service for good; its history stays. Repeating it changes nothing.",
)


class AdminPools(ApiListView):
    """Pools."""

    scope = ADMIN
    serializer_class = AdminPool

    def rows(self) -> QuerySet[Pool]:
        return Pool.objects.prefetch_related("workers")

    @documented(
        "List all pools", answers={200: AdminPool(many=True)}, operation_id="admin_pools_list"
    )
    def get(self, request: Request) -> Response:
        """With all their devices, also empty ones."""
        return self.list(request)

    @documented(
        "Add a pool",
        body=PoolBody,
        answers={201: AdminPool},
        errors={
            404: ["workers_unknown"],
            409: ["pool_name_taken", "workers_retired"],
            422: ["invalid", "pool_name_bad"],
        },
        operation_id="admin_pools_create",
    )
    def post(self, request: Request) -> Response:
        """Devices that a task may ask for by one name."""
        pool = editing.pool_create(by=self.reader, **self.read(PoolBody))
        return Response(AdminPool(pool).data, status=201)


class AdminPoolDetail(ApiView):
    """One pool."""

    scope = ADMIN

    @documented(
        "Show a pool to administrators", answers={200: AdminPool}, operation_id="admin_pools_show"
    )
    def get(self, request: Request, pool_id: int) -> Response:
        """With all its devices."""
        return Response(AdminPool(self.find(Pool.objects.all(), pool_id)).data)

    @documented(
        "Change a pool",
        body=PoolChange,
        answers={200: AdminPool},
        errors={
            404: ["not_found", "workers_unknown"],
            409: ["pool_name_taken", "workers_retired"],
            422: ["invalid", "pool_name_bad"],
        },
        operation_id="admin_pools_change",
    )
    def patch(self, request: Request, pool_id: int) -> Response:
        """Its name, description and devices."""
        pool = self.find(Pool.objects.all(), pool_id)
        editing.pool_change(pool, by=self.reader, changes=self.read(PoolChange))
        return Response(AdminPool(pool).data)

    @documented("Delete a pool", answers={204: None}, operation_id="admin_pools_delete")
    def delete(self, request: Request, pool_id: int) -> Response:
        """Its devices stay; tasks that ask for it find none."""
        editing.pool_delete(self.find(Pool.objects.all(), pool_id), by=self.reader)
        return Response(status=204)


def hardware() -> QuerySet[Worker]:
    """All devices, with what administrators see of each."""
    live = Attempt.objects.filter(ended_at=None).select_related("task__owner")
    return Worker.objects.prefetch_related(
        "runtimes", "pools", Prefetch("attempts", live, to_attr="live_attempts")
    )


def _answer(worker: Worker) -> Any:
    context = {"loads": loads_of([worker]), "is_staff": True}
    return HardwareAnswer(worker, context=context).data
