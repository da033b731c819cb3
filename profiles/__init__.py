"""Profiles: what a benchmark's artifacts say, from raw bytes to tables and pictures."""
