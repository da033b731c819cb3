"""Everything that changes a worker."""

from collections.abc import Iterable

from django.db import transaction
from django.utils import timezone

from agent.protocol import Facts, RuntimeInfo
from workers import tokens
from workers.models import Runtime, Worker
from workers.roofs import roofs_as_json


@transaction.atomic
def worker_ensure(*, name: str, is_public: bool = True) -> Worker:
    """Return the worker of this name, registered now if it is new."""
    worker, _ = Worker.objects.get_or_create(name=name, defaults={"is_public": is_public})
    return worker


@transaction.atomic
def worker_introduce(
    worker: Worker, *, facts: Facts, agent_version: str, runtimes: Iterable[RuntimeInfo]
) -> None:
    """Record what an agent says of itself; runtimes that it no longer names are removed."""
    Worker.objects.filter(pk=worker.pk).update(
        facts=facts.model_dump(mode="json"),
        agent_version=agent_version,
        last_seen_at=timezone.now(),
    )
    seen = []
    for info in runtimes:
        runtime, _ = Runtime.objects.update_or_create(
            worker=worker,
            version=info.version,
            defaults={
                "kind": info.kind,
                "python": info.python,
                "problem": info.problem,
                "flags": sorted(info.flags),
                "builds": sorted(info.builds),
                "libraries": sorted(info.libraries),
                "roofs": roofs_as_json(info.roofs),
            },
        )
        seen.append(runtime.pk)
    worker.runtimes.exclude(pk__in=seen).delete()


def worker_seen(worker: Worker) -> None:
    """Note a heartbeat: one UPDATE, no event."""
    Worker.objects.filter(pk=worker.pk).update(last_seen_at=timezone.now())


@transaction.atomic
def worker_revoke(worker: Worker) -> int:
    """Shut the worker's agent out until it is enrolled again."""
    return tokens.tokens_revoke(worker)
