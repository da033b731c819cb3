"""What a device does now, in one word, and what it must be to start tasks."""

from collections.abc import Callable
from dataclasses import dataclass

from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery, TextChoices
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from workers.models import Worker, WorkerSecret, online_since


class DeviceStatus(TextChoices):
    RETIRED = "retired", _("retired")
    DRAINED = "drained", _("drained")
    HELD = "held", _("held back")
    SHUT_OUT = "shut_out", pgettext_lazy("device", "shut out")
    NEVER_CONNECTED = "never_connected", _("never connected")
    OFFLINE = "offline", _("offline")
    BUSY = "busy", _("busy")
    FREE = "free", _("free")


@dataclass(frozen=True)
class DeviceRule:
    """What must hold for a device to start tasks.

    status: of a device for which it does not hold
    holds: the predicate
    rows: the same of rows, by the path from them to the device: "" for devices, "worker__" for
        tasks
    """

    status: DeviceStatus
    holds: Callable[[Worker], bool]
    rows: Callable[[str], Q]


def _tokens(worker: str) -> QuerySet[WorkerSecret]:
    return WorkerSecret.objects.filter(worker=OuterRef(worker), kind=WorkerSecret.Kind.TOKEN)


def _is_let_in(path: str) -> Q:
    """Devices with a token that is valid, and those that were never enrolled."""
    tokens = _tokens(path.removesuffix("__") or "pk")
    return Q(Exists(tokens.filter(revoked_at=None))) | ~Q(Exists(tokens))


def with_shut_out_at(workers: QuerySet[Worker]) -> QuerySet[Worker]:
    """Read `Worker.shut_out_at` with the rows, for a status without a query of its own."""
    # a valid token comes first, and says None
    last = _tokens("pk").order_by(F("revoked_at").desc(nulls_first=True))
    # a property that keeps its value, which the row brings
    return workers.annotate(  # type: ignore[no-redef]
        shut_out_at=Subquery(last.values("revoked_at")[:1])
    )


NOT_RETIRED = DeviceRule(
    DeviceStatus.RETIRED,
    lambda worker: worker.retired_at is None,
    lambda path: Q((f"{path}retired_at", None)),
)
ENABLED = DeviceRule(
    DeviceStatus.DRAINED,
    lambda worker: worker.is_enabled,
    lambda path: Q((f"{path}is_enabled", True)),
)
NOT_HELD = DeviceRule(
    DeviceStatus.HELD,
    lambda worker: worker.held_at is None,
    lambda path: Q((f"{path}held_at", None)),
)
LET_IN = DeviceRule(DeviceStatus.SHUT_OUT, lambda worker: worker.shut_out_at is None, _is_let_in)
ONLINE = DeviceRule(
    DeviceStatus.OFFLINE,
    lambda worker: worker.is_online,
    lambda path: Q((f"{path}pulse__last_seen_at__gte", online_since())),
)
#: what somebody did, or a check found; the weightiest first
SERVICE_RULES = (NOT_RETIRED, ENABLED, NOT_HELD, LET_IN)
DEVICE_RULES = (*SERVICE_RULES, ONLINE)


def status_of(worker: Worker, *, is_busy: bool = False) -> DeviceStatus:
    """The weightiest thing to know of a device; is_busy: it runs something."""
    status = next((rule.status for rule in DEVICE_RULES if not rule.holds(worker)), None)
    if status == DeviceStatus.OFFLINE and worker.last_seen_at is None:
        return DeviceStatus.NEVER_CONNECTED
    return status or (DeviceStatus.BUSY if is_busy else DeviceStatus.FREE)
