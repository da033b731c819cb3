"""Observability of the site: readiness, metrics, logs and traces. See docs/watching.md."""
