"""Which devices a task may go to that asks for none by name: labels, a pool, versions."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from accounts.models import User
from tasks.scheduling.eligibility import can_run, takes_tasks
from tasks.scheduling.queue_depth import loads_of
from webprofile.errors import DomainError
from workers.models import Runtime, Worker
from workers.selectors import labels_of, visible_workers
from workers.status import status_of

MOST_LABELS = 10
LONGEST_LABEL = 200
#: how many devices a refusal names
NAMED = 8


@dataclass(frozen=True)
class Target:
    """What a device must have. `versions` is a range as in Python packages: `>=1.12,<1.14`.

    scripts: it must run scripts; that of a script's task, which its owner does not write
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    pool: str = ""
    versions: str = ""
    scripts: bool = False

    def as_json(self) -> dict[str, Any]:
        """As `Task.target` keeps it, without what was not asked for."""
        row = {
            "labels": dict(self.labels),
            "pool": self.pool,
            "versions": self.versions,
            "scripts": self.scripts,
        }
        return {name: value for name, value in row.items() if value}


@dataclass(frozen=True)
class Candidate:
    """A device, and the newest of its versions, that a target may have."""

    worker: Worker
    runtime: Runtime


def target_of(kept: Mapping[str, Any]) -> Target:
    """What `Task.target` holds."""
    return Target(
        kept.get("labels", {}),
        kept.get("pool", ""),
        kept.get("versions", ""),
        bool(kept.get("scripts")),
    )


def read_target(given: Mapping[str, Any], *, scripts: bool = False) -> Target:
    """Check a target that a user gives: {"labels": {name: value}, "pool": name, "versions": range}.

    Each key is optional; without any every device will do. `scripts`: it is a script's. Raises
    DomainError target_*.
    """
    if not set(given) <= {"labels", "pool", "versions"}:
        raise DomainError("target_bad", field="target")
    labels, pool = given.get("labels") or {}, given.get("pool") or ""
    if not isinstance(labels, Mapping) or not _is_text(pool):
        raise DomainError("target_bad", field="target")
    kept = dict[str, str]()
    for name, value in labels.items():
        if not (_is_text(name) and _is_text(value) and name.strip() and value.strip()):
            raise DomainError("target_label_bad", field="labels", limit=LONGEST_LABEL)
        kept[name.strip()] = value.strip()
    if len(kept) > MOST_LABELS:
        raise DomainError("target_labels_many", field="labels", limit=MOST_LABELS)
    return Target(kept, pool.strip(), _versions(given.get("versions") or ""), scripts)


def _versions(given: Any) -> str:
    if not _is_text(given):
        raise DomainError("target_versions_bad", field="versions", versions=str(given)[:40])
    try:
        return str(SpecifierSet(given.strip()))
    except InvalidSpecifier as error:
        raise DomainError("target_versions_bad", field="versions", versions=given[:40]) from error


def _is_text(value: Any) -> bool:
    return (
        isinstance(value, str)
        and len(value) <= LONGEST_LABEL
        and (not value or value.isprintable())
    )


def newest_first(version: str) -> tuple[bool, Version]:
    """A sorting key of versions, the greatest is the newest; what is no version comes first."""
    try:
        return True, Version(version)
    except InvalidVersion:
        return False, Version("0")


def runtime_for(target: Target, worker: Worker) -> Runtime | None:
    """The newest version of this device that the target allows and that works."""
    allowed = SpecifierSet(target.versions)
    usable = [
        runtime
        for runtime in worker.runtimes.all()
        if can_run(worker, runtime, is_script=target.scripts)
        and (not target.versions or allowed.contains(runtime.version, prereleases=True))
    ]
    return max(usable, key=lambda runtime: newest_first(runtime.version), default=None)


def match(target: Target, worker: Worker, pools: AbstractSet[str]) -> Candidate | None:
    """The device as a candidate, if it has all that is asked for. `pools`: those it is in."""
    has_labels = target.labels.items() <= labels_of(worker).items()
    if not has_labels or (target.pool and target.pool not in pools):
        return None
    runtime = runtime_for(target, worker)
    return Candidate(worker, runtime) if runtime else None


def candidates(target: Target, *, user: User) -> list[Candidate]:
    """The devices that match, take tasks now and that the user may use; the soonest free first."""
    workers = list(_visible(user).filter(takes_tasks()))
    matches = (match(target, worker, pools_of(worker)) for worker in workers)
    found = [each for each in matches if each is not None]
    loads = loads_of(each.worker for each in found)
    return sorted(found, key=lambda each: (loads[each.worker.pk].wait_s, each.worker.name))


def pools_of(worker: Worker) -> set[str]:
    return {pool.name for pool in worker.pools.all()}


def _visible(user: User) -> Any:
    return visible_workers(user).prefetch_related("pools", "runtimes__worker").order_by("name")


def refusal_of(target: Target, *, user: User) -> DomainError:
    """Why no device can be had for a target that has no candidates: what is missing, who has it."""
    workers = list(_visible(user))
    if not workers:
        return DomainError("target_no_device", field="target")
    if target.scripts:
        takers = [worker for worker in workers if worker.takes_scripts]
        if not takers:
            return DomainError("target_no_scripts", field="target")
        workers = takers
    for name, value in target.labels.items():
        having = [(worker, labels_of(worker)) for worker in workers if name in labels_of(worker)]
        if not having:
            known = sorted({label for worker in workers for label in labels_of(worker)})
            return DomainError(
                "target_label_unknown", field="labels", label=name, labels=_listed(known)
            )
        if not any(labels[name] == value for _, labels in having):
            devices = _listed(f"{worker.name} ({labels[name]})" for worker, labels in having)
            return DomainError(
                "target_label_unmet", field="labels", label=name, value=value, devices=devices
            )
    return _refusal_together(target, workers)


def _refusal_together(target: Target, workers: list[Worker]) -> DomainError:
    """As `refusal_of`, where each label alone is to be had."""
    left = [worker for worker in workers if target.labels.items() <= labels_of(worker).items()]
    if not left:
        labels = ", ".join(f"{name}={value}" for name, value in target.labels.items())
        return DomainError("target_labels_together", field="labels", labels=labels)
    if target.pool:
        pools = sorted({name for worker in workers for name in pools_of(worker)})
        if target.pool not in pools:
            return DomainError(
                "target_pool_unknown", field="pool", pool=target.pool, pools=_listed(pools)
            )
        outside = left
        left = [worker for worker in left if target.pool in pools_of(worker)]
        if not left:
            devices = _listed(worker.name for worker in outside)
            return DomainError("target_pool_unmet", field="pool", pool=target.pool, devices=devices)
    able = [worker for worker in left if runtime_for(target, worker)]
    if not able:
        devices = _listed(f"{worker.name} ({_usable(worker)})" for worker in left)
        return DomainError(
            "target_versions_unmet", field="versions", versions=target.versions, devices=devices
        )
    devices = _listed(f"{worker.name} ({status_of(worker).label})" for worker in able)
    return DomainError("target_away", field="target", devices=devices)


def _usable(worker: Worker) -> str:
    versions = [runtime.version for runtime in worker.runtimes.all() if not runtime.problem]
    return ", ".join(sorted(versions, key=newest_first, reverse=True)) or "–"


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    more = f", +{len(found) - NAMED}" if len(found) > NAMED else ""
    return ", ".join(found[:NAMED]) + more or "–"
