"""One run of load_and_run, from its command line to its exit code."""

import math
import os
import sys
import time

import numpy as np
from load_and_run import inputs
from load_and_run.errors import (
    NOT_ASCII,
    Failure,
    FlagError,
    ModelError,
    NoMegEngine,
    ProfileError,
    die,
)
from load_and_run.flags import parse, usage
from load_and_run.library import Network, import_library
from load_and_run.log import log
from load_and_run.model_file import check_model


def main(argv):
    """Run load_and_run with `argv` (its first item is the program); returns the exit code.

    A failure of the run does not return: the process dies of SIGABRT, as load_and_run does.
    """
    if len(argv) < 2:
        sys.stdout.write(usage(full=False))
        return 255
    try:
        flags, positional = parse(argv[1:])
    except FlagError as error:
        sys.stderr.write("{}\n".format(error))
        return 1
    if flags["help"]:
        sys.stdout.write(usage(full=True))
        return 1
    if flags["version"]:
        sys.stdout.write(_version())
        return 0
    try:
        if not positional:
            raise ModelError("no model is given")
        _run(positional[0], flags)
    except MemoryError:
        die(Failure("std::bad_alloc", "std::bad_alloc"))
    except Failure as failure:
        die(failure)
    return 0


def _version():
    try:
        return "load_and_run on MegBrain {}\n".format(import_library().version)
    except NoMegEngine as failure:
        return "load_and_run ({})\n".format(failure)


def _run(model, flags):
    lite = import_library()
    log("megbrain/lite/load_and_run:")
    _plain("using MegBrain {}(0) from megenginelite\n".format(lite.version))
    check_model(model)
    profile = flags["profile_host"] or flags["profile"]
    if profile:
        _open_profile(profile)
        log("enable profiling")
    if flags["verbose"]:
        log("enable verbose")
    log("using cpu {}device\n".format("default " if flags["cpu_default"] else ""))

    given = inputs.parse_input(flags["input"])
    started = time.perf_counter()
    network = Network(model, inplace=flags["cpu_default"], verbose=flags["verbose"])
    log("load model: {:.3f}ms\n".format(_ms_since(started)))
    arrays = _arrays(given, network)
    if profile:
        network.profile_to(profile)
    _time_runs(network, arrays, flags["warmup_iter"], flags["iter"])
    if profile:
        _check_profile(profile)
        log("profiling result written to {}".format(profile))


def _arrays(given, network):
    """(name, array) for each input, checked against what the model wants."""
    pairs, warnings = inputs.match(given, network.inputs())
    for warning in warnings:
        log(warning, "WARN")
    arrays = []
    for item, want in pairs:
        array = item.read(np.dtype(want.dtype))
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


def _time_runs(network, arrays, warmups, iterations):
    log("run testcase: 0 ")
    started = time.perf_counter()
    for name, array in arrays:
        network.put(name, array)
    prepare_ms = _ms_since(started)
    for number in range(warmups):
        log("=== prepare: {:.3f}ms; going to warmup".format(0.0 if number else prepare_ms))
        started = time.perf_counter()
        network.forward()
        network.wait()
        log("warm up {}  {:.3f}ms".format(number, _ms_since(started)))
    times = []
    for number in range(iterations):
        started = time.perf_counter()
        network.forward()
        host_ms = _ms_since(started)
        network.wait()
        times.append(_ms_since(started))
        log(
            "iter {}/{}: e2e={:.3f} ms (host={:.3f} ms)".format(
                number, iterations, times[-1], host_ms
            )
        )
    if times:
        log(_finished_line(times))
    log("=== total time: {:.3f}ms\n".format(math.fsum(times)))


def _finished_line(times):
    """The summary of the timed runs; the deviation of a single one is 0/0, which C++ calls -nan."""
    average = math.fsum(times) / len(times)
    deviation = "-nan"
    if len(times) > 1:
        squares = math.fsum((each - average) ** 2 for each in times)
        deviation = "{:.3f}".format(math.sqrt(squares / (len(times) - 1)))
    return (
        "=== finished test #0: time={:.3f} ms avg_time={:.3f} ms standard_deviation={} ms "
        "min={:.3f} ms max={:.3f} ms".format(
            math.fsum(times), average, deviation, min(times), max(times)
        )
    )


def _ms_since(started):
    return (time.perf_counter() - started) * 1000.0


def _plain(text):
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _open_profile(path):
    """Make the file empty: what is in it after the run is of this run."""
    try:
        with open(path, "wb"):
            pass
    except OSError as error:
        raise ProfileError("cannot write the profile {}: {}".format(path, error.strerror))


def _check_profile(path):
    try:
        size = os.stat(path).st_size
        with open(path, "rb") as file:
            start = file.read(1)
            file.seek(max(0, size - 16))
            end = file.read().rstrip()
    except OSError as error:
        raise ProfileError("the profile {} cannot be read: {}".format(path, error.strerror))
    if not size:
        raise ProfileError("the profile {} is empty. {}".format(path, NOT_ASCII))
    if start != b"{" or not end.endswith(b"}"):
        raise ProfileError("the profile {} is incomplete".format(path))
