"""Waiting tasks: which device, whose turn, how long, and what a reader may know of it."""
