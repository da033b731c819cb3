"""What may be asked of load_and_run, the passes that a plan makes of it, and their command lines.

`input` and all paths are set by the agent; a user names options and values, never files of the
device.
"""

import math
import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import asdict
from typing import Any

from agent.protocol.artifacts import artifact_of
from agent.protocol.option import Capabilities, Option, Value
from agent.protocol.option_table import DISTURBING, KEPT_BY_FITTING, ONCE, OPTIONS
from agent.protocol.plan import Plan

#: the first run computes nothing: a second one warms up
_FAKE_WARM_UPS = 2
#: an uploaded cache of algorithms replaces the search for algorithms
_SUFFICIENT_FILES = frozenset({"fast_run_algo_policy"})
_THREADED = ("multithread", "multithread_default")

__all__ = [
    "OPTIONS",
    "Capabilities",
    "Option",
    "OptionError",
    "Value",
    "build_arguments",
    "check_options",
    "clean_iterations_of",
    "describe",
    "find_problems",
    "has_dump_pass",
    "options_of_passes",
    "unavailable",
]


class OptionError(ValueError):
    """A value that load_and_run would refuse, ignore or hang on, or that a device cannot do.

    `code` names the rule; `limit` is the limit that was passed, the choices, or the names of the
    options that are missing or in the way. Codes: unknown, never (not taken from users), not_bool,
    not_int, not_number, not_text, too_small, too_large, bad_choice, bad_text, excluded, needs,
    needs_lite, lite (does not go with --lite), mdl (on a wheel not with the option `limit`, which
    puts the run into the graph interface), alone (not beside a profile), file_missing,
    file_unwanted, thread_count, warmup (one more is wanted), core_twice, core_missing (the device
    has no core of that number),
    target (the layouts are for another device than the model runs on, `limit`), no_profile (this
    load_and_run writes none; the option is `profile`), and those of `unavailable`.
    """

    def __init__(self, option: str, code: str, limit: int | float | str | None = None) -> None:
        self.option, self.code, self.limit = option, code, limit
        super().__init__(f"option {option}: {code}" + ("" if limit is None else f" ({limit})"))


def check_options(
    given: Mapping[str, Value],
    *,
    runtime: Capabilities | None = None,
    files: AbstractSet[str] = frozenset(),
    profiled: bool = True,
) -> dict[str, Value]:
    """Return the options that differ from their defaults. Raises OptionError on the first bad one.

    `runtime` None: what the device can do is not looked at; else `profile_host` is left out where
    load_and_run does not know it, so that `build_arguments` asks by the other name. `files` are
    the options that a file is uploaded for. `profiled`: the plan has profiled passes.
    """
    for problem in find_problems(given, runtime=runtime, files=files, profiled=profiled):
        raise problem
    chosen = _chosen(given, files)
    if runtime is not None and runtime.flags:
        if "profile_host" not in runtime.flags:
            chosen.pop("profile_host", None)
        # what nobody asked for must not end the run of a program that does not know it
        unknown = set(_active({})) - runtime.flags - set(given)
        chosen.update(dict.fromkeys(sorted(unknown), False))
    return chosen


def find_problems(
    given: Mapping[str, Value],
    *,
    runtime: Capabilities | None = None,
    files: AbstractSet[str] = frozenset(),
    profiled: bool = True,
) -> Iterator[OptionError]:
    """Every reason to refuse these options, values before combinations."""
    bad = [problem for name, value in given.items() if (problem := _value_problem(name, value))]
    yield from bad
    for name in files:
        if name not in OPTIONS or not (OPTIONS[name].kind == "file" or OPTIONS[name].file_taken):
            yield OptionError(name, "file_unwanted")
            bad.append(OptionError(name, "file_unwanted"))
    if bad:
        return
    chosen = _active(_chosen(given, files))
    for name in chosen:
        yield from _combination_problems(OPTIONS[name], chosen, files, profiled=profiled)
        if runtime is not None and (name in given or name in files):
            yield from _runtime_problems(OPTIONS[name], chosen, runtime)
    if profiled and runtime is not None and runtime.flags and "profile" not in runtime.flags:
        yield OptionError("profile", "no_profile")


