"""Validation of a request for a task: every rule that can refuse it before the task exists."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

from django.conf import settings
from django.db.models import Sum

from accounts.models import User
from agent.protocol.input_rules import BINARY_DTYPES
from agent.protocol.options import Capabilities, Value, check_options, find_problems
from tasks.models import Artifact, Purpose, Task, TaskFile
from tasks.scheduling import eligibility
from tasks.scheduling.eligibility import Placement, find_runtime
from tasks.scheduling.fair_share import ANY_PRIORITY, OWN_PRIORITY
from tasks.scheduling.targets import candidates_or_refuse
from tasks.states import LIVE
from tasks.submission.files import check_files, check_input_name
from tasks.submission.inputs import read_inputs
from tasks.submission.pairing import arm_requests, check_pairing
from tasks.submission.plans import longest_run_s
from tasks.submission.request import InputRequest, TaskRequest
from tasks.submission.scripts import check_script
from webprofile.errors import DomainError
from webprofile.texts import check_text
from workers.models import Runtime, Worker

TITLE_LIMIT = 200


@dataclass(frozen=True)
class Admitted:
    """A validated request: the chosen runtime, and the normalized options and inputs.

    arms: the arms of a paired comparison after the first
    """

    runtime: Runtime
    options: dict[str, Value]
    inputs: list[InputRequest]
    arms: tuple["Admitted", ...] = ()


def admit(*, owner: User, worker: Worker | None, request: TaskRequest) -> Admitted:
    """Validate a request for `worker`, or for the best worker for its target.

    Raises DomainError, naming the field and the cause.
    """
    if request.pairing is not None or any(file.arm for file in request.files):
        check_pairing(request)
        check_time_limit(request)
        baseline, *arms = (
            admit(owner=owner, worker=worker, request=arm) for arm in arm_requests(request)
        )
        return replace(baseline, arms=tuple(arms))
    options = _candidates(owner, worker, request)
    check_files(request)
    check_script(request)
    check_priority(owner, request.priority)
    if len(request.title) > TITLE_LIMIT or len(request.title.splitlines()) > 1:
        raise DomainError("title_bad", field="title", limit=TITLE_LIMIT)
    check_text(request.title, "title")
    check_time_limit(request)
    chosen = first_that_fits(options, request)
    if request.script is not None:
        return Admitted(chosen, {}, [])
    return Admitted(
        chosen,
        check_options(request.options, files=request.option_files, profiled=False),
        read_inputs(request.inputs, request.files, request.fed, kind=chosen.kind),
    )


def _candidates(owner: User, worker: Worker | None, request: TaskRequest) -> list[Runtime]:
    if request.target is None:
        if worker is None:
            raise DomainError("worker_unknown", field="worker")
        return [runtime_of(owner, worker, request.runtime_version, purpose=request.purpose)]
    if worker is not None or request.runtime_version:
        raise DomainError("target_and_worker", field="target")
    return candidates_or_refuse(request.target, user=owner)


def first_that_fits(
    options: list[Runtime], request: TaskRequest, arrays: Sequence[Mapping[str, Any]] = ()
) -> Runtime:
    """Return the first runtime that supports the request; `arrays` as in `check_fits`.

    Raises DomainError if none does: the error of the first one.
    """
    refusals = []
    for runtime in options:
        refusal = refusal_by(check_fits, runtime, request, arrays)
        if refusal is None:
            return runtime
        refusals.append(refusal)
    raise refusals[0]


def check_fits(
    runtime: Runtime, request: TaskRequest, arrays: Sequence[Mapping[str, Any]] = ()
) -> None:
    """Check that a runtime and its worker support a request. Raises DomainError.

    arrays: the arrays of the data files (`TaskFile.arrays`), once these are uploaded
    """
    if request.script is not None and (refusal := refusal_of_script(runtime)):
        raise refusal
    if request.script is not None:
        return
    read_inputs(request.inputs, request.files, request.fed, kind=runtime.kind)
    if runtime.kind == Runtime.RuntimeKind.BINARY:
        for array in arrays:
            if array["name"]:
                check_input_name(array["name"], "data", runtime.kind)
            if array["dtype"] not in BINARY_DTYPES:
                choices = ", ".join(BINARY_DTYPES)
                raise DomainError(
                    "dtype_not_here", field="data", dtype=array["dtype"], choices=choices
                )
    for refusal in option_refusals(request, runtime.capabilities):
        raise refusal


def refusal_of_script(runtime: Runtime) -> DomainError | None:
    """Return the error if scripts cannot run on this runtime; None if they can."""
    placement = Placement(runtime.worker, runtime.version, runtime, is_script=True)
    return eligibility.refusal_of(placement, eligibility.SCRIPT)


def refusal_by(check: Callable[..., object], *args: Any, **kwargs: Any) -> DomainError | None:
    """Call a check; return the DomainError that it raises, or None."""
    try:
        check(*args, **kwargs)
    except DomainError as error:
        return error
    return None


class Quota(NamedTuple):
    """Number of a user's live tasks, and its limit."""

    live: int
    limit: int


