"""Which workers a reader may see."""

import datetime

from django.db.models import Exists, OuterRef, Q, QuerySet

from accounts.models import User
from workers.models import Worker, WorkerSecret


def workers_visible_to(user: User) -> QuerySet[Worker]:
    """Public workers, those granted to the user, and for an administrator all; with runtimes.

    One that is retired exists in the history of tasks and in the administration alone.
    """
    workers = Worker.objects.filter(retired_at=None).prefetch_related("runtimes")
    if user.is_staff:
        return workers
    return workers.filter(Q(is_public=True) | Q(grants__user=user)).distinct()


def may_use_worker(user: User, worker: Worker) -> bool:
    return workers_visible_to(user).filter(pk=worker.pk).exists()


def shut_out(worker: str = "pk") -> Q:
    """Devices whose tokens were all revoked: nobody hears of them until they are enrolled anew.

    worker: the column that names the device, of the rows that are filtered
    """
    tokens = WorkerSecret.objects.filter(worker=OuterRef(worker), kind=WorkerSecret.Kind.TOKEN)
    valid = Exists(tokens.filter(revoked_at=None))
    return Q(Exists(tokens.filter(revoked_at__isnull=False))) & ~Q(valid)


def shut_out_since(worker: Worker) -> datetime.datetime | None:
    """When the last of a device's tokens was revoked; None if one is valid, or it never had one."""
    tokens = worker.secrets.filter(kind=WorkerSecret.Kind.TOKEN)
    revoked = list(tokens.values_list("revoked_at", flat=True))
    moments = [moment for moment in revoked if moment is not None]
    return max(moments) if moments and len(moments) == len(revoked) else None
