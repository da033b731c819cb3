"""Prometheus metrics of one process.

This module imports no app, so that every app can use it. Each label has few values, which the code
knows in advance. Counters that must survive a restart are stored in the database
(`tasks.lifecycle.counters`), and values of the database are read at the scrape
(`webprofile.operations.metrics`). docs/reference/metrics.md is generated from the documentation
strings (`make reference`).
"""

import time
from typing import Any

from prometheus_client import Counter, Gauge, Histogram

#: buckets in seconds, for requests that a user or a device waits for
_QUICK = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
#: buckets in seconds, for long background work
_SLOW = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900)

HTTP_SECONDS = Histogram(
    "mgw_http_request_seconds",
    "Time from a request to the end of its response, by class of route.",
    ["route"],
    buckets=_QUICK,
)
HTTP_RESPONSES = Counter(
    "mgw_http_responses",
    "HTTP responses by class of route and status. 429: refused by a rate limit. 413: body too "
    "large. 499: the client closed the connection first.",
    ["route", "status"],
)
SOCKETS_OPEN = Gauge(
    "mgw_sockets_open",
    "Open websockets; kind: agent, browser, other.",
    ["kind"],
    multiprocess_mode="livesum",
)
SOCKET_CLOSES = Counter(
    "mgw_socket_closes",
    "Websockets that the server closed, by kind and close code "
    "(docs/architecture/agent-protocol.md).",
    ["kind", "code"],
)
LOOP_LAG_SECONDS = Histogram(
    "mgw_event_loop_lag_seconds",
    "Delay of the event loop of a web process. Above 0.1 s something blocks it.",
    buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
)
AGENT_FRAMES = Counter(
    "mgw_agent_frames",
    "Frames from agents by message type; fate: done, refused (not a valid frame), failed (storage "
    "or the database did not answer; the agent sends it again).",
    ["type", "fate"],
)
LOG_PIECES = Counter(
    "mgw_log_pieces",
    "Chunks of attempts' logs; fate: kept, dropped (beyond LOG_LIMIT_BYTES, or after the "
    "end of the attempt), repeated (received before).",
    ["fate"],
)
LOG_BYTES = Counter("mgw_log_bytes", "Bytes of attempts' logs that were kept.")
TASK_MOVES = Counter(
    "mgw_task_moves",
    "State transitions of tasks by new state and, for tasks that ended, outcome and reason "
    "(tasks/lifecycle/reasons.py).",
    ["to", "outcome", "reason"],
)
DISPATCH_SECONDS = Histogram(
    "mgw_dispatch_seconds",
    "Latency of a task's first attempt; stage: assigned (since the submission, includes the wait "
    "for a device), started (since the assignment, includes the download of files).",
    ["stage"],
    buckets=(*_QUICK, 60, 300, 1800, 7200),
)
ACTOR_SECONDS = Histogram(
    "mgw_actor_seconds",
    "Run time of background actors; result: done, failed (is retried). A profile that cannot be "
    "read is done: mgw_task_moves_total has its reason.",
    ["actor", "result"],
    buckets=_SLOW,
)
STORAGE_SECONDS = Histogram(
    "mgw_storage_seconds",
    "Duration of the server's own calls to object storage, including retries. Transfers of "
    "browsers and agents do not go through the server.",
    ["operation"],
    buckets=_QUICK,
)
STORAGE_ERRORS = Counter(
    "mgw_storage_errors",
    "Failed calls to object storage; kind: 4xx, 5xx, unreachable. A 404 is a valid response and "
    "does not count.",
    ["operation", "kind"],
)
MESSAGES_LOST = Counter(
    "mgw_messages_lost",
    "Messages after a commit that could not be sent because Redis or the broker did not answer. "
    "The sweep repeats those to actors; heartbeats and reconnects compensate for the others.",
    ["hint"],
)
SWEEP_SECONDS = Histogram(
    "mgw_sweep_round_seconds", "Duration of one round of the sweep.", buckets=_QUICK
)
SWEEP_MOVED = Counter(
    "mgw_sweep_moved",
    "Rows that the sweep found due, by kind of work. More than a few devices_hinted (the "
    "dispatcher was called again for a device with a free slot and a task that may start there) or "
    "results_hinted (a result was queued again) mean that messages are being lost.",
    ["what"],
)
SWEEP_FAILURES = Counter(
    "mgw_sweep_failures", "Rows or rounds that the sweep could not process; the log has the error."
)
SWEEP_LAST = Gauge(
    "mgw_sweep_last_round_timestamp_seconds",
    "Time at which the last round of the sweep ended, Unix time.",
    multiprocess_mode="max",
)


def observe_storage(client: Any) -> None:
    """Time the calls of a botocore client by operation, and count those that failed.

    A response 404 is not a failure, since it answers whether an object exists.
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
