"""Load a model and time its runs; with --thread, load and run a copy in each of several threads."""

import math
import threading
import time

from load_and_run import dumps, inputs, rules, turns, waits
from load_and_run.errors import Failure, log
from load_and_run.files import graph_offset
from load_and_run.library import ModelMemory, Network

_TITLE = "Runtime Model Info"
_HEAD = ("type", "name", "shape", "dtype")


class RunSetup(object):
    """Data shared by all copies of a model. `entries` are the parsed items of --input."""

    def __init__(self, model, flags, entries):
        self.model = model
        self.flags = flags
        self.entries = entries
        self.profile = flags["profile_host"] or flags["profile"]
        is_shared = flags["share_param_mem"]
        self.memory = ModelMemory(model) if is_shared or graph_offset(model) else None
        if is_shared:
            log("enable share param memory")


def run_all(setup):
    """Run --thread copies of the model at once. Raises the first failure."""
    count = setup.flags["thread"]
    if count == 1:
        return run_copy(setup, True)
    failures = []
    copies = [
        threading.Thread(target=_run_in_thread, args=(setup, not number, failures))
        for number in range(count)
    ]
    for copy in copies:
        copy.start()
    for copy in copies:
        copy.join()
    if failures:
        raise failures[0]
    return None


def _run_in_thread(setup, first, failures):
    try:
        run_copy(setup, first)
    except Failure as failure:
        failures.append(failure)
    except MemoryError:
        failures.append(Failure("std::bad_alloc", "std::bad_alloc"))


def run_copy(setup, first):
    """Load and run one copy; only the `first` one is profiled, since there is one profile file."""
    flags = setup.flags
    started = time.perf_counter()
    network = _load(setup)
    log("load model: {:.3f}ms\n".format(ms_since(started)))
    pipe = dumps.dump_variables(network, flags)
    arrays = _arrays(setup.entries, network, flags["iter"] + flags["warmup_iter"] > 0)
    is_profiled = bool(setup.profile) and first
    if is_profiled:
        network.profile_to(setup.profile)
    if flags["model_info"]:
        log("enable display model information")
        _show_info(network)
    if flags["range"] and first:
        _check_range(setup, arrays)
    output_dump = dumps.OutputDump(flags["bin_out_dump"]) if flags["bin_out_dump"] else None
    _time_runs(network, arrays, flags, output_dump, is_profiled)
    network.finish()
    if flags["model_info"]:
        _show_info(network)
    del network  # deleting the network flushes a text dump
    if pipe:
        pipe.close()


def _load(setup):
    if rules.uses_graph(setup.flags):
        from load_and_run.graph_network import GraphNetwork

        return GraphNetwork(setup.model, setup.flags)
    network = Network(setup.model, setup.flags, setup.memory)
    network.configure(setup.flags)
    return network


def _check_range(setup, arrays):
    from load_and_run.graph_range import check_range

    log("enable number range check")
    check_range(setup.model, setup.flags, arrays, setup.flags["range"])


def _show_info(network):
    log("\n" + info_table(network.inputs(), network.results()) + "\n")


def info_table(input_tensors, output_tensors):
    """Format the table of --model_info as load_and_run prints it; rows are TensorSpecs."""
    rows = [_HEAD]
    for kind, tensors in (("INPUT", input_tensors), ("OUTPUT", output_tensors)):
        rows += [
            (kind, tensor.name, inputs.braces(tensor.shape), str(tensor.dtype))
            for tensor in tensors
        ]
    widths = [max(len(row[column]) for row in rows) + 2 for column in range(len(_HEAD))]
    border = "+" + "+".join("-" * width for width in widths) + "+"
    lines = ["+" + _TITLE + border[len(_TITLE) + 1 :]]
    for row in rows:
        cells = ["{:^{}}".format(row[column], widths[column]) for column in range(len(row))]
        lines += ["|" + "|".join(cells) + "|", border]
    return "\n".join(lines)


def _arrays(entries, network, computes):
    """Return (name, array) for each input, checked against the model.

    `computes` is false if the run only prints information about the model; then mismatches are not
    logged.
    """
    pairs, warnings = inputs.match(entries, network.inputs())
    for warning in warnings if computes else ():
        log(warning, "WARN")
    arrays = []
    for entry, tensor in pairs:
        array = entry.read()
        nan, infinite = inputs.not_finite(array)
        if nan or infinite:
            log(
                'input "{}" contains {} NaN and {} infinite of {} numbers'.format(
                    tensor.name, nan, infinite, array.size
                ),
                "WARN",
            )
        arrays.append((tensor.name, array))
    return arrays


def _time_runs(network, arrays, flags, output_dump, is_profiled):
    log("run testcase: 0 ")
    started = time.perf_counter()
    for name, array in arrays:
        network.put(name, array)
    network.prepare()
    prepare_ms = ms_since(started)
    for number in range(flags["warmup_iter"]):
        log("=== prepare: {:.3f}ms; going to warmup".format(0.0 if number else prepare_ms))
        whole_ms, _ = _run(network, flags["copy_to_host"], output_dump)
        log("warm up {}  {:.3f}ms".format(number, whole_ms))
    if flags["take_turns"]:
        turns.take_turns(network, lambda: _run(network, flags["copy_to_host"], output_dump)[0])
        return
    times = []
    iterations = flags["iter"]
    waiting = waits.Iterations()
    for number in range(iterations):
        if is_profiled and number == iterations - 1:
            waiting.expect_last()  # the profile is of it
        whole_ms, host_ms = _run(network, flags["copy_to_host"], output_dump)
        waiting.add(whole_ms)
        times.append(whole_ms)
        log(
            "iter {}/{}: e2e={:.3f} ms (host={:.3f} ms)".format(
                number, iterations, whole_ms, host_ms
            )
        )
    if times:
        waited_line = waiting.line()
        log(_finished_line(times))
        if waited_line:
            log(waited_line)
    log("=== total time: {:.3f}ms\n".format(math.fsum(times)))


def _run(network, copy, output_dump):
    """Execute one run; return its whole time and the time until the host was free, in ms."""
    started = time.perf_counter()
    network.forward()
    host_ms = ms_since(started)
    whole_ms = (network.wait() - started) * 1000.0
    if copy:
        copying = time.perf_counter()
        network.outputs()
        whole_ms += ms_since(copying)
    if output_dump:
        output_dump.write(network.outputs())
    return whole_ms, host_ms


def _finished_line(times):
    """Format the summary of the timed runs; the deviation of a single run is -nan, as in C++."""
    average = math.fsum(times) / len(times)
    deviation = "-nan"
    if len(times) > 1:
        squares = math.fsum((time_ms - average) ** 2 for time_ms in times)
        deviation = "{:.3f}".format(math.sqrt(squares / (len(times) - 1)))
    return (
        "=== finished test #0: time={:.3f} ms avg_time={:.3f} ms standard_deviation={} ms "
        "min={:.3f} ms max={:.3f} ms".format(
            math.fsum(times), average, deviation, min(times), max(times)
        )
    )


def ms_since(started):
    """Return the milliseconds since `started`, a value of time.perf_counter()."""
    return (time.perf_counter() - started) * 1000.0
