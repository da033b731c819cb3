"""What an exit code tells, as a shell shows it: 128 + number for a signal."""

import signal

from agent.watchdog import LimitCode, LimitHit


def signal_name(exit_code: int) -> str:
    """`SIGABRT` for 134, empty if no signal ended the process."""
    try:
        return signal.Signals(exit_code - 128).name
    except ValueError:
        return ""


def limit_of_exit(exit_code: int) -> LimitHit | None:
    """The kernel ends a process at two of its limits by a signal of their own."""
    name = signal_name(exit_code)
    if name == "SIGXCPU":
        text = "used more CPU time than its timeout allows on all cores"
        return LimitHit(LimitCode.CPU_TIME, text)
    if name == "SIGXFSZ":
        return LimitHit(LimitCode.OUTPUT_TOO_LARGE, "a file reached the limit of a single file")
    return None
