"""Pages of a user's own account."""
