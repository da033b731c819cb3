"""What those who run the site look at: readiness, metrics, logs, traces. See docs/watching.md."""
