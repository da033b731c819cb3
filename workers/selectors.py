"""Selectors of workers: visibility by user, search, labels and runtimes."""

from django.db.models import Exists, OuterRef, Q, QuerySet

from accounts.models import User
from workers.models import Grant, Runtime, Worker
from workers.status import with_shut_out_at


def visible_workers(user: User) -> QuerySet[Worker]:
    """Return the workers that a user may use, with runtimes prefetched.

    These are the public ones and those granted to the user; for an administrator all. Retired
    workers are excluded; they appear only in the history of tasks and on the admin site.
    """
    workers = with_shut_out_at(Worker.objects.filter(retired_at=None))
    workers = workers.prefetch_related("runtimes")
    if user.is_staff:
        return workers
    granted = Grant.objects.filter(worker=OuterRef("pk"), user=user)
    return workers.filter(Q(is_public=True) | Q(Exists(granted)))


def may_use_worker(user: User, worker: Worker) -> bool:
    return worker.is_public or user.is_staff or worker.grants.filter(user=user).exists()


def search_workers(workers: QuerySet[Worker], text: str) -> QuerySet[Worker]:
    """Return the workers whose name, CPU, GPUs or platform contain a text.

    A worker also matches if one of its MegEngine versions starts with the text.
    """
    with_version = Runtime.objects.filter(worker=OuterRef("pk"), version__startswith=text)
    matches = Q(name__icontains=text) | Q(Exists(with_version))
    for fact in ("cpu_model", "gpus", "platform"):
        matches |= Q(**{f"facts__{fact}__icontains": text})
    return workers.filter(matches)


def labels_of(worker: Worker) -> dict[str, str]:
    """Return a worker's labels, sorted by name.

    They are those of `[labels]` in the agent's configuration, overridden by those that an
    administrator set.
    """
    configured = worker.facts.get("labels")
    merged = {**(configured if isinstance(configured, dict) else {}), **worker.labels}
    return {str(name): str(value) for name, value in sorted(merged.items())}


def visible_runtime(user: User, worker_id: int | None, version: str) -> Runtime | None:
    """Return the runtime of a worker by version, if the user may use the worker."""
    runtimes = Runtime.objects.filter(
        worker__in=visible_workers(user), worker=worker_id, version=version
    )
    return runtimes.select_related("worker").first()
