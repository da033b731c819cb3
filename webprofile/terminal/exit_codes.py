"""What the exit code of `webprofile` and of the `manage.py` commands tells a script."""

SUCCEEDED = 0
#: a task failed, was cancelled, or could not be made; something could not be done
FAILED = 1
#: a mistake in the arguments or in a file
USAGE = 2
#: the site cannot be reached, or does not let us
REFUSED = 3
#: asked to wait no longer
TIMED_OUT = 4
#: the figures do not suffice for a verdict (`compare --fail-above`)
UNDECIDED = 5
#: Ctrl-C, as shells count
INTERRUPTED = 130

HELP = """exit codes:
  0    all succeeded
  1    a task failed, was cancelled or could not be made; a file could not be written
  2    a mistake in the arguments or in a file
  3    the site cannot be reached, or does not allow it
  4    not ended yet: --timeout passed, or show of a task that is under way
  5    compare --fail-above: not enough evidence for a verdict
  130  Ctrl-C; tasks that were submitted go on"""
