"""Metrics in Prometheus' text format, of one process or of all processes that share a folder.

Each process serves its own metrics and Prometheus sums them, so that a process that hangs is
visible and no file outlives its process. Several processes behind one port (`uvicorn --workers`,
`rundramatiq --processes`) cannot be scraped separately: they need PROMETHEUS_MULTIPROC_DIR, a
folder in which prometheus_client stores the values of all processes. It must be empty at the start.
"""

import atexit
import os
import platform
from functools import cache

import django
import structlog
from django.conf import settings
from prometheus_client import REGISTRY, CollectorRegistry, Info, generate_latest, start_http_server
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

log = structlog.get_logger()


def registry() -> CollectorRegistry:
    """Return the metrics of this process or folder (`webprofile.observability.counters`)."""
    if not os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        return REGISTRY
    shared = CollectorRegistry()
    MultiProcessCollector(shared)
    return shared


@cache
def build_registry() -> CollectorRegistry:
    """Return a registry with the versions of the project, Python and Django."""
    build = CollectorRegistry()
    facts = {
        "version": (settings.BASE_DIR / "agent" / "VERSION").read_text(encoding="ascii").strip(),
        "python": platform.python_version(),
        "django": django.get_version(),
    }
    Info("mgw_build", "Versions of the site, Python and Django.", registry=build).info(facts)
    return build


def text_of(*registries: CollectorRegistry) -> bytes:
    return b"".join(generate_latest(registry) for registry in registries)


def forget_at_exit() -> None:
    """Remove the live gauges of this process, such as open sockets, from the folder at its exit."""
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        atexit.register(mark_process_dead, os.getpid())


def serve() -> None:
    """Serve the metrics of a process without an HTTP server at METRICS_PORT, if it is set.

    If several processes share a folder, the first one serves the metrics of all.
    """
    forget_at_exit()
    if not settings.METRICS_PORT:
        return
    try:
        start_http_server(settings.METRICS_PORT, settings.METRICS_ADDRESS, registry())
    except OSError as error:
        # the process continues without metrics
        log.warning("metrics_not_served", port=settings.METRICS_PORT, cause=error.strerror)
