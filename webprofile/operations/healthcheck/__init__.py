"""Checks of `manage.py doctor`: each part that the site depends on is tested by using it.

Each module checks one kind of part. A check returns a Finding or raises any exception of its client
library, which `examining` converts to a Finding.
"""
