"""The page with the list of tasks: its filters, what is done to several tasks, saved views."""
