"""Exit codes of `webprofile` and of the `manage.py` commands."""

SUCCEEDED = 0
#: a task failed, was cancelled, or could not be made; something could not be done
FAILED = 1
#: a mistake in the arguments or in a file
USAGE = 2
#: the site cannot be reached or refuses access
REFUSED = 3
#: the timeout passed
TIMED_OUT = 4
#: not enough evidence for a verdict (`ab`, `check`, gates of `compare`)
UNDECIDED = 5
#: Ctrl-C, as in shells
INTERRUPTED = 130

HELP = """exit codes:
  0    all succeeded
  1    a task failed, was cancelled or could not be made; a file could not be written
  2    a mistake in the arguments or in a file
  3    the site cannot be reached, or does not allow it
  4    not ended yet: --timeout passed, or show of a task that is under way
  5    ab, check, compare --fail-above or --gate: not enough evidence for a verdict
  130  Ctrl-C; tasks that were submitted go on"""
