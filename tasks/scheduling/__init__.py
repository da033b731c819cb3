"""Which device can run a task, whose turn it is, and what a user may know of a queue."""
