"""Which workers a reader may see."""

from django.db.models import Q, QuerySet

from accounts.models import User
from workers.models import Worker


def workers_visible_to(user: User) -> QuerySet[Worker]:
    """Public workers, those granted to the user, and for an administrator all; with runtimes."""
    workers = Worker.objects.prefetch_related("runtimes")
    if user.is_staff:
        return workers
    return workers.filter(Q(is_public=True) | Q(grants__user=user)).distinct()


def may_use_worker(user: User, worker: Worker) -> bool:
    return workers_visible_to(user).filter(pk=worker.pk).exists()
