"""A request for a task, as pages, scripts and files send it, and what becomes of it."""
