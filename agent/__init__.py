"""The agent on a device: receives attempts from the server, runs them, reports the results."""

__version__ = "0.1.0"
