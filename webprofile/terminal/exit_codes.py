"""Exit codes of `webprofile` and of the `manage.py` commands."""

SUCCEEDED = 0
#: a task failed, was cancelled or could not be created; an action failed
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
#: the reader of the output closed it, as in shells
CLOSED = 141

HELP = """exit codes:
  0    all succeeded
  1    a task failed, was cancelled or could not be created; a file could not be written
  2    a mistake in the arguments or in a file
  3    the site cannot be reached, or refuses access
  4    not ended yet: --timeout passed, or show was used for a task that has not ended
  5    ab, check, compare --fail-above or --gate: not enough evidence for a verdict
  130  Ctrl-C; submitted tasks continue
  141  the output was closed, for example by `| head`"""
