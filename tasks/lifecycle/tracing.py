"""OpenTelemetry spans of a task: queue, attempts, the agent's phases, building the profile.

submission request
  queue
  attempt                     its span id derives from the attempt's id, the same in every process
    download, passes, upload  reported by the agent, timed by the device's clock
    build_profile             recorded by the actor
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from agent.protocol.messages import Phase
from tasks.models import Attempt
from webprofile.observability import trace_context


def trace_attempt(attempt: Attempt, phases: Sequence[Phase]) -> None:
    """Export the spans of an ended attempt: its wait in the queue, itself, and its phases."""
    task = attempt.task
    if attempt.ended_at is None or not task.traceparent or not trace_context.are_kept():
        return
    from webprofile.observability.tracing import place_of, place_within, record_span

    place = place_of(task.traceparent)
    if place is None:
        return
    about: dict[str, str | int] = {
        "mgw.task": task.pk,
        "mgw.attempt": str(attempt.pk),
        "mgw.number": attempt.number,
        "mgw.worker": attempt.worker.name,
    }
    created_at, ended_at = attempt.created_at.timestamp(), attempt.ended_at.timestamp()
    if attempt.number == 1 and task.submitted_at is not None:
        record_span("server", "queue", task.submitted_at.timestamp(), created_at, parent=place)
    own = place_within(place, str(attempt.pk))
    went_well = attempt.end_reason == "exited" and attempt.exit_code == 0
    problem = "" if went_well else attempt.end_reason
    record_span(
        "server",
        "attempt",
        created_at,
        ended_at,
        parent=place,
        own=own,
        problem=problem,
        attributes=about,
    )
    for phase in phases:
        record_span(
            "agent", phase.name, phase.started_at, phase.ended_at, parent=own, attributes=about
        )


@contextmanager
def trace_result(attempt: Attempt) -> Iterator[None]:
    """Context manager that exports a `build_profile` span for the code that it encloses."""
    began, problem = time.time(), ""
    try:
        yield
    except Exception as error:
        problem = type(error).__name__
        raise
    finally:
        _export_result_span(attempt, began, problem)


def _export_result_span(attempt: Attempt, began: float, problem: str) -> None:
    if not attempt.task.traceparent or not trace_context.are_kept():
        return
    from webprofile.observability.tracing import place_of, place_within, record_span

    if place := place_of(attempt.task.traceparent):
        within = place_within(place, str(attempt.pk))
        record_span("actor", "build_profile", began, time.time(), parent=within, problem=problem)
