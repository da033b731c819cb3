"""The program: parse the command line, check it, run the model, return the exit code."""

import os
import shutil
import sys
import tempfile

from load_and_run import devices, dumps, graph_passes, inputs, rules, settings
from load_and_run.errors import (
    NOT_ASCII,
    Failure,
    FlagError,
    ModelError,
    ProfileError,
    die,
    log,
)
from load_and_run.files import check_model
from load_and_run.flags import DEFAULTS, parse
from load_and_run.library import call, import_library
from load_and_run.runs import RunSetup, run_all
from load_and_run.turns import TURNS


def main(argv):
    """Run load_and_run with `argv` (its first item is the program); return the exit code.

    If the run fails, the function does not return: the process ends by SIGABRT like load_and_run.
    """
    try:
        takes_turns = argv[1:2] == [TURNS]
        flags, positional = parse(argv[2:] if takes_turns else argv[1:])
        rules.check(flags)
        flags["take_turns"] = takes_turns
        _start(flags, positional)
    except FlagError as error:
        sys.stderr.write("{}\n".format(error))
        return 1
    except MemoryError:
        die(Failure("std::bad_alloc", "std::bad_alloc"))
    except Failure as failure:
        die(rules.explain(failure, flags))
    return 0


def _start(flags, positional):
    if not positional:
        raise ModelError("no model is given")
    model = positional[0]
    lite = import_library()
    rules.check_model(model, flags)
    log("megbrain/lite/load_and_run:")
    sys.stderr.write("using MegBrain {}(0) from megenginelite\n\n".format(lite.version))
    sys.stderr.flush()
    check_model(model)
    rules.check_operators(model, flags)
    entries = inputs.parse_input(flags["input"])
    dumps.make_folders(flags)
    _run(lite, model, flags, entries)


def _run(lite, model, flags, entries):
    profile = flags["profile_host"] or flags["profile"]
    if profile:
        _open_profile(profile)
        log("enable profiling{}".format(" for host" if flags["profile_host"] else ""))
    if flags["lite"]:
        log("run model force lite mode\n")
    if flags["verbose"]:
        log("enable verbose")
        lite.set_log_level(lite.LiteLogLevel.DEBUG)
    devices.announce(flags)
    if rules.uses_graph(flags):
        run_all(RunSetup(model, flags, entries))  # applies passes and caches itself
    else:
        _run_lite(lite, model, flags, entries)
    if profile:
        _check_profile(profile)
        log("profiling result written to {}".format(profile))


def _run_lite(lite, model, flags, entries):
    call(settings.set_caches, lite, flags)
    folder = tempfile.mkdtemp(prefix="load_and_run-") if graph_passes.needed(flags) else None
    try:
        if folder:
            absorbed = graph_passes.absorbed(flags)
            for name in DEFAULTS:
                if name in absorbed:
                    log("enable {}".format(name.replace("enable_", "")))
            # the static memory plan is made for the shapes of the run
            shapes = {entry.name: entry.shape for entry in entries}
            model = graph_passes.transform(model, flags, folder, shapes)
            flags = {n: DEFAULTS[n] if n in absorbed else value for n, value in flags.items()}
        log("creat lite model use CPU as default comp node")
        run_all(RunSetup(model, flags, entries))
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
    call(settings.write_caches, lite, flags)


def _open_profile(path):
    """Empty the file, so that afterwards it contains the profile of this run or nothing."""
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
