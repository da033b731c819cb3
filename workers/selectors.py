"""Which workers a reader may see."""

from django.db.models import Exists, OuterRef, Q, QuerySet

from accounts.models import User
from workers.models import Grant, Worker
from workers.status import with_shut_out_at


def workers_visible_to(user: User) -> QuerySet[Worker]:
    """Public workers, those granted to the user, and for an administrator all; with runtimes.

    One that is retired exists in the history of tasks and in the administration alone.
    """
    workers = with_shut_out_at(Worker.objects.filter(retired_at=None))
    workers = workers.prefetch_related("runtimes")
    if user.is_staff:
        return workers
    granted = Grant.objects.filter(worker=OuterRef("pk"), user=user)
    return workers.filter(Q(is_public=True) | Q(Exists(granted)))


def may_use_worker(user: User, worker: Worker) -> bool:
    return worker.is_public or user.is_staff or worker.grants.filter(user=user).exists()
