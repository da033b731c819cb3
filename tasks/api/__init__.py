"""Tasks in the API: asked for, uploaded, followed, cancelled, repeated, deleted."""