def unavailable(option: Option, runtime: Capabilities) -> str:
    """Why a runtime cannot do an option at all: a code, empty if it can.

    never: not taken from users; wheel: needs a compiled load_and_run; flag: this load_and_run does
    not know it; cuda, tensorrt, opencl: the device or the build has none, so it would do nothing or
    fail; amd: MKL-DNN's code generator hangs on this processor; library: the device's owner lists
    none.
    """
    if option.kind == "agent":
        return "never"
    if runtime.kind == "wheel" and not option.wheel:
        return "wheel"
    if runtime.flags and option.name not in runtime.flags and not option.by_agent:
        return "flag"
    if option.platform and option.platform not in runtime.builds:
        return option.platform
    if runtime.is_amd and _hangs_on_amd(option, runtime):
        return "amd"
    if option.kind == "library" and not runtime.libraries:
        return "library"
    return ""


def _hangs_on_amd(option: Option, runtime: Capabilities) -> bool:
    """Seen: `bad err=45 in Xbyak::Error`, then a futex wait without end.

    The wheel's runner looks into the model before it transforms layouts, a compiled one does not.
    """
    if option.name == "enable_nchw88":
        return True
    return runtime.kind == "binary" and option.name in ("layout_transform", "fitting")


def _chosen(given: Mapping[str, Value], files: AbstractSet[str]) -> dict[str, Value]:
    """What differs from the defaults; a switch that is off by default and off says nothing."""
    chosen = {
        name: value
        for name, value in given.items()
        if value != OPTIONS[name].default and (value is not False or OPTIONS[name].default is True)
    }
    return {**chosen, **dict.fromkeys(sorted(files), True)}


def _active(chosen: Mapping[str, Value]) -> dict[str, Value]:
    """What load_and_run is to be told: with the switches that are on by default here."""
    default = {name: True for name, option in OPTIONS.items() if option.default is True}
    return {name: value for name, value in {**default, **chosen}.items() if value is not False}


def _value_problem(name: str, value: Value) -> OptionError | None:
    option = OPTIONS.get(name)
    if option is None:
        return OptionError(name[:100], "unknown")
    if option.kind == "agent":
        return OptionError(name, "never")
    if option.kind in ("bool", "artifact", "file"):
        return None if isinstance(value, bool) else OptionError(name, "not_bool")
    if option.kind in ("int", "float"):
        return _number_problem(option, value)
    if not isinstance(value, str):
        return OptionError(name, "not_text")
    if option.choices and value not in (*option.choices, option.default):
        return OptionError(name, "bad_choice", ", ".join(option.choices))
    if option.pattern and value != option.default and not re.fullmatch(option.pattern, value):
        return OptionError(name, "bad_text")
    return None


def _number_problem(option: Option, value: Value) -> OptionError | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if isinstance(value, float) and math.isinf(value):
        code, limit = ("too_large", option.maximum) if value > 0 else ("too_small", option.minimum)
        return OptionError(option.name, code, limit)
    if option.kind == "int" and not whole:
        return OptionError(option.name, "not_int")
    if not whole and not (isinstance(value, float) and math.isfinite(value)):
        return OptionError(option.name, "not_number")
    if value == option.default or isinstance(value, str):
        return None
    if option.minimum is not None and value < option.minimum:
        return OptionError(option.name, "too_small", option.minimum)
    if option.maximum is not None and value > option.maximum:
        return OptionError(option.name, "too_large", option.maximum)
    return None


