"""Measure how long the threads of this process were ready to run and waited for a core.

The kernel counts this for each thread (second number of `/proc/PID/task/TID/schedstat`, ns), and
for each core the time that the host gave to other machines (steal, `/proc/stat`). Both are read
before and after timed iterations, so start-up and loading are not counted.

Only waiting that affects the figure of the run counts. The median of the iterations does not change
if other processes make less than half of them slower, so only the faster half of the iterations
counts; for a profile, only the last iteration counts. The waiting of all iterations is logged, too,
because it does change the mean and the percentiles.
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
        """Return the counts since the creation; times in ms.

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


class Iterations(object):
    """Count the waiting time of the iterations that determine the figure of a run.

    Short iterations are counted together, in blocks of at least BLOCK_MS: each count reads a file
    for each thread.
    """

    BLOCK_MS = 5.0

    def __init__(self):
        self._meter = Meter()
        self._begin()

    def _begin(self):
        #: (ms of an iteration, iterations, ms that the block lasted, ns that threads waited in it)
        self._blocks = []
        self._is_last = False
        self._start()

    def _start(self):
        self._before_ns, self._started = waited_ns_by_thread(), time.perf_counter()
        self._count, self._times_ms = 0, 0.0

    def add(self, time_ms):
        """Count an iteration that has just ended."""
        self._count += 1
        self._times_ms += time_ms
        if self._is_last or self._times_ms >= self.BLOCK_MS:
            self._end()

    def _end(self):
        # with what follows an iteration, such as writing the profile: threads may wait then, too
        lasted_ms = (time.perf_counter() - self._started) * 1000.0
        now_ns = waited_ns_by_thread()
        waited_ns = sum(now_ns[thread] - self._before_ns.get(thread, 0) for thread in now_ns)
        self._blocks.append((self._times_ms / self._count, self._count, lasted_ms, waited_ns))
        self._start()

    def expect_last(self):
        """Forget the iterations so far: only the next one determines the figure."""
        self._begin()
        self._is_last = True

    def line(self):
        """Return the line of the log, "" if the kernel does not count."""
        if self._count:
            self._end()
        counts = self._meter.counts()
        if counts["waited_ms"] is None or not self._blocks:
            return ""
        lasted_ms, waited_ns = self._faster_half()
        return (
            "=== threads waited {:.3f} ms for a core in {:.3f} ms; "
            "{switches} involuntary switches; "
            "{stolen_ms:.0f} ms of {elapsed_ms:.3f} ms given to other machines; "
            "in all iterations threads waited {waited_ms:.3f} ms"
        ).format(waited_ns / 1e6, lasted_ms, **counts)

    def _faster_half(self):
        """Return the sums of the fastest blocks that contain the median iteration."""
        needed = sum(block[1] for block in self._blocks) // 2 + 1
        lasted_ms, waited_ns = 0.0, 0
        for _, count, block_ms, block_ns in sorted(self._blocks):
            lasted_ms += block_ms
            waited_ns += block_ns
            needed -= count
            if needed <= 0:
                break
        return lasted_ms, waited_ns


def waited_ns_by_thread():
    """Return {thread: ns} for the threads of this process; empty if the kernel does not count."""
    counters = {}
    try:
        threads = os.listdir("/proc/self/task")
    except OSError:
        return {}
    for thread in threads:
        try:
            with open("/proc/self/task/{}/schedstat".format(thread)) as file:
                counters[thread] = int(file.read().split()[1])
        except (OSError, IndexError, ValueError):
            continue  # the thread has ended, or the kernel does not count
    return counters


def stolen_ms():
    """Return the steal time of the cores of this process in ms; 0 if it is not available."""
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
