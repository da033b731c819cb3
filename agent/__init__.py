"""The agent on a device: receives tasks from the server, runs load_and_run, reports the results."""

__version__ = "0.1.0"
