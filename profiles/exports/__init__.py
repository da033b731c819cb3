"""Profiles as files for other programs."""
