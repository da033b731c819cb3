"""Terminal output of command line programs: progress, tables, numbers with units, exit codes.

The client and the server's `manage.py` commands use it; it imports neither.
"""
