"""Submission of tasks: parse a request, validate it, create the task, check its uploaded files."""
