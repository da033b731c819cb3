"""Template tags and filters for profiles."""
