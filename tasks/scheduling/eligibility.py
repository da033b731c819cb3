"""Whether a device can start a task now, and what stands in the way: every rule, written once.

A rule is a predicate on objects and the same condition on rows, which a test compares. Queries are
built from the conditions; refusals, the explanations of a queue and the status of a device are read
from the predicates. `docs/decisions/eligibility.md` says who asks which of the rules.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any, NamedTuple

from django.db.models import Exists, OuterRef, Q, QuerySet

from accounts.models import User
from tasks.kinds import Kind
from tasks.lifecycle.reasons import held_words
from tasks.models import Purpose, Task
from webprofile.errors import DomainError
from workers import status
from workers.models import Grant, Runtime, Worker
from workers.selectors import may_use_worker


class Placement(NamedTuple):
    """A device, and what it is asked to run.

    owner: whose permission counts; None where nobody's does, as for a health check
    """

    worker: Worker
    version: str = ""
    runtime: Runtime | None = None
    owner: User | None = None
    is_script: bool = False
    is_check: bool = False


def placement_of(task: Task, worker: Worker) -> Placement:
    """The placement of a task, with its version, on some device."""
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
    """This version on this device, whether it works or not."""
    return next((each for each in worker.runtimes.all() if each.version == version), None)


@dataclass(frozen=True)
class Rule:
    """What must hold for a device to start a task.

    code: of the obstacle, where the rule does not hold, in explanations and as a status
    refusal, field: the error code and the form field at fault, where a request is refused for it
    holds: the predicate
    rows: the same of rows, by the path from them to the device: "" for devices, "worker__" for
        tasks and their own device. Rules about a task take tasks alone.
    about: what the sentences of the obstacle say beside the names of device and version
    hides: obstacles that go without saying, beside this one
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
    """Return the condition; where tasks are filtered (a path), exempt ones meet it, too."""
    return condition | exempt if path else condition


def _runtimes(**having: Any) -> Q:
    """Tasks whose device has their version, where the version's row matches `having`."""
    found = Runtime.objects.filter(worker=OuterRef("worker"), version=OuterRef("runtime_version"))
    return Q(Exists(found.filter(**having)))


def _is_wheel(placement: Placement) -> bool:
    runtime = placement.runtime
    return runtime is not None and runtime.kind == Runtime.Kind.WHEEL


def _device_rule(
    rule: status.DeviceRule,
    refusal: str,
    about: Callable[[Placement], dict[str, Any]] = lambda placement: {},
    *,
    hides: frozenset[str] = frozenset(),
) -> Rule:
    code = rule.status.value
    return Rule(code, refusal, "worker", lambda it: rule.holds(it.worker), rule.rows, about, hides)


def owner_may_use(worker: Worker | None = None) -> Q:
    """Tasks whose owner may use this device, without one their own: as `may_use_worker`."""
    there = OuterRef("worker") if worker is None else worker
    granted = Q(Exists(Grant.objects.filter(worker=there, user=OuterRef("owner"))))
    allowed = Q(owner__is_staff=True) | granted
    if worker is None:
        return Q(worker__is_public=True) | allowed
    return Q() if worker.is_public else allowed


