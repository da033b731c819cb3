"""Submission of tasks: from JSON by `schema` to a `request`, its validation, and copies of it."""
