"""Watching: who may read metrics, and what a process does before it ends."""

import os

import environ

from webprofile.env import secret

env = environ.Env()

#: one or several, so that they can be changed one after the other; empty: no token opens /metrics
METRICS_TOKENS = secret("METRICS_TOKEN", "").split()
#: of what asks directly: 10.0.0.0/8,127.0.0.1/32; empty: no address alone opens /metrics
METRICS_NETWORKS: list[str] = env.list("METRICS_NETWORKS", default=[])
#: where processes that serve no pages (actors, sweep) show their metrics; 0: nowhere
METRICS_PORT = env.int("METRICS_PORT", default=0)
METRICS_ADDRESS = env.str("METRICS_ADDRESS", default="127.0.0.1")
#: after TERM `/readyz` says 503 for so long before the server ends
DRAIN_S = env.float("DRAIN_S", default=0.0)
#: whether spans are sent (OpenTelemetry's own variables: where to, with which headers, ...)
TRACING = env.str("OTEL_SDK_DISABLED", default="").lower() != "true" and any(
    os.environ.get(f"OTEL_EXPORTER_OTLP_{kind}ENDPOINT") for kind in ("", "TRACES_")
)
#: `logfmt` for people, `json` for programs
LOG_FORMAT = env.str("LOG_FORMAT", default="logfmt")
