"""Everything that changes a worker."""

from collections.abc import Iterable
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from accounts.audit import audit_record
from accounts.models import User
from agent.protocol import FEATURE_SCRIPTS, Facts, RuntimeInfo
from webprofile.errors import DomainError
from workers import tokens
from workers.models import Pulse, Runtime, Worker
from workers.roofs import roofs_as_json


@transaction.atomic
def worker_ensure(*, name: str, is_public: bool = True) -> Worker:
    """Return the worker of this name, registered now if it is new."""
    worker, _ = Worker.objects.get_or_create(name=name, defaults={"is_public": is_public})
    return worker


@transaction.atomic
def worker_introduce(
    worker: Worker,
    *,
    facts: Facts,
    agent_version: str,
    runtimes: Iterable[RuntimeInfo],
    features: Iterable[str] = (),
) -> None:
    """Record what an agent says of itself; runtimes that it no longer names are removed.

    What is known already is not written again: after a restart of the site all agents come at once.
    """
    worker_seen(worker)
    # features beside the facts: what an older agent cannot do is not asked of it
    said = {**facts.model_dump(mode="json"), "features": sorted(features)}
    columns = {
        "facts": said,
        "agent_version": agent_version,
        "offers_scripts": FEATURE_SCRIPTS in said["features"],
    }
    if any(getattr(worker, name) != value for name, value in columns.items()):
        for name, value in columns.items():
            setattr(worker, name, value)
        worker.save(update_fields=list(columns))
    known = {runtime.version: runtime for runtime in worker.runtimes.all()}
    for info in runtimes:
        columns = _columns_of(info)
        runtime = known.pop(info.version, None)
        if runtime is None or any(getattr(runtime, name) != columns[name] for name in columns):
            Runtime.objects.update_or_create(worker=worker, version=info.version, defaults=columns)
    if known:
        worker.runtimes.filter(version__in=known).delete()


def _columns_of(info: RuntimeInfo) -> dict[str, Any]:
    return {
        "kind": info.kind,
        "python": info.python,
        "problem": info.problem,
        "flags": sorted(info.flags),
        "builds": sorted(info.builds),
        "libraries": sorted(info.libraries),
        "roofs": roofs_as_json(info.roofs),
    }


def worker_seen(worker: Worker) -> None:
    """Note a sign of life; no event."""
    now = timezone.now()
    if not Pulse.objects.filter(worker=worker).update(last_seen_at=now):
        Pulse.objects.update_or_create(worker=worker, defaults={"last_seen_at": now})


def workers_seen(workers: Iterable[int]) -> None:
    """Note a heartbeat of each of these devices, which were seen before: one UPDATE for all."""
    Pulse.objects.filter(worker__in=workers).update(last_seen_at=timezone.now())


@transaction.atomic
def worker_register(*, name: str, by: User | None, is_public: bool = False) -> Worker:
    """Add a device; it is enrolled by a code of `worker_enrol`.

    Raises DomainError: worker_name_bad, worker_name_taken.
    """
    worker = Worker(name=name.strip(), is_public=is_public)
    name_check(worker)
    try:
        with transaction.atomic():
            worker.save()
    except IntegrityError as error:  # of two who register it at once, one comes second
        raise name_taken(worker) from error
    audit_record("worker.create", worker, by=by, after={"public": is_public})
    return worker


@transaction.atomic
def worker_enrol(worker: Worker, *, by: User | None) -> str:
    """Return a new enrolment code; codes issued before are void. Raises DomainError worker_retired.

    The code is a secret: it is shown once and neither logged nor audited.
    """
    _check_in_service(worker)
    code = tokens.code_issue(worker)
    audit_record("worker.enrol", worker, by=by)
    return code


@transaction.atomic
def worker_drain(worker: Worker, *, by: User | None) -> bool:
    """Give a device no new tasks; what runs goes on. Returns whether that changed anything.

    What waits for it alone is ended by the sweep after `OFFLINE_GRACE_S`, unless it is resumed.
    """
    return _switch(worker, "worker.drain", by=by, field="is_enabled", to=False)


