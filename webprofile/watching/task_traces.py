"""The spans of a task beyond its requests: the queue, each attempt, what the agent did, its result.

browser's submit (or the request that asked)
  queue
  attempt                     the span is known by the attempt's id, in every process
    download, passes, upload  as the agent reports them, by the device's clock
    build_profile             in the actor
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from agent.protocol import Phase
from tasks.models import Attempt
from webprofile.traces import Place, place_of, span_of
from webprofile.watching.tracing import Done, tell


def attempt_traced(attempt: Attempt, phases: Sequence[Phase]) -> None:
    """Tell of an attempt that has ended: the wait before it, itself, and what its agent did."""
    task, place = attempt.task, place_of(attempt.task.traceparent)
    if place is None or attempt.ended_at is None:
        return
    about: dict[str, str | int] = {
        "mgw.task": task.pk,
        "mgw.attempt": str(attempt.pk),
        "mgw.number": attempt.number,
        "mgw.worker": attempt.worker.name,
    }
    created_at, ended_at = attempt.created_at.timestamp(), attempt.ended_at.timestamp()
    if attempt.number == 1 and task.submitted_at is not None:
        waited = Done("queue", "server", task.submitted_at.timestamp(), created_at)
        tell(place, waited)
    within = _within(place, attempt)
    went_well = attempt.end_reason == "exited" and attempt.exit_code == 0
    problem = "" if went_well else attempt.end_reason
    tell(
        place,
        Done(
            "attempt",
            "server",
            created_at,
            ended_at,
            span=within.span,
            problem=problem,
            attributes=about,
        ),
    )
    for phase in phases:
        tell(within, Done(phase.name, "agent", phase.started_at, phase.ended_at, attributes=about))


@contextmanager
def result_traced(attempt: Attempt) -> Iterator[None]:
    """Tell how long the reading of an attempt's files took."""
    place = place_of(attempt.task.traceparent)
    began, problem = time.time(), ""
    try:
        yield
    except Exception as error:
        problem = type(error).__name__
        raise
    finally:
        if place is not None:
            done = Done("build_profile", "actor", began, time.time(), problem=problem)
            tell(_within(place, attempt), done)


def _within(place: Place, attempt: Attempt) -> Place:
    return Place(place.trace, span_of(place, str(attempt.pk)))
