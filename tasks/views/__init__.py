"""Pages of tasks: the list, the form, a task."""
