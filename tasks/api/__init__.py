"""REST API of tasks: create, upload, follow, cancel, repeat and delete."""
