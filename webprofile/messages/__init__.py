"""User-facing texts for error codes, each with a suggested fix."""