def quota_of(owner: User) -> Quota:
    """Return the quota of a user; health checks do not count."""
    limit = settings.TASKS_PER_USER if owner.task_limit is None else owner.task_limit
    tasks = Task.objects.filter(owner=owner, state__in=LIVE, purpose=Purpose.USER)
    return Quota(tasks.count(), limit)


class StorageQuota(NamedTuple):
    """Size of the files of a user's tasks, and its limit, in bytes."""

    used: int
    limit: int


def storage_quota_of(owner: User) -> StorageQuota:
    """Return the storage quota of a user.

    Files count from the creation of their task, with the announced size, and results once they are
    stored, until they are removed. Health checks do not count.
    """
    gib = owner.storage_limit_gib
    limit = settings.STORAGE_PER_USER_BYTES if gib is None else gib << 30
    files = TaskFile.objects.filter(
        task__owner=owner, task__purpose=Purpose.USER, purged_at=None
    ).order_by()
    results = Artifact.objects.filter(
        attempt__task__owner=owner, attempt__task__purpose=Purpose.USER, is_stored=True
    ).order_by()
    used = sum(
        rows.aggregate(size=Sum("size_bytes", default=0))["size"] for rows in (files, results)
    )
    return StorageQuota(used, limit)


def check_storage(owner: User, added_bytes: int = 0) -> None:
    """Raise DomainError storage_full if the user's files exceed the limit with `added_bytes`."""
    quota = storage_quota_of(owner)
    if quota.used + added_bytes > quota.limit:
        used, limit = (f"{size / 1024**3:.1f}" for size in quota)
        raise DomainError("storage_full", status=409, used_gib=used, limit_gib=limit)


def check_quota(owner: User) -> None:
    """Raise DomainError quota_reached if the user has as many live tasks as allowed.

    Locks the user's row until the end of the transaction, so that concurrent requests cannot both
    take the last place.
    """
    owner = User.objects.select_for_update().get(pk=owner.pk)
    quota = quota_of(owner)
    if quota.live >= quota.limit:
        raise DomainError("quota_reached", status=409, **quota._asdict())


def check_priority(owner: User, priority: int) -> None:
    limit = ANY_PRIORITY if owner.is_staff else OWN_PRIORITY
    if not -limit <= priority <= limit:
        raise DomainError("priority_bad", field="priority", low=-limit, high=limit)


def allowed_priority(owner: User, priority: int) -> int:
    """Limit a priority, which another user may have set, to the range of this user."""
    limit = ANY_PRIORITY if owner.is_staff else OWN_PRIORITY
    return max(-limit, min(priority, limit))


def longest_s_of(request: TaskRequest) -> int:
    """Return the site's limit for all passes or runs of a task together, s."""
    if request.pairing is not None:
        arms = 1 + len(request.pairing.arms)
        return longest_run_s(2 * arms) + request.pairing.pairing.budget_s
    if request.script is not None:
        return longest_run_s(len(request.script.formats))
    return longest_run_s(request.plan.passes) + request.plan.budget_s


def check_time_limit(request: TaskRequest) -> None:
    """Check the time limit of a model; a script has its own within `Script`.

    Raises DomainError time_limit or time_limit_of_script.
    """
    if request.script is not None and request.time_limit_s:
        raise DomainError("time_limit_of_script", field="time_limit_s")
    most = longest_s_of(request)
    if request.time_limit_s > most:
        raise DomainError("time_limit", field="time_limit_s", limit=most)


def option_refusals(request: TaskRequest, runtime: Capabilities | None) -> Iterator[DomainError]:
    """Yield every error of the options; without `runtime`, its capabilities are not checked."""
    for error in find_problems(
        request.options,
        runtime=runtime,
        files=request.option_files,
        profiled=request.plan.profiled > 0,
    ):
        yield DomainError(
            f"option_{error.code}", field=error.option, option=error.option, limit=error.limit
        )


def runtime_of(
    owner: User, worker: Worker, version: str, *, purpose: Purpose = Purpose.USER
) -> Runtime:
    """Return the requested runtime of a worker. Raises DomainError if the user cannot use it now.

    A health check needs no permission, and also runs on workers that are quarantined.
    """
    is_check = purpose == Purpose.HEALTH
    placement = Placement(
        worker,
        version,
        find_runtime(worker, version),
        owner=None if is_check else owner,
        is_check=is_check,
    )
    refusal = eligibility.refusal_of(placement)
    if refusal is not None:
        raise refusal
    return cast(Runtime, placement.runtime)  # not None: VERSION_GONE holds
