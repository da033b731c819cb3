"""Import of profiles that users upload: rows, files and states."""
