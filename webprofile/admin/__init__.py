"""Shared code of the admin site: its models, audited changes, and actions on rows."""
