"""Whether a request for a task can be met: every reason to refuse it before it exists."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

from accounts.models import User
from agent.protocol import FEATURE_PLANS
from agent.protocol.capabilities import Capabilities
from agent.protocol.options import OptionError, Value, check_options, find_problems
from agent.protocol.plan import Plan
from tasks.asking import FileRequest, InputRequest, TaskRequest
from tasks.files import check_files
from tasks.inputs import read_inputs
from tasks.measuring import DEFAULT
from webprofile.errors import DomainError
from workers.models import Runtime, Worker
from workers.selectors import may_use_worker

__all__ = ["FileRequest", "InputRequest", "TaskRequest", "admit", "option_refusals", "runtime_of"]

SEED_LIMIT = 2**63 - 1


def admit(
    *, owner: User, worker: Worker, request: TaskRequest
) -> tuple[dict[str, Value], list[InputRequest]]:
    """Return the options that differ from their defaults, and the inputs as they are to be kept.

    Raises DomainError, naming the field and the cause.
    """
    runtime = runtime_of(owner, worker, request.runtime_version)
    _check_agent(worker, request)
    check_files(request.files)
    named = frozenset(file.input for file in request.files if file.input)
    inputs = read_inputs(request.inputs, request.files, named, kind=runtime.kind)
    check_seed(request.seed)
    for refusal in option_refusals(
        request.options,
        runtime=runtime.capabilities,
        files=request.option_files,
        plan=request.plan,
    ):
        raise refusal
    return check_options(request.options, files=request.option_files, profiled=False), inputs


def _check_agent(worker: Worker, request: TaskRequest) -> None:
    """An agent from before plans would drop them and the inputs without a word."""
    features = worker.facts.get("features")
    is_old = features is not None and FEATURE_PLANS not in features
    if is_old and (request.plan != DEFAULT or request.inputs or request.option_files):
        raise DomainError("agent_old", field="worker", worker=worker.name)


def check_seed(seed: int) -> None:
    if not 0 <= seed <= SEED_LIMIT:
        raise seed_refusal()


def seed_refusal() -> DomainError:
    return DomainError("seed_bad", field="seed", limit=SEED_LIMIT)


def option_refusals(
    options: Mapping[str, Value],
    *,
    runtime: Capabilities | None,
    files: AbstractSet[str],
    plan: Plan,
) -> Iterator[DomainError]:
    """Every reason to refuse these options. `runtime` None: not looked at."""
    profiled = plan.profiled > 0
    for error in find_problems(options, runtime=runtime, files=files, profiled=profiled):
        yield refusal_of(error)


def refusal_of(error: OptionError) -> DomainError:
    return DomainError(
        f"option_{error.code}", field=error.option, option=error.option, limit=error.limit
    )


def runtime_of(owner: User, worker: Worker, version: str) -> Runtime:
    """The runtime that is asked for, on a device that takes tasks of this user now."""
    _check_worker(owner, worker)
    runtime = worker.runtimes.filter(version=version).first()
    if runtime is None:
        raise DomainError(
            "runtime_missing", field="runtime", worker=worker.name, version=version[:40]
        )
    if runtime.problem:
        raise DomainError(
            "runtime_broken", field="runtime", worker=worker.name, problem=runtime.problem
        )
    return runtime


def _check_worker(owner: User, worker: Worker) -> None:
    if not may_use_worker(owner, worker):
        # as if it did not exist: a stranger learns nothing of private devices
        raise DomainError("worker_unknown", field="worker")
    if not worker.is_enabled:
        raise DomainError("worker_disabled", field="worker", worker=worker.name)
    if not worker.is_online:
        raise DomainError("worker_is_offline", field="worker", worker=worker.name)
