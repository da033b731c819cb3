"""Which trace a piece of work is part of, for modules that send no spans.

A leaf: it imports nothing of OpenTelemetry unless traces are kept.
"""

import importlib.util
from functools import cache

import structlog
from django.conf import settings

log = structlog.get_logger()


def is_installed() -> bool:
    """Whether requirements/tracing.txt is there; looks, and imports nothing of it."""
    try:
        for name in ("exporter.otlp.proto.http", "instrumentation.django"):
            if importlib.util.find_spec(f"opentelemetry.{name}") is None:
                return False
    except ModuleNotFoundError:
        return False
    return True


def are_kept() -> bool:
    """Whether this process sends spans."""
    return settings.TRACING and _is_usable()


@cache
def _is_usable() -> bool:
    if not is_installed():
        log.warning("tracing_off", why="requirements/tracing.txt is not installed")
        return False
    return True


def current() -> str:
    """`traceparent` for what the current request begins; empty where traces are off.

    The caller's span if the request names one, the request's own otherwise.
    """
    if not are_kept():
        return ""
    from webprofile.observability.tracing import traceparent_of_request

    return traceparent_of_request()
