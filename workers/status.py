"""Status of a device, and the rules that it must meet to start tasks."""

from collections.abc import Callable
from dataclasses import dataclass

from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery, TextChoices
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from workers.models import Worker, WorkerSecret, online_since


class DeviceStatus(TextChoices):
    RETIRED = "retired", _("retired")
    DRAINED = "drained", _("drained")
    HELD = "held", _("quarantined")
    SHUT_OUT = "shut_out", pgettext_lazy("device", "token revoked")
    NEVER_CONNECTED = "never_connected", _("never connected")
    OFFLINE = "offline", _("offline")
    BUSY = "busy", _("busy")
    FREE = "free", _("free")


@dataclass(frozen=True)
class DeviceRule:
    """A condition that a device must meet to start tasks.

    status: status of a device that does not meet it
    holds: the predicate
    rows: the same condition as a `Q`, given the lookup path from the rows to the device: "" for
        devices, "worker__" for tasks
    """

    status: DeviceStatus
    holds: Callable[[Worker], bool]
    rows: Callable[[str], Q]


def _tokens(worker: str) -> QuerySet[WorkerSecret]:
    return WorkerSecret.objects.filter(worker=OuterRef(worker), kind=WorkerSecret.SecretKind.TOKEN)


def _is_let_in(path: str) -> Q:
    """Devices with a valid token, and devices that were never enrolled."""
    tokens = _tokens(path.removesuffix("__") or "pk")
    return Q(Exists(tokens.filter(revoked_at=None))) | ~Q(Exists(tokens))


def with_shut_out_at(workers: QuerySet[Worker]) -> QuerySet[Worker]:
    """Annotate `Worker.shut_out_at`, so that reading a status needs no further query."""
    # a valid token sorts first and yields None
    last = _tokens("pk").order_by(F("revoked_at").desc(nulls_first=True))
    # the annotation fills the cached property of the same name
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
    lambda path: Q((f"{path}last_heartbeat__last_seen_at__gte", online_since())),
)
#: rules about decisions of administrators and results of checks; the most important first
SERVICE_RULES = (NOT_RETIRED, ENABLED, NOT_HELD, LET_IN)
DEVICE_RULES = (*SERVICE_RULES, ONLINE)


def status_of(worker: Worker, *, is_busy: bool = False) -> DeviceStatus:
    """Return the status of a device: that of the first rule that it does not meet, or busy or free.

    is_busy: whether it has a live attempt
    """
    status = next((rule.status for rule in DEVICE_RULES if not rule.holds(worker)), None)
    if status == DeviceStatus.OFFLINE and worker.last_seen_at is None:
        return DeviceStatus.NEVER_CONNECTED
    return status or (DeviceStatus.BUSY if is_busy else DeviceStatus.FREE)
