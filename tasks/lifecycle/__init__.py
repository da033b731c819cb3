"""State transitions of tasks and attempts: agents' reports, cancellation and the periodic sweep."""
