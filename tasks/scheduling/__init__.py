"""Scheduling: which device can run a task, the order of tasks on a device, and queue status."""
