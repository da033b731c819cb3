"""Rules that decide whether a worker can start a task now, and which obstacles prevent it.

Each rule exists as a predicate on objects and as the same condition on rows; a test compares them.
Queries use the conditions; refusals of requests, explanations of the queue and the status of a
device use the predicates. `docs/decisions/eligibility.md` lists the rules in order.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any, NamedTuple

from django.db.models import Exists, OuterRef, Q, QuerySet

from accounts.models import User
from tasks.lifecycle.reasons import held_words
from tasks.models import Purpose, Task, TaskKind
from webprofile.errors import DomainError
from workers import status
from workers.models import Grant, Runtime, Worker
from workers.selectors import may_use_worker


class Placement(NamedTuple):
    """A worker, and the task that it would run.

    owner: the user who needs permission to use the worker; None if none is needed, as for a health
        check
    """

    worker: Worker
    version: str = ""
    runtime: Runtime | None = None
    owner: User | None = None
    is_script: bool = False
    is_check: bool = False


def placement_of(task: Task, worker: Worker) -> Placement:
    """Return the placement of a task, with its MegEngine version, on a worker."""
    is_check = task.purpose == Purpose.HEALTH
    return Placement(
        worker,
        task.runtime_version,
        find_runtime(worker, task.runtime_version),
        owner=None if is_check else task.owner,
        is_script=task.is_script,
        is_check=is_check,
    )


def find_runtime(worker: Worker, version: str) -> Runtime | None:
    """Return the worker's runtime of this version, working or not; None if there is none."""
    return next((row for row in worker.runtimes.all() if row.version == version), None)


@dataclass(frozen=True)
class EligibilityRule:
    """A condition that a worker must meet to start a task.

    code: code of the obstacle when the rule does not hold, in explanations and as a status
    refusal, field: error code and form field when a request is refused because of the rule
    holds: the predicate
    rows: the same condition as a `Q`, given the lookup path from the rows to the worker: "" for
        workers, "worker__" for tasks and their own worker; rules about a task accept tasks only
    about: further data for the messages about the obstacle, beside the names of worker and version
    hides: codes of obstacles that this one implies, and that are not reported beside it
    """

    code: str
    refusal: str
    field: str
    holds: Callable[[Placement], bool]
    rows: Callable[[str], Q]
    about: Callable[[Placement], dict[str, Any]] = lambda placement: {}
    hides: frozenset[str] = frozenset()


_IS_CHECK = Q(purpose=Purpose.HEALTH)


def _but(exempt: Q, path: str, condition: Q) -> Q:
    """Return the condition; when tasks are filtered (a path is given), exempt ones meet it, too."""
    return condition | exempt if path else condition


def _runtimes(**having: Any) -> Q:
    """Tasks whose worker has a runtime of their version that matches the lookups `having`."""
    rows = Runtime.objects.filter(worker=OuterRef("worker"), version=OuterRef("runtime_version"))
    return Q(Exists(rows.filter(**having)))


def _is_wheel(placement: Placement) -> bool:
    runtime = placement.runtime
    return runtime is not None and runtime.kind == Runtime.RuntimeKind.WHEEL


def _device_rule(
    rule: status.DeviceRule,
    refusal: str,
    about: Callable[[Placement], dict[str, Any]] = lambda placement: {},
    *,
    hides: frozenset[str] = frozenset(),
) -> EligibilityRule:
    code = rule.status.value
    return EligibilityRule(
        code, refusal, "worker", lambda it: rule.holds(it.worker), rule.rows, about, hides
    )


def owner_may_use(worker: Worker | None = None) -> Q:
    """Tasks whose owner may use `worker`, or by default the task's own: as `may_use_worker`."""
    used = OuterRef("worker") if worker is None else worker
    granted = Q(Exists(Grant.objects.filter(worker=used, user=OuterRef("owner"))))
    allowed = Q(owner__is_staff=True) | granted
    if worker is None:
        return Q(worker__is_public=True) | allowed
    return Q() if worker.is_public else allowed


