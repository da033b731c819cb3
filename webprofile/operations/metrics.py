"""Prometheus metrics from the database, read at the scrape with a dozen indexed queries.

All web processes report the same values, so Prometheus queries need `max by (...)`. The values are
cached for `GOOD_FOR_S`.
"""

import shutil
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

import structlog
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.models import Count, Min, Q
from django.utils import timezone
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from profiles.models import ProfileUpload, RemovedObjects
from tasks.lifecycle.counters import SETTLED, counted_until
from tasks.lifecycle.sweep import RESEND_AFTER
from tasks.models import EndTally, Task
from tasks.scheduling.fair_share import HEALTH_TIER, tiers
from tasks.states import LIVE, TaskState
from workers.heartbeats import count_heartbeat_statuses
from workers.models import Worker
from workers.status import ENABLED, NOT_HELD, NOT_RETIRED

log = structlog.get_logger()

GOOD_FOR_S = 5.0
_TIERS = ("health", "raised", "usual", "put_back")


class Description(NamedTuple):
    """Documentation of a metric of this module and names of its labels, separated by commas."""

    text: str
    labels: str = ""


#: text of docs/reference/metrics.md (`make reference`)
DESCRIPTIONS = {
    "mgw_queue_tasks": Description(
        "Tasks that wait for a device; tier: health (health checks), raised (by an administrator), "
        "usual, put_back.",
        "tier",
    ),
    "mgw_queue_oldest_age_seconds": Description("Age of the oldest waiting task.", "tier"),
    "mgw_tasks_live": Description("Tasks that have not ended.", "state"),
    "mgw_attempts_ended_total": Description(
        "All attempts that have ended. The sweep counts them in the database, so a restart or the "
        "removal of old tasks does not reset the counter; it lags by 15 s.",
        "outcome, reason",
    ),
    "mgw_workers": Description(
        "Devices in service by their last heartbeat; beat: on_time, late (counts as offline), lost "
        "(its attempts are lost), never.",
        "beat",
    ),
    "mgw_workers_unavailable": Description(
        "Devices that get no tasks; why: held (a health check failed), drained (by an "
        "administrator).",
        "why",
    ),
    "mgw_results_overdue": Description(
        "Results of runs that were queued for reading more than 20 s ago and that no actor has "
        "started to read."
    ),
    "mgw_imports_unread": Description("Uploaded profiles that have not been read yet."),
    "mgw_removals_due": Description(
        "Folders of object storage that the sweep should have emptied."
    ),
    "mgw_sweep_age_seconds": Description(
        "Time since the last round of the sweep, which runs every 5 s."
    ),
    "mgw_database_readable": Description(
        "1 if the database answered this scrape, else 0: metrics from its rows are missing."
    ),
    "mgw_database_pool": Description(
        "Connections of this process to PostgreSQL; state: open, idle, most (the limit), "
        "waited_for (requests that wait for one).",
        "state",
    ),
    "mgw_disk_free_bytes": Description("Free space of the disk with MGW_HOME."),
    "mgw_disk_size_bytes": Description("Size of the disk with MGW_HOME."),
}


