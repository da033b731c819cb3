"""Current trace id of a request, for modules that export no spans.

OpenTelemetry is imported only if tracing is enabled.
"""

import importlib.util
from functools import cache

import structlog
from django.conf import settings

log = structlog.get_logger()


def is_installed() -> bool:
    """Return whether the packages of requirements/tracing.txt are installed; do not import them."""
    try:
        for name in ("exporter.otlp.proto.http", "instrumentation.django"):
            if importlib.util.find_spec(f"opentelemetry.{name}") is None:
                return False
    except ModuleNotFoundError:
        return False
    return True


def are_kept() -> bool:
    """Return whether this process exports spans."""
    return settings.TRACING and _is_usable()


@cache
def _is_usable() -> bool:
    if not is_installed():
        log.warning("tracing_off", why="requirements/tracing.txt is not installed")
        return False
    return True


def current() -> str:
    """Return the `traceparent` for work that the current request starts, empty without tracing.

    It is the caller's span if the request has a `traceparent`, else the span of the request.
    """
    if not are_kept():
        return ""
    from webprofile.observability.tracing import traceparent_of_request

    return traceparent_of_request()
