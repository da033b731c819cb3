"""Which workers a reader may see, and what they are found by."""

from django.db.models import Exists, OuterRef, Q, QuerySet

from accounts.models import User
from workers.models import Grant, Runtime, Worker
from workers.status import with_shut_out_at


def visible_workers(user: User) -> QuerySet[Worker]:
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


def search_workers(workers: QuerySet[Worker], text: str) -> QuerySet[Worker]:
    """Those with the text in their name, processor, GPUs, platform, or a version that begins so."""
    with_version = Runtime.objects.filter(worker=OuterRef("pk"), version__startswith=text)
    says = Q(name__icontains=text) | Q(Exists(with_version))
    for fact in ("cpu_model", "gpus", "platform"):
        says |= Q(**{f"facts__{fact}__icontains": text})
    return workers.filter(says)


def labels_of(worker: Worker) -> dict[str, str]:
    """Name and value, by name. A label that an administrator set hides the device's own.

    The device's own come from `[labels]` of its agent's configuration, with the hello.
    """
    own = worker.facts.get("labels")
    merged = {**(own if isinstance(own, dict) else {}), **worker.labels}
    return {str(name): str(value) for name, value in sorted(merged.items())}


def named_runtime(reader: User, worker_id: int | None, version: str) -> Runtime | None:
    """This version on this device, if the reader may see it."""
    found = Runtime.objects.filter(
        worker__in=visible_workers(reader), worker=worker_id, version=version
    )
    return found.select_related("worker").first()
