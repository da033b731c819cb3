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
    after = {name: value for name, value in _facts(row).items() if value != before[name]}
    if after:
        old = {name: before[name] for name in after}
        audit_record("worker.change", row, by=by, before=old, after=after)
    worker.refresh_from_db()
    return bool(after)


def _facts(worker: Worker) -> dict[str, Any]:
    pools = list(worker.pools.order_by("name").values_list("name", flat=True))
    return {
        "name": worker.name,
        "slots": worker.slots,
        "labels": dict(worker.labels),
        "pools": pools,
    }


def _check_slots(worker: Worker) -> None:
    try:
        Worker._meta.get_field("slots").clean(worker.slots, worker)
    except ValidationError as error:
        raise DomainError("slots_bad", field="slots") from error


def _pools(names: Iterable[str]) -> list[Pool]:
    wanted = set(names)
    found = list(Pool.objects.filter(name__in=wanted))
    if missing := wanted - {pool.name for pool in found}:
        raise DomainError("pools_unknown", field="pools", status=404, names=listed(missing))
    return found
