"""Take turns with another process: time a few iterations whenever the parent asks for them.

`agent/pair_runner` starts one such process for each arm of a paired comparison. Between its turns
a process waits on stdin and uses no CPU time.
"""

import json
import os
import sys
import time

import numpy as np
from load_and_run import waits
from load_and_run.errors import Failure

#: first argument of a process that takes turns; not a flag of load_and_run
TURNS = "--take-turns"
#: most iteration times in one answer
MOST_TIMES = 1000
#: a turn ends after the iteration that exceeds this time, however many it has had: on a busy
#: machine an iteration may take a thousand times as long as in the calibration
LONGEST_S = 1.0
#: name of the profile in the working folder; each profiled iteration overwrites it
PROFILE = "profile.json"


def take_turns(network, run_once):
    """Answer each line on stdin by a JSON line on stdout, until stdin ends.

    `run_once()` runs one iteration of the network and returns its time in ms. The first line on
    stdout indicates that the model is ready.

    A number requests this number of iterations, or as many as fit into LONGEST_S. The answer
    contains the times of the first MOST_TIMES (`ms`), the number of iterations (`count`), and the
    waits of the threads (`waited_ms`, null if the kernel does not count it; `elapsed_ms`,
    `switches`, `stolen_ms`). The line `outputs` requests files in the working folder:
    `output-<n>.npy` with the values, `outputs.json` with their names.

    `profile` and a number request iterations with the profiler, which slows all later ones. The
    answer is as for a number, with `ids` of the operators and `us`, their device times in each
    iteration in µs. PROFILE then contains the last iteration. If the library cannot profile, `us`
    is empty and `problem` is the reason.
    """
    _answer({"ready": True})
    profiled = None
    while True:
        # not the buffered iterator of the file, which would read ahead
        line = sys.stdin.readline().strip()
        if not line:
            return
        if line == "outputs":
            _answer({"outputs": _write(network.outputs())})
            continue
        if line.startswith("profile "):
            profiled = profiled or _Profiled(network, run_once)
            _answer(profiled.turn(int(line.split()[1])))
            continue
        count = int(line)
        # the first of several iterations does not count, nor does its waiting time: the caches
        # contain the data of another process, and threads of that process are still busy-waiting
        times = [run_once()] if count > 1 else []
        meter = waits.Meter()
        times += _times(run_once, count - len(times))
        _answer(dict(meter.counts(), ms=times[:MOST_TIMES], count=len(times)))


def _times(run_once, count):
    times, until = [], time.perf_counter() + LONGEST_S
    while len(times) < count and (not times or time.perf_counter() < until):
        times.append(run_once())
    return times


class _Profiled(object):
    """Runs iterations with the profiler, which its first turn attaches."""

    def __init__(self, network, run_once):
        self._network, self._run_once, self._is_attached = network, run_once, False

    def turn(self, count):
        try:
            return self._turn(count)
        except Failure as failure:
            return {"us": [], "problem": str(failure)}

    def _turn(self, count):
        if not self._is_attached:
            self._is_attached = True
            self._network.profile_to(PROFILE)
        # as without the profiler, the first of several does not count
        for _ in range(min(count - 1, 1)):
            self._run_once()
        samples, times, counts = [], [], {}
        until = time.perf_counter() + LONGEST_S
        for _ in range(max(count - 1, 1)):
            if times and time.perf_counter() > until:
                break
            meter = waits.Meter()
            times.append(self._run_once())
            for name, value in meter.counts().items():
                is_known = value is not None and counts.get(name, 0) is not None
                counts[name] = counts.get(name, 0) + value if is_known else None
            self._network.finish()  # which may write the profile
            samples.append(_device_times_us(PROFILE))
        ids = list(dict.fromkeys(key for sample in samples for key in sample))
        us = [[sample.get(key) for key in ids] for sample in samples]
        return dict(counts, ms=times, count=len(times), ids=ids, us=us)


def _device_times_us(path):
    """Return {id of an operator: its longest time on a computing node, µs} of a profile."""
    try:
        with open(path, encoding="utf-8") as file:
            device = json.load(file)["profiler"]["device"]
    except (OSError, ValueError, KeyError) as error:
        raise Failure("the profile cannot be read: {}".format(error))
    return {
        key: round(1e6 * max(times["end"] - times["start"] for times in nodes.values()), 2)
        for key, nodes in device.items()
        if nodes
    }


def _write(outputs):
    """Write the outputs to files; return their number."""
    names = []
    for number, (_, name, array) in enumerate(outputs):
        np.save("output-{}.npy".format(number), array)
        names.append(name)
    with open("outputs.json", "w") as file:
        json.dump(names, file)
    return len(names)


def _answer(content):
    # one write, so that a line is whole, and no buffer that a crash would lose
    os.write(1, json.dumps(content).encode("ascii") + b"\n")