ACCESS = Rule(
    "not_allowed",
    "worker_unknown",  # as if it did not exist: a stranger learns nothing of private devices
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
# to resume a device ends that it is held back, too
DRAINED = _device_rule(status.ENABLED, "worker_disabled", hides=frozenset({"held"}))
HELD = Rule(
    status.NOT_HELD.status.value,
    "worker_held",
    "worker",
    # one that is held back still starts health checks, whose success ends that
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
VERSION_GONE = Rule(
    "version_gone",
    "runtime_missing",
    "runtime",
    lambda it: it.runtime is not None,
    lambda path: _runtimes(),
    hides=frozenset({"version_broken", "script_needs_wheel"}),
)
VERSION_BROKEN = Rule(
    "version_broken",
    "runtime_broken",
    "runtime",
    lambda it: it.runtime is not None and not it.runtime.problem,
    lambda path: _runtimes(problem=""),
    lambda it: {"problem": it.runtime.problem if it.runtime else ""},
)
SCRIPTS_ALLOWED = Rule(
    "scripts_not_allowed",
    "scripts_not_allowed",
    "worker",
    lambda it: not it.is_script or it.worker.allows_scripts,
    lambda path: _but(Q(kind=Kind.MODEL), path, Q((f"{path}allows_scripts", True))),
    hides=frozenset({"scripts_not_offered", "script_needs_wheel"}),
)
SCRIPTS_OFFERED = Rule(
    "scripts_not_offered",
    "scripts_not_offered",
    "worker",
    lambda it: not it.is_script or it.worker.offers_scripts,
    lambda path: _but(Q(kind=Kind.MODEL), path, Q((f"{path}offers_scripts", True))),
    hides=frozenset({"script_needs_wheel"}),
)
SCRIPT_WHEEL = Rule(
    "script_needs_wheel",
    "script_needs_wheel",
    "runtime",
    lambda it: not it.is_script or _is_wheel(it),
    lambda path: Q(kind=Kind.MODEL) | _runtimes(kind=Runtime.Kind.WHEEL),
)

#: what a device must be to start anything
DEVICE = (RETIRED, DRAINED, HELD, SHUT_OUT, OFFLINE)
VERSION = (VERSION_GONE, VERSION_BROKEN)
#: that who runs the site and who owns the device let scripts run on it
CONSENT = (SCRIPTS_ALLOWED, SCRIPTS_OFFERED)
SCRIPT = (*CONSENT, SCRIPT_WHEEL)
#: what a version on a device must be to run a task with it
RUNTIME = (*VERSION, *SCRIPT)
#: in the order in which they are asked: the first that does not hold refuses a request
RULES = (ACCESS, *DEVICE, *RUNTIME)


# -- of objects -----------------------------------------------------------------------------------


def obstacles(placement: Placement, rules: Iterable[Rule] = RULES) -> Iterator[Rule]:
    """The rules that do not hold, without those that another one of them hides."""
    hidden = frozenset[str]()
    for rule in rules:
        if rule.code not in hidden and not rule.holds(placement):
            hidden |= rule.hides
            yield rule


def data_of(rule: Rule, placement: Placement) -> dict[str, Any]:
    """What is filled into the sentences of an obstacle."""
    names = {"worker": placement.worker.name, "version": placement.version[:40]}
    return names | rule.about(placement)


def refusal_of(placement: Placement, rules: Iterable[Rule] = RULES) -> DomainError | None:
    """Why a request for this placement is refused; None if it can be met."""
    rule = next(obstacles(placement, rules), None)
    if rule is None:
        return None
    return DomainError(rule.refusal, field=rule.field, **data_of(rule, placement))


def meets(placement: Placement, rules: Iterable[Rule] = RULES) -> bool:
    return all(rule.holds(placement) for rule in rules)


def can_run(worker: Worker, runtime: Runtime, *, is_script: bool) -> bool:
    """Whether this version works there, and for a script, whether scripts may run with it."""
    placement = Placement(worker, runtime.version, runtime, is_script=is_script)
    return meets(placement, RUNTIME)


def starts_checks(worker: Worker) -> bool:
    """Whether this device starts health checks now, which one that is held back does."""
    return meets(Placement(worker, is_check=True), DEVICE)


def is_script_forbidden(task: Task, worker: Worker) -> bool:
    """Whether this is a script, and scripts may not run on this device at this moment."""
    return not meets(Placement(worker, is_script=task.is_script), CONSENT)


# -- of rows --------------------------------------------------------------------------------------


def rows_of(rules: Iterable[Rule], path: str = "worker__") -> Q:
    """Rows for which all these rules hold: tasks on their own devices, or devices with path ""."""
    return reduce(and_, (rule.rows(path) for rule in rules))


def takes_tasks(path: str = "", *, checks: bool = False) -> Q:
    """Devices that start tasks now: online, enabled, neither held back, shut out nor retired.

    path: the way from the rows that are filtered to the device, such as `worker__`
    checks: those that start health checks, to which one that is held back belongs
    """
    return rows_of((rule for rule in DEVICE if not (checks and rule is HELD)), path)


def runnable() -> Q:
    """Tasks that their own device, if it takes tasks, can run, and their owner may run there.

    Of the state of the device this asks only whether it is held back, which health checks are not.
    """
    # a version that works is there: that needs no EXISTS of its own
    return rows_of((ACCESS, HELD, VERSION_BROKEN, *SCRIPT))


def startable() -> Q:
    """Tasks that their own device starts now, when it is their turn."""
    return takes_tasks("worker__", checks=True) & runnable()


def scripts_takers() -> QuerySet[Worker]:
    """Devices that may run scripts at this moment."""
    return Worker.objects.filter(rows_of(CONSENT, ""))