def _combination_problems(
    option: Option, chosen: Mapping[str, Value], files: AbstractSet[str], *, profiled: bool
) -> Iterator[OptionError]:
    for other in option.excludes:
        if other in chosen:
            yield OptionError(option.name, "excluded", other)
    needs = option.needs
    suffices = option.name in files and option.name in _SUFFICIENT_FILES
    if needs and not any(other in chosen for other in needs) and not suffices:
        yield OptionError(option.name, "needs", ", ".join(needs))
    if option.kind == "file" and option.name not in files:
        yield OptionError(option.name, "file_missing")
    if option.alone and profiled:
        yield OptionError(option.name, "alone")
    if "lite" in chosen and option.lite != "ok":
        yield OptionError(option.name, "lite")
    yield from _special_problems(option, chosen)


def _special_problems(option: Option, chosen: Mapping[str, Value]) -> Iterator[OptionError]:
    """Fitting resets all other options; each thread wants a core of its own."""
    if option.name == "fitting":
        for other in chosen:
            if other not in KEPT_BY_FITTING:
                yield OptionError(option.name, "excluded", other)
    if option.name == "fake_first" and int(chosen.get("warmup_iter", 1)) < _FAKE_WARM_UPS:
        yield OptionError(option.name, "warmup", _FAKE_WARM_UPS)
    if option.name != "multi_thread_core_ids":
        return
    threads = next((chosen[name] for name in _THREADED if name in chosen), None)
    given = _core_ids(chosen)
    if threads is not None and len(given) != threads:
        yield OptionError("multi_thread_core_ids", "thread_count", str(threads))
    if len(set(given)) < len(given):
        yield OptionError("multi_thread_core_ids", "core_twice")


def _core_ids(chosen: Mapping[str, Value]) -> list[int]:
    return [int(number) for number in str(chosen["multi_thread_core_ids"]).split(",")]


def _runtime_problems(
    option: Option, chosen: Mapping[str, Value], runtime: Capabilities
) -> Iterator[OptionError]:
    code = unavailable(option, runtime)
    if code:
        yield OptionError(option.name, code)
        return
    if option.kind == "library" and chosen[option.name] not in runtime.libraries:
        yield OptionError(option.name, "bad_choice", ", ".join(sorted(runtime.libraries)))
    if option.name == "layout_transform":
        yield from _target_problems(chosen, runtime)
    if option.name == "multi_thread_core_ids" and 0 < runtime.cores <= max(_core_ids(chosen)):
        yield OptionError(option.name, "core_missing", runtime.cores - 1)
    if runtime.kind == "wheel":
        yield from _wheel_problems(option, chosen)
    elif option.name == "workspace_limit" and "lite" not in chosen:
        yield OptionError(option.name, "needs_lite")
    elif option.name == "fitting" and not {"cpu", "cuda"} & set(chosen) and _lost_gpu(runtime):
        yield OptionError(option.name, "needs", "cpu")


def _lost_gpu(runtime: Capabilities) -> bool:
    """A build for CUDA on a device without a GPU: fitting tries it first, and aborts."""
    return "cuda" in runtime.flags and "cuda" not in runtime.builds


def _wheel_problems(option: Option, chosen: Mapping[str, Value]) -> Iterator[OptionError]:
    """What the wheel has in one of its two interfaces only, or for CUDA only."""
    for other in chosen:
        if OPTIONS[other].wheel_graph and not option.wheel_mdl:
            yield OptionError(option.name, "mdl", other)
    needs = option.wheel_needs
    if needs and not any(other in chosen for other in needs):
        yield OptionError(option.name, "needs", ", ".join(needs))


def _target_problems(chosen: Mapping[str, Value], runtime: Capabilities) -> Iterator[OptionError]:
    """Layouts that were timed on one device are of no use to another."""
    target = chosen["layout_transform"]
    if target == "cuda" and "cuda" not in runtime.builds:
        yield OptionError("layout_transform", "cuda")
        return
    device = _device_of(chosen, runtime)
    if device and target != device:
        yield OptionError("layout_transform", "target", device)


