"""The program on a device: takes tasks from the server, runs load_and_run, reports the result."""

__version__ = "0.1.0"
