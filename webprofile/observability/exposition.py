"""The text that Prometheus reads, of this process or of all processes that share a folder.

Each process shows its own numbers, and Prometheus adds them up: so a process that hangs is seen by
itself, and no file outlives its process. Only where several processes share one port (`uvicorn
--workers`, `rundramatiq --processes`), which a scrape cannot tell apart, PROMETHEUS_MULTIPROC_DIR
names a folder in which prometheus_client keeps the numbers of all; it must be empty at the start.
"""

import atexit
import os
import platform
import re
from functools import cache

import django
import structlog
from django.conf import settings
from prometheus_client import REGISTRY, CollectorRegistry, Info, generate_latest, start_http_server
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

log = structlog.get_logger()

#: read, not imported: the client is a program of its own
_VERSION = re.compile(r'^__version__ = "([^"]+)"', re.MULTILINE)


def registry() -> CollectorRegistry:
    """What processes count by themselves (`webprofile.observability.counters`)."""
    if not os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        return REGISTRY
    shared = CollectorRegistry()
    MultiProcessCollector(shared)
    return shared


@cache
def build_registry() -> CollectorRegistry:
    """What runs here."""
    found = CollectorRegistry()
    source = settings.BASE_DIR / "webprofile" / "client" / "__init__.py"
    version = _VERSION.search(source.read_text(encoding="utf-8"))
    facts = {
        "version": version[1] if version else "",
        "python": platform.python_version(),
        "django": django.get_version(),
    }
    Info("mgw_build", "Versions of the site, Python and Django.", registry=found).info(facts)
    return found


def text_of(*registries: CollectorRegistry) -> bytes:
    return b"".join(generate_latest(each) for each in registries)


def forget_at_exit() -> None:
    """What this process holds open (sockets) is not to be counted when it is gone."""
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        atexit.register(mark_process_dead, os.getpid())


def serve() -> None:
    """Show the metrics of a process that has no pages at METRICS_PORT, if it is set.

    Of several processes of one program the first one shows those of all (see above).
    """
    forget_at_exit()
    if not settings.METRICS_PORT:
        return
    try:
        start_http_server(settings.METRICS_PORT, settings.METRICS_ADDRESS, registry())
    except OSError as error:
        # the work goes on unseen: better than not at all
        log.warning("metrics_not_served", port=settings.METRICS_PORT, cause=error.strerror)
