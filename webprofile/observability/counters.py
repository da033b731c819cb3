"""What a process counts and times of its own work, for Prometheus.

A leaf, so that cores may count too. Every label has few values that the code knows beforehand. What
must survive a restart is a row (`tasks.lifecycle.counters`); what is in the database is read at
the scrape (`webprofile.operations.metrics`). Names and units: docs/watching.md.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prometheus_client import Counter, Gauge, Histogram

#: s, of what a reader or a device waits for
_QUICK = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
#: s, of what takes its time
_SLOW = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900)

HTTP_SECONDS = Histogram(
    "mgw_http_request_seconds",
    "From a request to the end of its answer.",
    ["route"],
    buckets=_QUICK,
)
HTTP_RESPONSES = Counter("mgw_http_responses", "Answers by status.", ["route", "status"])
SOCKETS_OPEN = Gauge(
    "mgw_sockets_open", "Websockets that are open now.", ["kind"], multiprocess_mode="livesum"
)
SOCKET_CLOSES = Counter("mgw_socket_closes", "Websockets closed by the server.", ["kind", "code"])
LOOP_LAG_SECONDS = Histogram(
    "mgw_event_loop_lag_seconds",
    "How late the event loop came to what was due.",
    buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
)
AGENT_FRAMES = Counter("mgw_agent_frames", "Frames from agents.", ["type", "fate"])
LOG_PIECES = Counter("mgw_log_pieces", "Pieces of attempts' logs.", ["fate"])
LOG_BYTES = Counter("mgw_log_bytes", "Bytes of attempts' logs that were kept.")
TASK_MOVES = Counter(
    "mgw_task_moves", "Moves of tasks, by where to and how they ended.", ["to", "outcome", "reason"]
)
DISPATCH_SECONDS = Histogram(
    "mgw_dispatch_seconds",
    "Of a task's first attempt: submitted to assigned, and assigned to started.",
    ["stage"],
    buckets=(*_QUICK, 60, 300, 1800, 7200),
)
INGEST_SECONDS = Histogram(
    "mgw_ingest_seconds",
    "Reading what an attempt left, or files that a user opened.",
    ["actor", "result"],
    buckets=_SLOW,
)
STORAGE_SECONDS = Histogram(
    "mgw_storage_seconds",
    "One call of object storage, with all of its tries.",
    ["operation"],
    buckets=_QUICK,
)
STORAGE_ERRORS = Counter(
    "mgw_storage_errors", "Calls of object storage that failed.", ["operation", "kind"]
)
HINTS_LOST = Counter(
    "mgw_hints_lost", "Hints after a commit that could not be given; the sweep does it.", ["hint"]
)
SWEEP_SECONDS = Histogram("mgw_sweep_round_seconds", "One round of the sweep.", buckets=_QUICK)
SWEEP_MOVED = Counter("mgw_sweep_moved", "Rows that the sweep found due.", ["what"])
SWEEP_FAILURES = Counter("mgw_sweep_failures", "Rows or rounds that the sweep could not do.")
SWEEP_LAST = Gauge(
    "mgw_sweep_last_round_timestamp_seconds",
    "When the last round of the sweep ended.",
    multiprocess_mode="max",
)


@contextmanager
def hint_given(hint: str) -> Iterator[None]:
    """Count a hint that cannot be given; its error goes on."""
    try:
        yield
    except Exception:
        HINTS_LOST.labels(hint).inc()
        raise


def storage_watch(client: Any) -> None:
    """Time each call of a botocore client by its operation, and count those that failed.

    What storage answers with 404 is no failure: it was asked whether something is there.
    https://boto3.amazonaws.com/v1/documentation/api/latest/guide/events.html
    """
    events = client.meta.events
    events.register("before-call.s3", _storage_begins)
    events.register("after-call.s3", _storage_answered)
    events.register("after-call-error.s3", _storage_failed)


def _storage_begins(context: dict[str, Any], model: Any, **kwargs: Any) -> None:
    context["mgw_began"] = (model.name, time.perf_counter())


def _storage_ended(context: dict[str, Any]) -> str:
    operation, began = context.pop("mgw_began", ("other", time.perf_counter()))
    STORAGE_SECONDS.labels(operation).observe(time.perf_counter() - began)
    return str(operation)


def _storage_answered(context: dict[str, Any], parsed: dict[str, Any], **kwargs: Any) -> None:
    operation = _storage_ended(context)
    status = parsed.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if status >= 400 and status != 404:
        STORAGE_ERRORS.labels(operation, f"{status // 100}xx").inc()


def _storage_failed(context: dict[str, Any], exception: BaseException, **kwargs: Any) -> None:
    STORAGE_ERRORS.labels(_storage_ended(context), "unreachable").inc()
