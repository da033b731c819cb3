"""Moves of tasks between states: attempts, reports of agents, cancelling, the sweep."""
