"""Profiles that users open from files: their rows, the reading of the files, what time brings."""
