"""Targets: match tasks that name no worker to workers by labels, pool and version range."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from accounts.models import User
from tasks.scheduling.eligibility import can_run, takes_tasks
from tasks.scheduling.queue_depth import loads_of
from webprofile.errors import DomainError
from webprofile.texts import unusable_character
from workers.models import Runtime, Worker
from workers.selectors import labels_of, visible_workers
from workers.status import status_of

MOST_LABELS = 10
LONGEST_LABEL = 200
#: how many devices an error message names
NAMED = 8


@dataclass(frozen=True)
class Target:
    """Requirements that a worker must meet.

    versions: a PEP 440 specifier for MegEngine versions, such as `>=1.12,<1.14`
    scripts: the worker must run scripts; set for tasks of kind script, not given by the user
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    pool: str = ""
    versions: str = ""
    scripts: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the value for `Task.target`, without empty requirements."""
        return {name: value for name, value in asdict(self).items() if value}


def target_of(row: Mapping[str, Any]) -> Target:
    """Return the target that is stored in `Task.target`."""
    return Target(**row)


def read_target(body: Mapping[str, Any], *, scripts: bool = False) -> Target:
    """Validate a user's target: {"labels": {name: value}, "pool": name, "versions": specifier}.

    All keys are optional; an empty target matches every worker. Raises DomainError target_*.

    scripts: whether the task is a script
    """
    labels, pool = body.get("labels") or {}, body.get("pool") or ""
    if not _is_text(pool):
        raise DomainError("target_bad", field="target")
    valid_labels = dict[str, str]()
    for name, value in labels.items():
        if not (_is_text(name) and _is_text(value) and name.strip() and value.strip()):
            raise DomainError("target_label_bad", field="labels", limit=LONGEST_LABEL)
        valid_labels[name.strip()] = value.strip()
    if len(valid_labels) > MOST_LABELS:
        raise DomainError("target_labels_many", field="labels", limit=MOST_LABELS)
    return Target(valid_labels, pool.strip(), _versions(body.get("versions") or ""), scripts)


def _versions(text: str) -> str:
    if not _is_text(text):
        raise DomainError("target_versions_bad", field="versions", versions=text[:40])
    try:
        return str(SpecifierSet(text.strip()))
    except InvalidSpecifier as error:
        raise DomainError("target_versions_bad", field="versions", versions=text[:40]) from error


def _is_text(value: str) -> bool:
    return len(value) <= LONGEST_LABEL and not unusable_character(value)


def newest_first(version: str) -> tuple[bool, Version]:
    """Return a sort key for versions: the newest is the greatest, an invalid one the smallest."""
    try:
        return True, Version(version)
    except InvalidVersion:
        return False, Version("0")


def runtime_for(target: Target, worker: Worker) -> Runtime | None:
    """Return the worker's newest working runtime that the target allows; None if there is none."""
    allowed = SpecifierSet(target.versions)
    usable = [
        runtime
        for runtime in worker.runtimes.all()
        if can_run(runtime, is_script=target.scripts)
        and (not target.versions or allowed.contains(runtime.version, prereleases=True))
    ]
    return max(usable, key=lambda runtime: newest_first(runtime.version), default=None)


def match(target: Target, worker: Worker, pools: AbstractSet[str]) -> Runtime | None:
    """Return as `runtime_for` if the worker meets the target, else None.

    pools: names of the pools to which the worker belongs
    """
    has_labels = target.labels.items() <= labels_of(worker).items()
    if not has_labels or (target.pool and target.pool not in pools):
        return None
    return runtime_for(target, worker)


def candidates(target: Target, *, user: User) -> list[Runtime]:
    """Return a runtime of each worker that matches, takes tasks and that the user may use.

    The idlest worker is first.
    """
    workers = list(_visible(user).filter(takes_tasks()))
    matches = (match(target, worker, pools_of(worker)) for worker in workers)
    options = [option for option in matches if option is not None]
    loads = loads_of(option.worker for option in options)
    return sorted(options, key=lambda option: (loads[option.worker_id].wait_s, option.worker.name))


def candidates_or_refuse(target: Target, *, user: User) -> list[Runtime]:
    """As `candidates`, but raises DomainError target_* if there are none."""
    options = candidates(target, user=user)
    if not options:
        raise refusal_of(target, user=user)
    return options


def pools_of(worker: Worker) -> set[str]:
    return {pool.name for pool in worker.pools.all()}


def _visible(user: User) -> Any:
    return visible_workers(user).prefetch_related("pools", "runtimes__worker").order_by("name")


def refusal_of(target: Target, *, user: User) -> DomainError:
    """Return the error for a target without candidates: the unmet requirement, and who meets it."""
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
    return _refusal_of_combination(target, workers)


def _refusal_of_combination(target: Target, workers: list[Worker]) -> DomainError:
    """Return the error for a target whose labels exist, but not together or not in its pool."""
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
        left = [worker for worker in outside if target.pool in pools_of(worker)]
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
    listed = list(names)
    more = f", +{len(listed) - NAMED}" if len(listed) > NAMED else ""
    return ", ".join(listed[:NAMED]) + more or "–"
