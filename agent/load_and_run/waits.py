"""Measure how long the threads of this process were ready to run and waited for a core.

The kernel counts this for each thread (second number of `/proc/PID/task/TID/schedstat`, ns), and
for each core the time that the host gave to other machines (steal, `/proc/stat`). Both are read
before and after the timed iterations, so start-up and loading are not counted.
"""

import os
import resource
import time


class Meter(object):
    """The counters at its creation, just before the first timed iteration."""

    def __init__(self):
        self._waited_ns = waited_ns_by_thread()
        self._switches = _switches()
        self._stolen_ms = stolen_ms()
        self._started = time.perf_counter()

    def counts(self):
        """Return what was counted since the creation; times in ms.

        `waited_ms` is None if the kernel does not count (CONFIG_SCHED_INFO).
        """
        elapsed_ms = (time.perf_counter() - self._started) * 1000.0
        now_ns = waited_ns_by_thread()
        waited_ns = sum(now_ns[thread] - self._waited_ns.get(thread, 0) for thread in now_ns)
        return {
            "waited_ms": waited_ns / 1e6 if now_ns else None,
            "elapsed_ms": elapsed_ms,
            "switches": _switches() - self._switches,
            "stolen_ms": stolen_ms() - self._stolen_ms,
        }

    def line(self):
        """Return the line of the log, "" if the kernel does not count."""
        counts = self.counts()
        if counts["waited_ms"] is None:
            return ""
        return (
            "=== threads waited {waited_ms:.3f} ms for a core in {elapsed_ms:.3f} ms; "
            "{switches} involuntary switches; {stolen_ms:.0f} ms given to other machines"
        ).format(**counts)


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


def stolen_ms():
    """Return the steal time of the cores of this process in ms; 0 if the kernel does not tell."""
    ticks = 0
    try:
        cores = {"cpu{}".format(core) for core in os.sched_getaffinity(0)}
        with open("/proc/stat") as file:
            for line in file:
                fields = line.split()
                if fields and fields[0] in cores:
                    ticks += int(fields[8])
    except (OSError, IndexError, ValueError):
        return 0.0
    return ticks * 1000.0 / os.sysconf("SC_CLK_TCK")


def _switches():
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
