"""Load a model, run it, and time the runs; in several threads, if asked for, each with a copy."""

import math
import threading
import time

from load_and_run import dumps, inputs, rules
from load_and_run.errors import Failure
from load_and_run.library import ModelMemory, Network
from load_and_run.log import log

_TITLE = "Runtime Model Info"
_HEAD = ("type", "name", "shape", "dtype")


class Plan(object):
    """What all copies of a model have in common: `given` are the parsed items of --input."""

    def __init__(self, model, flags, entries):
        self.model = model
        self.flags = flags
        self.entries = entries
        self.profile = flags["profile_host"] or flags["profile"]
        self.memory = ModelMemory(model) if flags["share_param_mem"] else None
        if self.memory:
            log("enable share param memory")


def run_all(plan):
    """Run as many copies as --thread says, at once. Raises the first failure of any."""
    count = plan.flags["thread"]
    if count == 1:
        return run_copy(plan, True)
    failures = []
    copies = [
        threading.Thread(target=_run_in_thread, args=(plan, not number, failures))
        for number in range(count)
    ]
    for copy in copies:
        copy.start()
    for copy in copies:
        copy.join()
    if failures:
        raise failures[0]
    return None


def _run_in_thread(plan, first, failures):
    try:
        run_copy(plan, first)
    except Failure as failure:
        failures.append(failure)
    except MemoryError:
        failures.append(Failure("std::bad_alloc", "std::bad_alloc"))


def run_copy(plan, first):
    """Load and run one copy; only the `first` is profiled, since there is one file."""
    flags = plan.flags
    started = time.perf_counter()
    network = _load(plan)
    log("load model: {:.3f}ms\n".format(ms_since(started)))
    dump = dumps.IODump(flags)
    dump.attach(network)
    arrays = _arrays(plan.entries, network, flags["iter"] + flags["warmup_iter"] > 0)
    if plan.profile and first:
        network.profile_to(plan.profile)
    if flags["model_info"]:
        log("enable display model information")
        _show_info(network)
    if flags["range"] and first:
        _check_range(plan, arrays)
    out = dumps.OutputDump(flags["bin_out_dump"]) if flags["bin_out_dump"] else None
    _time_runs(network, arrays, flags, out)
    network.finish()
    if flags["model_info"]:
        _show_info(network)
    del network  # the library writes the rest of a text dump when the network goes
    dump.close()


def _load(plan):
    if rules.uses_graph(plan.flags):
        from load_and_run.graph_network import GraphNetwork

        return GraphNetwork(plan.model, plan.flags)
    network = Network(plan.model, plan.flags, plan.memory)
    network.configure(plan.flags)
    return network


def _check_range(plan, arrays):
    from load_and_run.graph_range import check_range

    log("enable number range check")
    check_range(plan.model, plan.flags, arrays, plan.flags["range"])


def _show_info(network):
    log("\n" + info_table(network.inputs(), network.results()) + "\n")


def info_table(input_tensors, made):
    """Format the table of --model_info as load_and_run prints it; rows are TensorSpecs."""
    rows = [_HEAD]
    for kind, tensors in (("INPUT", input_tensors), ("OUTPUT", made)):
        rows += [
            (kind, tensor.name, inputs.braces(tensor.shape), str(tensor.dtype))
            for tensor in tensors
        ]
    widths = [max(len(row[column]) for row in rows) + 2 for column in range(len(_HEAD))]
    border = "+" + "+".join("-" * width for width in widths) + "+"
    lines = ["+" + _TITLE + border[len(_TITLE) + 1 :]]
    for row in rows:
        cells = [_middle(row[column], widths[column]) for column in range(len(row))]
        lines += ["|" + "|".join(cells) + "|", border]
    return "\n".join(lines)


def _middle(text, width):
    left = (width - len(text)) // 2
    return " " * left + text + " " * (width - len(text) - left)


def _arrays(entries, network, computes):
    """(name, array) for each input, checked against what the model wants.

    Without a run there is nothing to warn of: it is only asked what the model is.
    """
    pairs, warnings = inputs.match(entries, network.inputs())
    for warning in warnings if computes else ():
        log(warning, "WARN")
    arrays = []
    for item, want in pairs:
        array = item.read()
        nan, infinite = inputs.not_finite(array)
        if nan or infinite:
            log(
                'input "{}" holds {} NaN and {} infinite of {} numbers'.format(
                    want.name, nan, infinite, array.size
                ),
                "WARN",
            )
        arrays.append((want.name, array))
    return arrays


def _time_runs(network, arrays, flags, out):
    log("run testcase: 0 ")
    started = time.perf_counter()
    for name, array in arrays:
        network.put(name, array)
    network.prepare()
    prepare_ms = ms_since(started)
    for number in range(flags["warmup_iter"]):
        log("=== prepare: {:.3f}ms; going to warmup".format(0.0 if number else prepare_ms))
        whole_ms, _ = _run(network, flags["copy_to_host"], out)
        log("warm up {}  {:.3f}ms".format(number, whole_ms))
    times = []
    iterations = flags["iter"]
    for number in range(iterations):
        whole_ms, host_ms = _run(network, flags["copy_to_host"], out)
        times.append(whole_ms)
        log(
            "iter {}/{}: e2e={:.3f} ms (host={:.3f} ms)".format(
                number, iterations, whole_ms, host_ms
            )
        )
    if times:
        log(_finished_line(times))
    log("=== total time: {:.3f}ms\n".format(math.fsum(times)))


def _run(network, copy, out):
    """Milliseconds of one run: whole, and until the host was free."""
    started = time.perf_counter()
    network.forward()
    host_ms = ms_since(started)
    whole_ms = (network.wait() - started) * 1000.0
    if copy:
        copying = time.perf_counter()
        network.outputs()
        whole_ms += ms_since(copying)
    if out:
        out.write(network.outputs())
    return whole_ms, host_ms


def _finished_line(times):
    """The summary of the timed runs; the deviation of a single one is 0/0, which C++ calls -nan."""
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
    """Milliseconds since `started`, a time.perf_counter()."""
    return (time.perf_counter() - started) * 1000.0