def _device_of(chosen: Mapping[str, Value], runtime: Capabilities) -> str:
    """Where the model runs: cpu or cuda; empty if the model itself may say so."""
    if "cuda" in chosen:
        return "cuda"
    on_cpu = any(name in chosen for name in ("lite", "cpu", "cpu_default", *_THREADED))
    sure = runtime.kind == "wheel" or "cuda" not in runtime.builds
    return "cpu" if sure or on_cpu else ""


def build_arguments(
    model: str,
    inputs: Mapping[str, str],
    options: Mapping[str, Value],
    profile: str = "",
    *,
    first: bool = True,
    dumps: bool = False,
    libraries: Mapping[str, str] | None = None,
) -> list[str]:
    """load_and_run's arguments after the command itself, for options that were checked.

    `inputs` maps variable to file name; `profile` is where the profile is to be written, empty for
    none. `first`: what is written once an attempt is written by this pass. `dumps`: so is what is
    written while iterations run. `libraries` maps the names of C operator libraries to paths. Every
    value is glued to its flag with `=`: gflags then never takes one for a further argument.

    What the agent does itself is missing. Given `batch_size` load_and_run would ignore the data, so
    the agent gives it arrays of that batch.
    """
    arguments = [model]
    if inputs:
        arguments.append("--input=" + ";".join(f"{name}:{file}" for name, file in inputs.items()))
    left_out = set() if first else set(ONCE)
    left_out |= set() if dumps else DISTURBING
    for name, value in _active(options).items():
        if name not in left_out and not OPTIONS[name].by_agent:
            arguments.append(_argument(OPTIONS[name], value, libraries or {}))
    if profile:
        flag = "profile_host" if options.get("profile_host") else "profile"
        arguments.append(f"--{flag}={profile}")
    return arguments


def _argument(option: Option, value: Value, libraries: Mapping[str, str]) -> str:
    if option.kind == "bool":
        return f"--{option.name}"
    if option.kind in ("artifact", "file"):
        return f"--{option.name}={option.file.removesuffix('/')}"
    if option.kind == "library":
        return f"--{option.name}={libraries.get(str(value), value)}"
    return f"--{option.name}={value}"


def has_dump_pass(options: Mapping[str, Value]) -> bool:
    """Whether something is written while iterations run: that pass is for nothing else."""
    return bool(DISTURBING & set(options))


def options_of_passes(options: Mapping[str, Value], plan: Plan) -> dict[str, Value]:
    """The options that every pass has.

    Choosing algorithms by trying takes minutes: what the first process found, all others use.
    """
    # a clean pass may become two processes
    several = plan.passes + has_dump_pass(options) > 1 or plan.clean
    shared = dict(options)
    if several and ("fast_run" in shared or "full_run" in shared):
        shared["fast_run_algo_policy"] = True
    return shared


def clean_iterations_of(options: Mapping[str, Value], plan: Plan) -> int:
    """How many iterations a clean pass is tried with."""
    profiled = int(options.get("iter", OPTIONS["iter"].default))
    return max(profiled, plan.clean_min_iterations)


def describe() -> list[dict[str, Any]]:
    """The table as plain data, for programs: every option in its order, with `Option`'s fields.

    `artifact` is the name of the artifact that it leaves, `taken` whether users may set it,
    `keeps_only` what stays set beside it if it resets the others; `file_taken` also of an option
    that is switched on by a file.
    """
    return [_described(option) for option in OPTIONS.values()]


def _described(option: Option) -> dict[str, Any]:
    fields = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(option).items()
        if name != "file"
    }
    return fields | {
        "group": option.group.value,
        "keeps_only": sorted(KEPT_BY_FITTING) if option.name == "fitting" else [],
        "file_taken": option.file_taken or option.kind == "file",
        "artifact": artifact_of(option.name) if option.kind == "artifact" else "",
        "taken": option.kind != "agent",
    }
