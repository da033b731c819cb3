"""Measure how long the threads of this process were ready to run and waited for a core.

The kernel counts this for each thread (second number of `/proc/PID/task/TID/schedstat`, ns). It is
read before and after the timed iterations, so start-up and loading are not counted.
"""

import os
import resource
import time


class Meter(object):
    """The counters at its creation, just before the first timed iteration."""

    def __init__(self):
        self._waited_ns = waited_ns_by_thread()
        self._switches = _switches()
        self._started = time.perf_counter()

    def line(self):
        """Return the line of the log, "" if the kernel does not count (CONFIG_SCHED_INFO)."""
        elapsed_ms = (time.perf_counter() - self._started) * 1000.0
        now_ns = waited_ns_by_thread()
        if not now_ns:
            return ""
        waited_ns = sum(now_ns[thread] - self._waited_ns.get(thread, 0) for thread in now_ns)
        return (
            "=== threads waited {:.3f} ms for a core in {:.3f} ms; {} involuntary switches".format(
                waited_ns / 1e6, elapsed_ms, _switches() - self._switches
            )
        )


def waited_ns_by_thread():
    """Return {thread: ns} for the threads of this process; empty if the kernel does not count."""
    counters = {}
    try:
        for thread in os.listdir("/proc/self/task"):
            with open("/proc/self/task/{}/schedstat".format(thread)) as file:
                counters[thread] = int(file.read().split()[1])
    except (OSError, IndexError, ValueError):
        return {}
    return counters


def _switches():
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
