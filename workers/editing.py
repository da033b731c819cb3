"""What administrators write about devices: names, slots, labels, pools."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from accounts.audit import audit_record
from accounts.models import User
from webprofile.errors import DomainError
from workers.models import Pool, Worker
from workers.naming import listed
from workers.services import name_check, name_taken

LABELS_LIMIT = 32
LABEL_LENGTH = 100
_LABEL_NAME = re.compile(r"[\w.-]+")


def labels_check(labels: Mapping[str, str]) -> None:
    """Raises DomainError label_bad, label_long, labels_many."""
    if len(labels) > LABELS_LIMIT:
        raise DomainError("labels_many", field="labels", limit=LABELS_LIMIT)
    for name, value in labels.items():
        if not _LABEL_NAME.fullmatch(name) or not value.strip() or not value.isprintable():
            raise DomainError("label_bad", field="labels", label=name[:60])
        if len(name) > LABEL_LENGTH or len(value) > LABEL_LENGTH:
            raise DomainError("label_long", field="labels", limit=LABEL_LENGTH)


@transaction.atomic
def worker_change(worker: Worker, *, by: User | None, changes: Mapping[str, Any]) -> bool:
    """Give a device that is in service another name, slots, labels or pools.

    changes: `name`, `slots`, `labels` (name: value), `pools` (names); what is not there stays
    Returns whether anything changed. Raises DomainError: worker_retired, worker_name_bad,
    worker_name_taken, slots_bad, label_*, pools_unknown.
    """
    row = Worker.objects.select_for_update(of=("self",)).get(pk=worker.pk)
    if row.retired_at is not None:
        raise DomainError("worker_retired", status=409, worker=row.name)
    before = _facts(row)
    for name in ("name", "slots", "labels"):
        if name in changes:
            setattr(row, name, changes[name])
    labels_check(row.labels)
    _check_slots(row)
    if row.name != before["name"]:
        name_check(row)
    try:
        with transaction.atomic():
            row.save(update_fields=["name", "slots", "labels"])
    except IntegrityError as error:  # of two who choose a name at once, one comes second
        raise name_taken(row) from error
    if "pools" in changes:
        row.pools.set(_pools(changes["pools"]))
    changed = _note("worker.change", row, by=by, before=before, after=_facts(row))
    worker.refresh_from_db()
    return changed


@transaction.atomic
def pool_create(*, name: str, description: str, workers: Iterable[str], by: User | None) -> Pool:
    """Raises DomainError: pool_name_bad, pool_name_taken, workers_unknown, workers_retired."""
    pool = Pool(name=name.strip(), description=description)
    _pool_save(pool)
    pool.workers.set(_workers(workers))
    audit_record("pool.create", pool, by=by, after=_pool_facts(pool))
    return pool


@transaction.atomic
def pool_change(pool: Pool, *, by: User | None, changes: Mapping[str, Any]) -> bool:
    """Change `name`, `description` or `workers` (names) of a pool.

    Raises DomainError as `pool_create`, and not_found for one that was deleted meanwhile.
    """
    row = Pool.objects.select_for_update().filter(pk=pool.pk).first()
    if row is None:
        raise DomainError("not_found", status=404)
    before = _pool_facts(row)
    for name in ("name", "description"):
        if name in changes:
            setattr(row, name, changes[name])
    _pool_save(row)
    if "workers" in changes:
        row.workers.set(_workers(changes["workers"]))
    changed = _note("pool.change", row, by=by, before=before, after=_pool_facts(row))
    pool.refresh_from_db()
    return changed


@transaction.atomic
def pool_delete(pool: Pool, *, by: User | None) -> None:
    """Remove a pool; its devices stay. Of two who do it at once, the second changes nothing."""
    row = Pool.objects.select_for_update().filter(pk=pool.pk).first()
    if row is not None:
        audit_record("pool.delete", row, by=by, before=_pool_facts(row))
        row.delete()


def _note(
    action: str, row: Worker | Pool, *, by: User | None, before: Any, after: dict[str, Any]
) -> bool:
    changed = {name: value for name, value in after.items() if value != before[name]}
    if changed:
        old = {name: before[name] for name in changed}
        audit_record(action, row, by=by, before=old, after=changed)
    return bool(changed)


def _facts(worker: Worker) -> dict[str, Any]:
    pools = list(worker.pools.order_by("name").values_list("name", flat=True))
    return {
        "name": worker.name,
        "slots": worker.slots,
        "labels": dict(worker.labels),
        "pools": pools,
    }


def _pool_facts(pool: Pool) -> dict[str, Any]:
    workers = list(pool.workers.order_by("name").values_list("name", flat=True))
    return {"name": pool.name, "description": pool.description, "workers": workers}


def _check_slots(worker: Worker) -> None:
    try:
        Worker._meta.get_field("slots").clean(worker.slots, worker)
    except ValidationError as error:
        raise DomainError("slots_bad", field="slots") from error


def _pool_save(pool: Pool) -> None:
    taken = DomainError("pool_name_taken", field="name", status=409, name=pool.name)
    try:
        pool.full_clean(validate_unique=False, validate_constraints=False)
    except ValidationError as error:
        raise DomainError("pool_name_bad", field="name") from error
    if Pool.objects.filter(name=pool.name).exclude(pk=pool.pk).exists():
        raise taken
    try:
        with transaction.atomic():
            pool.save()
    except IntegrityError as error:  # of two who choose a name at once, one comes second
        raise taken from error


def _pools(names: Iterable[str]) -> list[Pool]:
    wanted = set(names)
    found = list(Pool.objects.filter(name__in=wanted))
    if missing := wanted - {pool.name for pool in found}:
        raise DomainError("pools_unknown", field="pools", status=404, names=listed(missing))
    return found


def _workers(names: Iterable[str]) -> list[Worker]:
    wanted = set(names)
    found = list(Worker.objects.filter(name__in=wanted))
    if missing := wanted - {worker.name for worker in found}:
        raise DomainError("workers_unknown", field="workers", status=404, names=listed(missing))
    if retired := {worker.name for worker in found if worker.retired_at}:
        raise DomainError("workers_retired", field="workers", status=409, names=listed(retired))
    return found
