"""Observability of the site: readiness, metrics, logs and traces. See docs/monitoring.md."""
