"""Submission of tasks: the request schema, its files, and checks before a task is created."""
