"""Profiles that users upload: their rows, files and states."""
