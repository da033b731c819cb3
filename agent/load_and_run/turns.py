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

#: first argument of a process that takes turns; not a flag of load_and_run
TURNS = "--take-turns"
#: most iteration times in one answer
MOST_TIMES = 1000
#: a turn ends after the iteration that exceeds this time, however many it has had: on a busy
#: machine an iteration may take a thousand times as long as in the calibration
LONGEST_S = 1.0


def take_turns(run_once, read_outputs):
    """Answer each line on stdin by a JSON line on stdout, until stdin ends.

    `run_once()` runs one iteration and returns its time in ms; `read_outputs()` returns the outputs
    of the last one: (id, name, array). The first line on stdout says that the model is ready.

    A number asks for so many iterations, or as many as fit into LONGEST_S. The answer holds the
    times of the first MOST_TIMES (`ms`), their number (`count`), and what the threads waited for
    meanwhile (`waited_ms`, null if the kernel does not count it; `elapsed_ms`, `switches`,
    `stolen_ms`). The line `outputs` asks for files in the working folder: `output-<n>.npy` with the
    values, `outputs.json` with their names.
    """
    _answer({"ready": True})
    while True:
        # not the buffered iterator of the file, which would read ahead
        line = sys.stdin.readline().strip()
        if not line:
            return
        if line == "outputs":
            _answer({"outputs": _write(read_outputs())})
            continue
        count = int(line)
        # the first of several iterations does not count, nor does its waiting time: the caches
        # still hold the data of another process, and threads of that process are still busy-waiting
        times = [run_once()] if count > 1 else []
        meter = waits.Meter()
        times += _times(run_once, count - len(times))
        _answer(dict(meter.counts(), ms=times[:MOST_TIMES], count=len(times)))


def _times(run_once, count):
    times, until = [], time.perf_counter() + LONGEST_S
    while len(times) < count and (not times or time.perf_counter() < until):
        times.append(run_once())
    return times


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
