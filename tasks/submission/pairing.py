"""Paired comparisons in requests: their arms, as requests of their own."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.utils.translation import gettext_lazy as _
from pydantic import ValidationError

from agent.protocol.options import Value
from agent.protocol.pairs import MOST_ARMS, Pairing, unpaired_options
from agent.protocol.plan import Plan
from tasks.models import Task, TaskFile
from tasks.submission.plans import bounds_of
from tasks.submission.request import (
    ArmRequest,
    FileRequest,
    PairingRequest,
    TaskRequest,
    check_all_stored,
    pairing_request_of,
    request_of,
)
from webprofile.errors import DomainError

#: what a paired comparison measures besides its pairs; see `agent.execution.paired`
PLAN = Plan(preset="custom", clean=True, profiled=0)


def read_pairing(body: Mapping[str, Any] | None) -> PairingRequest | None:
    """Convert validated data of `schema.PairingBody`; None (no comparison) stays None.

    Raises DomainError pairing_field, naming the field.
    """
    if body is None:
        return None
    try:
        return pairing_request_of(body)
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        raise DomainError(
            "pairing_field",
            field=f"pairing.{name}",
            name=LABELS[name],
            **bounds_of(Pairing, name),
        ) from error


#: labels of the numbers in the form
LABELS: dict[str, Any] = {
    "margin": _("Largest difference that counts as equal (ratio)"),
    "budget_s": _("Longest measuring time (s)"),
    "least_cosine": _("Minimum cosine similarity of the outputs"),
}


def arm_requests(request: TaskRequest) -> Iterator[TaskRequest]:
    """Yield the request of each arm, as if it were to be run alone; the first is the baseline.

    An arm uses the model, the options with their files, the data with the inputs, and the version
    of the baseline, unless it has its own. Its files are in the order of their kinds.
    """
    baseline = replace(request, pairing=None, files=files_of(request.files, 0), time_limit_s=0)
    yield baseline
    arms = request.pairing.arms if request.pairing else ()
    for number, arm in enumerate(arms, start=1):
        own = files_of(request.files, number)
        replaced = {file.kind for file in own}
        if arm.inputs is not None:
            replaced.add(TaskFile.Kind.DATA)
        if arm.options is not None:
            replaced.add(TaskFile.Kind.OPTION)
        files = [*own, *(file for file in baseline.files if file.kind not in replaced)]
        yield replace(
            baseline,
            files=tuple(sorted(files, key=lambda file: TaskFile.Kind.values.index(file.kind))),
            runtime_version=arm.runtime_version or baseline.runtime_version,
            options=baseline.options if arm.options is None else arm.options,
            inputs=arm.inputs or () if TaskFile.Kind.DATA in replaced else baseline.inputs,
        )


def paired_request(tasks: Sequence[Task]) -> TaskRequest:
    """Return the request that compares what earlier tasks ran, on the device of the first one.

    Options that a paired comparison does not accept are left out. Raises DomainError pairing_arms,
    pairing_script, file_gone or file_not_uploaded.
    """
    if not 2 <= len(tasks) <= MOST_ARMS:
        raise DomainError("pairing_arms", field="pairing.arms", limit=MOST_ARMS)
    if any(task.is_script for task in tasks):
        raise DomainError("pairing_script", field="script")
    for task in tasks:
        check_all_stored(task)
    baseline, *others = map(request_of, tasks)
    arms = tuple(
        ArmRequest(
            runtime_version=task.runtime_version,
            options=_accepted(other.options),
            inputs=other.inputs,
        )
        for task, other in zip(tasks[1:], others, strict=True)
    )
    files = [
        replace(file, arm=number)
        for number, request in enumerate((baseline, *others))
        for file in request.files
        if not file.arm and file.option not in _refused(request.options)
    ]
    return replace(
        baseline,
        runtime_version=tasks[0].runtime_version,
        target=None,
        options=_accepted(baseline.options),
        files=tuple(files),
        plan=PLAN,
        pairing=PairingRequest(Pairing(), arms),
        copied_from=None,
        title=" – ".join(f"#{task.pk}" for task in tasks),
        time_limit_s=0,
    )


def _refused(options: Mapping[str, Value]) -> frozenset[str]:
    return frozenset(unpaired_options(options))


def _accepted(options: Mapping[str, Value]) -> dict[str, Value]:
    refused = _refused(options)
    return {name: value for name, value in options.items() if name not in refused}


def files_of(files: tuple[FileRequest, ...], arm: int) -> tuple[FileRequest, ...]:
    """Return the files of an arm, as those of a request without pairing."""
    return tuple(replace(file, arm=0) for file in files if file.arm == arm)


def check_pairing(request: TaskRequest) -> None:
    """Check the parts of a request that concern its pairing, not those of single arms.

    Raises DomainError, naming the field and the cause.
    """
    if request.pairing is None:
        if any(file.arm for file in request.files):
            raise DomainError("pairing_missing", field="pairing")
        return
    count = 1 + len(request.pairing.arms)
    if not 2 <= count <= MOST_ARMS:
        raise DomainError("pairing_arms", field="pairing.arms", limit=MOST_ARMS)
    if any(file.arm >= count for file in request.files):
        raise DomainError("pairing_arm_unknown", field="files", count=count)
    if request.script is not None:
        raise DomainError("pairing_script", field="script")
    if request.target is not None:
        raise DomainError("pairing_target", field="target")
    for arm in arm_requests(request):
        if unpaired := unpaired_options(arm.options):
            raise DomainError("pairing_option", field=unpaired[0], option=unpaired[0])