@transaction.atomic
def worker_resume(worker: Worker, *, by: User | None) -> bool:
    """Give a device tasks again, also one that a failed health check holds back."""
    changed = _switch(worker, "worker.resume", by=by, field="is_enabled", to=True)
    held = worker.held_reason
    if Worker.objects.filter(pk=worker.pk, held_at__isnull=False).update(
        held_at=None, held_reason=""
    ):
        worker.refresh_from_db()
        audit_record("worker.release", worker, by=by, before={"held": held}, after={"held": ""})
        changed = True
    return changed


@transaction.atomic
def worker_publish(worker: Worker, *, by: User | None) -> bool:
    """Let every user choose a device."""
    return _switch(worker, "worker.publish", by=by, field="is_public", to=True)


@transaction.atomic
def worker_hide(worker: Worker, *, by: User | None) -> bool:
    """Let only those choose a device to whom it was granted; tasks that are there stay."""
    return _switch(worker, "worker.hide", by=by, field="is_public", to=False)


@transaction.atomic
def worker_allow_scripts(worker: Worker, *, by: User | None) -> bool:
    """Let those who may use a device run Python programs on it, if its own agent allows it too."""
    return _switch(worker, "worker.allow_scripts", by=by, field="allows_scripts", to=True)


@transaction.atomic
def worker_forbid_scripts(worker: Worker, *, by: User | None) -> bool:
    """Start no more scripts on a device; what runs there goes on until it ends or is cancelled."""
    return _switch(worker, "worker.forbid_scripts", by=by, field="allows_scripts", to=False)


@transaction.atomic
def worker_revoke(worker: Worker, *, by: User | None) -> bool:
    """Shut a worker's agent out until it is enrolled again; unused codes are void too.

    Returns whether a token or a code was good until then.
    """
    codes = tokens.codes_revoke(worker)
    revoked = tokens.tokens_revoke(worker)
    if codes or revoked:
        audit_record("worker.revoke", worker, by=by, before={"tokens": revoked, "codes": codes})
    return bool(codes or revoked)


@transaction.atomic
def worker_retire(worker: Worker, *, by: User | None) -> bool:
    """Take a device out of service for good: no tasks, no agent, no place in lists.

    Its history stays, under a name that says so; the name it had is free for another device.
    What waits for it alone fails with `worker_retired` at the next sweep, and what runs is lost
    there when its lease ends.
    """
    name, now = worker.name, timezone.now()
    # the number makes it unique, and room for it is cut from the name
    mark = f".retired-{worker.pk}"
    room = (Worker._meta.get_field("name").max_length or 0) - len(mark)
    if not Worker.objects.filter(pk=worker.pk, retired_at=None).update(
        retired_at=now,
        name=name[:room] + mark,
        is_enabled=False,
        disabled_at=now,
        is_public=False,
        allows_scripts=False,
        held_at=None,
        held_reason="",
    ):
        return False
    worker.refresh_from_db()
    tokens.codes_revoke(worker)
    tokens.tokens_revoke(worker)
    worker.pools.clear()
    audit_record(
        "worker.retire",
        worker,
        by=by,
        before={"name": name, "retired": False},
        after={"name": worker.name, "retired": True},
    )
    return True


def _switch(worker: Worker, action: str, *, by: User | None, field: str, to: bool) -> bool:
    """Set a yes or no of a device that is in service; who comes second changes nothing."""
    _check_in_service(worker)
    live = Worker.objects.filter(pk=worker.pk, retired_at=None).exclude(**{field: to})
    since = {"disabled_at": None if to else timezone.now()} if field == "is_enabled" else {}
    if not live.update(**{field: to}, **since):
        worker.refresh_from_db()
        return False
    worker.refresh_from_db()
    key = field.removeprefix("is_")
    audit_record(action, worker, by=by, before={key: not to}, after={key: to})
    return True


def _check_in_service(worker: Worker) -> None:
    if Worker.objects.filter(pk=worker.pk, retired_at__isnull=False).exists():
        raise DomainError("worker_retired", status=409, worker=worker.name)


def name_check(worker: Worker) -> None:
    """Whether a new device, or one with a new name, may be called so.

    Raises DomainError: worker_name_bad, worker_name_taken.
    """
    try:
        worker.full_clean(validate_unique=False)
    except ValidationError as error:
        raise DomainError("worker_name_bad", field="name") from error
    if Worker.objects.filter(name=worker.name).exists():
        raise name_taken(worker)


def name_taken(worker: Worker) -> DomainError:
    return DomainError("worker_name_taken", field="name", status=409, name=worker.name)