ACCESS = EligibilityRule(
    "not_allowed",
    "worker_unknown",  # the error of a missing device, so that private devices stay hidden
    "worker",
    lambda it: it.owner is None or may_use_worker(it.owner, it.worker),
    lambda path: _IS_CHECK | owner_may_use(),
)
RETIRED = _device_rule(
    status.NOT_RETIRED,
    "worker_retired",
    lambda it: {"since": it.worker.retired_at},
    hides=frozenset({"drained", "held", "shut_out", "offline"}),
)
# resuming a drained device also releases it if it is quarantined
DRAINED = _device_rule(status.ENABLED, "worker_disabled", hides=frozenset({"held"}))
HELD = EligibilityRule(
    status.NOT_HELD.status.value,
    "worker_held",
    "worker",
    # a device that is quarantined still starts health checks; a passed check releases it
    lambda it: it.is_check or status.NOT_HELD.holds(it.worker),
    lambda path: _but(_IS_CHECK, path, status.NOT_HELD.rows(path)),
    lambda it: {"since": it.worker.held_at, "reason": held_words(it.worker)},
)
SHUT_OUT = _device_rule(
    status.LET_IN,
    "worker_shut_out",
    lambda it: {"since": it.worker.shut_out_at},
    hides=frozenset({"offline"}),
)
OFFLINE = _device_rule(
    status.ONLINE, "worker_is_offline", lambda it: {"since": it.worker.last_seen_at}
)
VERSION_GONE = EligibilityRule(
    "version_gone",
    "runtime_missing",
    "runtime",
    lambda it: it.runtime is not None,
    lambda path: _runtimes(),
    hides=frozenset({"version_broken", "script_needs_wheel"}),
)
VERSION_BROKEN = EligibilityRule(
    "version_broken",
    "runtime_broken",
    "runtime",
    lambda it: it.runtime is not None and not it.runtime.problem,
    lambda path: _runtimes(problem=""),
    lambda it: {"problem": it.runtime.problem_text if it.runtime else ""},
)
SCRIPTS_ALLOWED = EligibilityRule(
    "scripts_not_allowed",
    "scripts_not_allowed",
    "worker",
    lambda it: not it.is_script or it.worker.allows_scripts,
    lambda path: _but(Q(kind=TaskKind.MODEL), path, Q((f"{path}allows_scripts", True))),
    hides=frozenset({"scripts_not_offered", "script_needs_wheel"}),
)
SCRIPTS_OFFERED = EligibilityRule(
    "scripts_not_offered",
    "scripts_not_offered",
    "worker",
    lambda it: not it.is_script or it.worker.offers_scripts,
    lambda path: _but(Q(kind=TaskKind.MODEL), path, Q((f"{path}offers_scripts", True))),
    hides=frozenset({"script_needs_wheel"}),
)
SCRIPT_WHEEL = EligibilityRule(
    "script_needs_wheel",
    "script_needs_wheel",
    "runtime",
    lambda it: not it.is_script or _is_wheel(it),
    lambda path: Q(kind=TaskKind.MODEL) | _runtimes(kind=Runtime.RuntimeKind.WHEEL),
)

#: the state that a device needs to start any task
DEVICE = (RETIRED, DRAINED, HELD, SHUT_OUT, OFFLINE)
VERSION = (VERSION_GONE, VERSION_BROKEN)
#: both the site's administrators and the device's owner allow scripts
CONSENT = (SCRIPTS_ALLOWED, SCRIPTS_OFFERED)
SCRIPT = (*CONSENT, SCRIPT_WHEEL)
#: requirements for running a task with one version on a device
RUNTIME = (*VERSION, *SCRIPT)
#: all rules in order of evaluation: the first that does not hold refuses a request
RULES = (ACCESS, *DEVICE, *RUNTIME)


# -- of objects -----------------------------------------------------------------------------------


def obstacles(
    placement: Placement, rules: Iterable[EligibilityRule] = RULES
) -> Iterator[EligibilityRule]:
    """Yield the rules that do not hold, except those that an earlier one hides."""
    hidden = frozenset[str]()
    for rule in rules:
        if rule.code not in hidden and not rule.holds(placement):
            hidden |= rule.hides
            yield rule


def data_of(rule: EligibilityRule, placement: Placement) -> dict[str, Any]:
    names = {"worker": placement.worker.name, "version": placement.version[:40]}
    return names | rule.about(placement)


def refusal_of(
    placement: Placement, rules: Iterable[EligibilityRule] = RULES
) -> DomainError | None:
    """Return the error that refuses a request for this placement; None if all rules hold."""
    rule = next(obstacles(placement, rules), None)
    if rule is None:
        return None
    return DomainError(rule.refusal, field=rule.field, **data_of(rule, placement))


def meets(placement: Placement, rules: Iterable[EligibilityRule] = RULES) -> bool:
    return all(rule.holds(placement) for rule in rules)


def can_run(runtime: Runtime, *, is_script: bool) -> bool:
    """Whether a runtime works and, for a script, may run scripts."""
    placement = Placement(runtime.worker, runtime.version, runtime, is_script=is_script)
    return meets(placement, RUNTIME)


def starts_checks(worker: Worker) -> bool:
    """Whether this worker starts health checks now; a worker that is quarantined does, too."""
    return meets(Placement(worker, is_check=True), DEVICE)


def is_script_forbidden(task: Task, worker: Worker) -> bool:
    """Whether the task is a script and scripts are currently not allowed on this worker."""
    return not meets(Placement(worker, is_script=task.is_script), CONSENT)


# -- of rows --------------------------------------------------------------------------------------


def all_hold(rules: Iterable[EligibilityRule], path: str = "worker__") -> Q:
    """Condition that all rules hold: for tasks and their own worker, or for workers (path "")."""
    return reduce(and_, (rule.rows(path) for rule in rules))


def takes_tasks(path: str = "", *, checks: bool = False) -> Q:
    """Workers that start tasks now: online, enabled, not quarantined, revoked or retired.

    path: lookup path from the filtered rows to the worker, such as `worker__`
    checks: workers that start health checks, which includes those that are quarantined
    """
    return all_hold((rule for rule in DEVICE if not (checks and rule is HELD)), path)


def runnable() -> Q:
    """Tasks that their own worker can run, and that their owner may run there.

    Does not check the worker's state, except its quarantine, which does not affect health
    checks.
    """
    # VERSION_GONE is implied: a working version is an installed one, so this saves an EXISTS
    return all_hold((ACCESS, HELD, VERSION_BROKEN, *SCRIPT))


def startable() -> Q:
    """Tasks that their own worker can start now."""
    return takes_tasks("worker__", checks=True) & runnable()


def scripts_takers() -> QuerySet[Worker]:
    """Return the workers on which scripts are currently allowed."""
    return Worker.objects.filter(all_hold(CONSENT, ""))