class DatabaseCollector:
    """Collector of prometheus_client for metrics from the database, with a short cache."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._metrics: list[Metric] = []
        self._read_at = -GOOD_FOR_S

    def describe(self) -> list[Metric]:
        """Return nothing, so that registering the collector does not query the database."""
        return []

    def collect(self) -> list[Metric]:
        with self._lock:
            if time.monotonic() - self._read_at >= GOOD_FOR_S:
                self._metrics = _read()
                self._read_at = time.monotonic()
            return self._metrics

    def forget(self) -> None:
        """Clear the cache."""
        with self._lock:
            self._read_at = -GOOD_FOR_S


def _read() -> list[Metric]:
    """Read all metrics; without a database, those of the process and disk only."""
    try:
        from_database = [*_queue(), *_tasks(), *_workers(), *_ends(), *_sweep(), *_outbox()]
        readable = 1
    except DatabaseError as error:
        log.warning("metrics_without_database", cause=type(error).__name__)
        from_database, readable = [], 0
    return [
        *from_database,
        *_pool(),
        *_disk(),
        _gauge("mgw_database_readable", readable),
    ]


def _gauge(name: str, value: float) -> Metric:
    return GaugeMetricFamily(name, DESCRIPTIONS[name].text, value=value)


def _by_label(name: str, values: dict[str, float]) -> Metric:
    text, label = DESCRIPTIONS[name]
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _tier(number: int) -> str:
    if number == HEALTH_TIER:
        return "health"
    return "usual" if number == 0 else ("raised" if number > 0 else "put_back")


def _queue() -> Iterator[Metric]:
    waiting = Task.objects.filter(state=TaskState.WAITING).order_by()
    rows = waiting.annotate(tier=tiers()).values_list("tier")
    now, counts = timezone.now(), dict.fromkeys(_TIERS, 0.0)
    age_s = dict.fromkeys(_TIERS, 0.0)
    for tier, count, first_at in rows.annotate(Count("pk"), first=Min("submitted_at")):
        label = _tier(tier)
        counts[label] += count
        if first_at is not None:
            age_s[label] = max(age_s[label], (now - first_at).total_seconds())
    yield _by_label("mgw_queue_tasks", counts)
    yield _by_label("mgw_queue_oldest_age_seconds", age_s)


def _tasks() -> Iterator[Metric]:
    live = Task.objects.filter(state__in=LIVE).order_by()
    by_state = dict(live.values_list("state").annotate(Count("pk")))
    counts: dict[str, float] = {state.value: by_state.get(state.value, 0) for state in sorted(LIVE)}
    yield _by_label("mgw_tasks_live", counts)
    # the sweep renews `hinted_at` until an actor begins to read, which sets the deadline
    unread = Task.objects.filter(state=TaskState.PROCESSING, processing_deadline_at=None)
    late = unread.filter(updated_at__lt=timezone.now() - RESEND_AFTER).count()
    yield _gauge("mgw_results_overdue", late)


def _workers() -> Iterator[Metric]:
    known = Worker.objects.filter(NOT_RETIRED.rows(""))
    counts = count_heartbeat_statuses(known.filter(ENABLED.rows("")))
    by_status: dict[str, float] = {status.value: count for status, count in counts.items()}
    yield _by_label("mgw_workers", by_status)
    filters = {rule.status.value: ~rule.rows("") for rule in (NOT_HELD, ENABLED)}
    out = known.aggregate(**{name: Count("pk", filter=rule) for name, rule in filters.items()})
    yield _by_label("mgw_workers_unavailable", out)


def _ends() -> Iterator[Metric]:
    name = "mgw_attempts_ended_total"
    text, labels = DESCRIPTIONS[name]
    family = CounterMetricFamily(name, text, labels=labels.split(", "))
    for row in EndTally.objects.order_by("outcome", "reason"):
        family.add_metric([row.outcome, row.reason], row.number)
    yield family


def _sweep() -> Iterator[Metric]:
    if until := counted_until():
        age_s = max(0.0, (timezone.now() - until - SETTLED).total_seconds())
        yield _gauge("mgw_sweep_age_seconds", age_s)


def _outbox() -> Iterator[Metric]:
    now, state = timezone.now(), ProfileUpload.State
    is_due = Q(state=state.DELETED) & (Q(deadline_at=None) | Q(deadline_at__lt=now))
    uploads = ProfileUpload.objects.filter(state__in=[state.DELETED, state.PROCESSING]).aggregate(
        due=Count("pk", filter=is_due), unread=Count("pk", filter=Q(state=state.PROCESSING))
    )
    due = RemovedObjects.objects.filter(due_at__lt=now).count() + uploads["due"]
    yield _gauge("mgw_removals_due", due)
    yield _gauge("mgw_imports_unread", uploads["unread"])


def _pool() -> Iterator[Metric]:
    """Yield statistics of psycopg's connection pool in this process (PostgreSQL only)."""
    pool = getattr(connection, "pool", None)
    if pool is None:
        return
    figures = pool.get_stats()
    values: dict[str, float] = {
        "open": figures.get("pool_size", 0),
        "idle": figures.get("pool_available", 0),
        "most": figures.get("pool_max", 0),
        "waited_for": figures.get("requests_waiting", 0),
    }
    yield _by_label("mgw_database_pool", values)


def _disk() -> Iterator[Metric]:
    """Yield size and free space of the disk of MGW_HOME, with the tasks' files on one machine."""
    if settings.HOME.is_dir():
        usage = shutil.disk_usage(settings.HOME)
        yield _gauge("mgw_disk_free_bytes", usage.free)
        yield _gauge("mgw_disk_size_bytes", usage.total)


rows = DatabaseCollector()
rows_registry = CollectorRegistry()
rows_registry.register(rows)
