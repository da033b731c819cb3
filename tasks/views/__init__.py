"""Pages of tasks: the task list, the form for a new task, the page of a task."""
