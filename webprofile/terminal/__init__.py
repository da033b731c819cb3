"""What programs for a terminal say: progress, tables, numbers with units, exit codes.

The client and the server's `manage.py` commands use it; it imports nothing of either.
"""
