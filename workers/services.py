"""Services that change workers: register, enrol, drain, hold, publish, revoke, retire, update."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from accounts.audit import record_audit_entry
from accounts.models import User
from agent.protocol.messages import FEATURE_SCRIPTS, Facts, MeasuredRoofs, RuntimeInfo
from webprofile.errors import DomainError
from webprofile.texts import check_text
from workers import tokens
from workers.models import LastHeartbeat, Pool, Runtime, Worker

LABELS_LIMIT = 32
LABEL_LENGTH = 100
_LABEL_NAME = re.compile(r"[\w.-]+")
#: dtypes and kinds of devices whose measured peak performance is stored; others, which a newer
#: agent may report, are ignored
_ROOF_DTYPES = frozenset({"Float32", "Float16", "BFloat16", "Int8", "QuantizedS8", "QuantizedS4"})
_ROOF_DEVICES = frozenset({"cpu", "cuda"})


@transaction.atomic
def ensure_worker(*, name: str) -> Worker:
    """Return the worker with this name; create a public one if it does not exist."""
    worker, _ = Worker.objects.get_or_create(name=name)
    return worker


@transaction.atomic
def introduce_worker(
    worker: Worker,
    *,
    facts: Facts,
    agent_version: str,
    runtimes: Iterable[RuntimeInfo],
    features: Iterable[str] = (),
) -> None:
    """Store what an agent reports about its device; remove runtimes that it no longer reports.

    Unchanged rows are not written, since all agents reconnect at once after a restart of the site.
    """
    now = timezone.now()
    if not LastHeartbeat.objects.filter(worker=worker).update(last_seen_at=now):
        LastHeartbeat.objects.update_or_create(worker=worker, defaults={"last_seen_at": now})
    stored_facts = {**facts.model_dump(mode="json"), "features": sorted(features)}
    columns = {
        "facts": stored_facts,
        "agent_version": agent_version,
        "offers_scripts": FEATURE_SCRIPTS in stored_facts["features"],
    }
    has_changed = any(getattr(worker, name) != value for name, value in columns.items())
    for name, value in columns.items():
        setattr(worker, name, value)
    known = {runtime.version: runtime for runtime in worker.runtimes.all()}
    for info in runtimes:
        described = _columns_of(info)
        runtime = known.pop(info.version, None)
        if runtime is None or any(getattr(runtime, name) != described[name] for name in described):
            Runtime.objects.update_or_create(
                worker=worker, version=info.version, defaults=described
            )
            has_changed = True
    if known:
        worker.runtimes.filter(version__in=known).delete()
        has_changed = True
    if has_changed:
        worker.changed_at, worker.may_lack_scatter = now, True
        worker.save(update_fields=[*columns, "changed_at", "may_lack_scatter"])


def _columns_of(info: RuntimeInfo) -> dict[str, Any]:
    return {
        "kind": info.kind,
        "python": info.python,
        "problem": info.problem.code if info.problem else "",
        "problem_values": info.problem.values if info.problem else {},
        "flags": sorted(info.flags),
        "builds": sorted(info.builds),
        "libraries": sorted(info.libraries),
        "roofs": roofs_as_json(info.roofs),
    }


def roofs_as_json(measured: Iterable[MeasuredRoofs]) -> list[dict[str, Any]]:
    """Convert the peak performance that an agent measured into the value of `Runtime.roofs`.

    Unknown kinds of devices and dtypes are dropped. The ranges of the figures were validated with
    the message (`agent.protocol.messages`).
    """
    by_device: dict[str, dict[str, Any]] = {}
    for roofs in measured:
        peaks = {name: flops for name, flops in roofs.peak_flops.items() if name in _ROOF_DTYPES}
        if roofs.device in _ROOF_DEVICES and peaks:
            by_device[roofs.device] = {**roofs.model_dump(mode="json"), "peak_flops": peaks}
    return list(by_device.values())


def mark_seen(workers: Iterable[int]) -> None:
    """Store a heartbeat of each of these workers in one UPDATE; they have connected before."""
    LastHeartbeat.objects.filter(worker__in=workers).update(last_seen_at=timezone.now())


@transaction.atomic
def register_worker(*, name: str, by: User | None, is_public: bool = False) -> Worker:
    """Create a worker; its agent is enrolled with a code of `enrol_worker`.

    Raises DomainError: character_bad, worker_name_bad, worker_name_taken.
    """
    worker = Worker(name=name.strip(), is_public=is_public)
    _check_name(worker)
    try:
        with transaction.atomic():
            worker.save()
    except IntegrityError as error:  # a concurrent request took the name
        raise _name_taken(worker) from error
    record_audit_entry("worker.create", worker, by=by, after={"public": is_public})
    return worker


@transaction.atomic
def enrol_worker(worker: Worker, *, by: User | None) -> str:
    """Return a new enrolment code; earlier codes are revoked. Raises DomainError worker_retired.

    The code is a secret: it is shown once and neither logged nor audited.
    """
    _check_in_service(worker)
    code = tokens.issue_code(worker)
    record_audit_entry("worker.enrol", worker, by=by)
    return code


@transaction.atomic
def drain_worker(worker: Worker, *, by: User | None) -> bool:
    """Stop assigning tasks to a worker; running ones continue. Returns whether it was enabled.

    The sweep ends tasks that wait for it after `OFFLINE_GRACE_S`, unless it is resumed.
    """
    return _switch(worker, "worker.drain", by=by, field="is_enabled", to=False)


@transaction.atomic
def resume_worker(worker: Worker, *, by: User | None) -> bool:
    """Assign tasks to a worker again, also if a failed health check holds it back."""
    changed = _switch(worker, "worker.resume", by=by, field="is_enabled", to=True)
    return release_worker(worker, by=by) or changed


def release_worker(worker: Worker, *, by: User | None) -> bool:
    """Release a worker that is quarantined; return whether it was held.

    Runs in the caller's transaction.
    """
    held = Worker.objects.filter(pk=worker.pk, held_at__isnull=False)
    before = {"held": worker.held_reason}
    if not held.update(held_at=None, held_reason=""):
        return False
    worker.refresh_from_db()
    record_audit_entry("worker.release", worker, by=by, before=before, after={"held": ""})
    return True


@transaction.atomic
def publish_worker(worker: Worker, *, by: User | None) -> bool:
    """Let every user use a worker."""
    return _switch(worker, "worker.publish", by=by, field="is_public", to=True)


@transaction.atomic
def hide_worker(worker: Worker, *, by: User | None) -> bool:
    """Restrict a worker to users with a grant; existing tasks stay."""
    return _switch(worker, "worker.hide", by=by, field="is_public", to=False)


@transaction.atomic
def allow_worker_scripts(worker: Worker, *, by: User | None) -> bool:
    """Allow users of a worker to run Python programs on it, if its agent allows that, too."""
    return _switch(worker, "worker.allow_scripts", by=by, field="allows_scripts", to=True)


@transaction.atomic
def forbid_worker_scripts(worker: Worker, *, by: User | None) -> bool:
    """Start no more scripts on a worker; running ones continue until they end."""
    return _switch(worker, "worker.forbid_scripts", by=by, field="allows_scripts", to=False)


@transaction.atomic
def revoke_worker(worker: Worker, *, by: User | None) -> bool:
    """Revoke all tokens and unused enrolment codes of a worker, so that it must be enrolled again.

    Running attempts are lost when their leases expire. Returns whether a token or a code was valid
    until then.
    """
    codes = tokens.revoke_codes(worker)
    revoked = tokens.revoke_tokens(worker)
    if codes or revoked:
        record_audit_entry(
            "worker.revoke", worker, by=by, before={"tokens": revoked, "codes": codes}
        )
    return bool(codes or revoked)


@transaction.atomic
def retire_worker(worker: Worker, *, by: User | None) -> bool:
    """Take a worker out of service permanently: no tasks, no agent, no entry in lists.

    Its history stays; it is renamed, so that its name can be used again. At the next
    sweep, tasks that wait for it move to another device if they have a target, and otherwise fail
    with reason `worker_retired`. Running attempts are lost when their leases expire.
    """
    name, now = worker.name, timezone.now()
    # the id makes the name unique; the old name is truncated to make room for it
    suffix = f".retired-{worker.pk}"
    room = (Worker._meta.get_field("name").max_length or 0) - len(suffix)
    if not Worker.objects.filter(pk=worker.pk, retired_at=None).update(
        retired_at=now,
        name=name[:room] + suffix,
        is_enabled=False,
        disabled_at=now,
        is_public=False,
        allows_scripts=False,
        held_at=None,
        held_reason="",
    ):
        return False
    worker.refresh_from_db()
    tokens.revoke_codes(worker)
    tokens.revoke_tokens(worker)
    worker.pools.clear()
    record_audit_entry(
        "worker.retire",
        worker,
        by=by,
        before={"name": name, "retired": False},
        after={"name": worker.name, "retired": True},
    )
    return True


@transaction.atomic
def update_worker(
    worker: Worker,
    *,
    name: str,
    slots: int,
    labels: Mapping[str, str],
    pools: Iterable[Pool],
    by: User | None,
) -> None:
    """Change a worker that is in service, to values that a form has validated.

    Raises DomainError: worker_retired, worker_name_taken.
    """
    row = Worker.objects.select_for_update(of=("self",)).get(pk=worker.pk)
    if row.retired_at is not None:
        raise DomainError("worker_retired", status=409, worker=row.name)
    before = _facts(row)
    row.name, row.slots, row.labels = name, slots, labels
    try:
        with transaction.atomic():
            row.save(update_fields=["name", "slots", "labels"])
    except IntegrityError as error:  # a concurrent request took the name
        raise _name_taken(row) from error
    row.pools.set(pools)
    after = {name: value for name, value in _facts(row).items() if value != before[name]}
    if after:
        old = {name: before[name] for name in after}
        record_audit_entry("worker.change", row, by=by, before=old, after=after)
    worker.refresh_from_db()


def validate_labels(labels: Mapping[str, str]) -> None:
    """Validate the labels of a worker.

    Raises DomainError character_bad, label_bad, label_long, labels_many.
    """
    if len(labels) > LABELS_LIMIT:
        raise DomainError("labels_many", field="labels", limit=LABELS_LIMIT)
    for name, value in labels.items():
        check_text(value, "labels")
        if not _LABEL_NAME.fullmatch(name) or not value.strip():
            raise DomainError("label_bad", field="labels", label=name[:60])
        if len(name) > LABEL_LENGTH or len(value) > LABEL_LENGTH:
            raise DomainError("label_long", field="labels", limit=LABEL_LENGTH)


def _switch(worker: Worker, action: str, *, by: User | None, field: str, to: bool) -> bool:
    """Set a boolean of a worker that is in service, and audit it; return whether it changed."""
    _check_in_service(worker)
    live = Worker.objects.filter(pk=worker.pk, retired_at=None).exclude(**{field: to})
    since = {"disabled_at": None if to else timezone.now()} if field == "is_enabled" else {}
    if not live.update(**{field: to}, **since):
        worker.refresh_from_db()
        return False
    worker.refresh_from_db()
    key = field.removeprefix("is_")
    record_audit_entry(action, worker, by=by, before={key: not to}, after={key: to})
    return True


def _check_in_service(worker: Worker) -> None:
    if Worker.objects.filter(pk=worker.pk, retired_at__isnull=False).exists():
        raise DomainError("worker_retired", status=409, worker=worker.name)


def _check_name(worker: Worker) -> None:
    """Validate a new name of a worker.

    Raises DomainError: character_bad, worker_name_bad, worker_name_taken.
    """
    check_text(worker.name, "name")
    try:
        worker.full_clean(validate_unique=False)
    except ValidationError as error:
        raise DomainError("worker_name_bad", field="name") from error
    if Worker.objects.filter(name=worker.name).exists():
        raise _name_taken(worker)


def _name_taken(worker: Worker) -> DomainError:
    return DomainError("worker_name_taken", field="name", status=409, name=worker.name)


def _facts(worker: Worker) -> dict[str, Any]:
    pools = list(worker.pools.order_by("name").values_list("name", flat=True))
    return {
        "name": worker.name,
        "slots": worker.slots,
        "labels": dict(worker.labels),
        "pools": pools,
    }
