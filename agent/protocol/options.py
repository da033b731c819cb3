"""The options of load_and_run: their table, validation, and the command lines of a plan's passes.

The table of the 74 options of load_and_run 1.13 is read from `options.json`, which
`agent/load_and_run` (Python 3.6) reads, too. Names, types, defaults and limits are load_and_run's
own (`lite/load_and_run/src` of MegEngine v1.13.0); rows are in the order of its groups. The task
form, the validation, the command line, the page of documentation and `python -m agent options
--json` are generated from this table.

The agent sets `input` and all paths; users give names and values of options, never paths on the
device.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from agent.protocol.plan import Plan

#: with `fake_first` the first warm-up computes nothing, so a second one is needed
_FAKE_WARM_UPS = 2
#: options that an uploaded algorithm cache replaces the search for
_SUFFICIENT_FILES = frozenset({"fast_run_algo_policy"})
_THREADED = ("multithread", "multithread_default")

Value = bool | int | float | str
OptionKind = Literal[
    "bool", "int", "float", "choice", "text", "artifact", "file", "library", "agent"
]


@dataclass(frozen=True)
class Option:
    """One option of load_and_run: a row of the table. Limits are inclusive.

    `group` is that of load_and_run, which has a source file for each. `kind` is the form of the
    value. `artifact`: a switch; load_and_run writes `file`, a name in the attempt's folder (a
    folder if it ends in `/`), which becomes an artifact. `file`: switched on by uploading a file.
    `library`: the name of a library that the device's owner configured. `agent`: set by the agent
    only, never by a user.

    `needs`: at least one of these options must be set too. `excludes`: none of these may be set.
    `alone`: the option cannot be combined with profiling, so it requires a plan without profiled
    passes. `platform`: what a device must have for the option to have an effect. `lite`: the effect
    in combination with `--lite` on a compiled load_and_run. `wheel`: the wheel supports the option.
    `wheel_mdl`: the wheel supports it in the graph interface, too. `wheel_graph`: the option makes
    the wheel use the graph interface. `wheel_needs`: as `needs`, on the wheel only. `by_agent`: the
    agent implements the option, so load_and_run need not support it. `since`: the first version
    that supports it, empty for all versions. `file_taken`: an uploaded file may provide its initial
    content (caches).

    A row of `options.json` omits fields that have the default of this class. It has these
    additional fields: `flag_default`, load_and_run's default where ours differs; `not_with_mdl`,
    the reason why the wheel does not support the option in the graph interface (`wheel_mdl` is then
    false); `disturbs`, `once` and `kept_by_fitting`, membership in the sets at the end of this
    module; `note`, the reason for a value. `excludes` is computed from the table's conflicts.
    """

    name: str
    group: str
    kind: OptionKind
    default: Value = False
    type: Literal["bool", "int32", "uint64", "double", "string"] = "bool"
    minimum: int | float | None = None
    maximum: int | float | None = None
    choices: tuple[str, ...] = ()
    pattern: str = ""
    file: str = ""
    file_taken: bool = False
    needs: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    alone: bool = False
    platform: Literal["", "cuda", "tensorrt", "opencl"] = ""
    lite: Literal["ok", "abort", "no-op"] = "ok"
    wheel: bool = True
    wheel_mdl: bool = True
    wheel_graph: bool = False
    wheel_needs: tuple[str, ...] = ()
    by_agent: bool = False
    since: str = ""


@dataclass(frozen=True)
class Capabilities:
    """The capabilities of a runtime and its device that decide which options are available.

    `flags`: the options that the runtime supports, empty if unknown. `builds`: the parts
    of the build, such as cuda and jit. `libraries`: names of the C operator libraries that the
    device's owner configured. `run_cores`: the numbers of the cores that runs may use,
    empty if unknown.
    """

    kind: Literal["wheel", "binary"]
    flags: frozenset[str] = frozenset()
    builds: frozenset[str] = frozenset()
    libraries: frozenset[str] = frozenset()
    cpu_model: str = ""
    run_cores: tuple[int, ...] = ()

    @property
    def is_amd(self) -> bool:
        return "AMD" in self.cpu_model


_TABLE = json.loads(Path(__file__).with_name("options.json").read_bytes())
_FIELDS = frozenset(field.name for field in fields(Option))


def _excludes(name: str) -> tuple[str, ...]:
    pairs: list[tuple[Sequence[str], Sequence[str]]] = [
        (conflict["options"], conflict.get("others", conflict["options"]))
        for conflict in _TABLE["conflicts"]
    ]
    both_ways = (*pairs, *((others, some) for some, others in pairs))
    excluded = [other for some, others in both_ways if name in some for other in others]
    return tuple(other for other in dict.fromkeys(excluded) if other != name)


def _option(row: Mapping[str, Any]) -> Option:
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in row.items()
        if key in _FIELDS
    }
    values["excludes"] = _excludes(row["name"])
    values["wheel_mdl"] = "not_with_mdl" not in row
    return Option(**values)


def _marked(key: str) -> frozenset[str]:
    return frozenset(row["name"] for row in _TABLE["options"] if row.get(key))


OPTIONS: Mapping[str, Option] = {row["name"]: _option(row) for row in _TABLE["options"]}

#: options that write files during iterations and slow them down; they get a separate pass
DISTURBING = _marked("disturbs")
#: options whose files are written once per attempt, by its first pass
ONCE = _marked("once")
#: options that `fitting` does not reset
KEPT_BY_FITTING = _marked("kept_by_fitting")


class OptionError(ValueError):
    """A value that load_and_run would reject, ignore or hang on, or that a device does not support.

    `code` is the violated rule; `limit` is the limit that was exceeded, the choices, or the
    names of the missing or conflicting options. Codes: unknown, never (users may not set it),
    not_bool, not_int, not_number, not_text, too_small, too_large, bad_choice, bad_text, excluded,
    needs, needs_lite, lite (incompatible with --lite), mdl (on a wheel incompatible with the option
    `limit`, which selects the graph interface), alone (incompatible with profiling), file_missing,
    file_unwanted, thread_count, warmup (one more warm-up is needed), core_twice, core_missing
    (runs may only use the cores `limit`), target (the layouts are for a device other than `limit`,
    on which the model runs), no_profile (this load_and_run writes none; the option is `profile`),
    and the codes of `unavailable`.
    """

    def __init__(self, option: str, code: str, limit: int | float | str | None = None) -> None:
        self.option, self.code, self.limit = option, code, limit
        super().__init__(f"option {option}: {code}" + ("" if limit is None else f" ({limit})"))


def check_options(
    requested: Mapping[str, Value],
    *,
    runtime: Capabilities | None = None,
    files: AbstractSet[str] = frozenset(),
    profiled: bool = True,
) -> dict[str, Value]:
    """Return the options that differ from their defaults. Raises OptionError on the first bad one.

    If `runtime` is None, the capabilities of the device are not checked. Otherwise `profile_host`
    is removed if load_and_run does not support it, so that `build_arguments` uses `profile`.
    `files` are the options that a file is uploaded for. `profiled`: the plan has profiled passes.
    """
    for problem in find_problems(requested, runtime=runtime, files=files, profiled=profiled):
        raise problem
    chosen = _chosen(requested, files)
    if runtime is not None and runtime.flags:
        if "profile_host" not in runtime.flags:
            chosen.pop("profile_host", None)
        # a default of ours must not fail the run of a version that does not know the option
        unknown = set(_active({})) - runtime.flags - set(requested)
        chosen.update(dict.fromkeys(sorted(unknown), False))
    return chosen


def find_problems(
    requested: Mapping[str, Value],
    *,
    runtime: Capabilities | None = None,
    files: AbstractSet[str] = frozenset(),
    profiled: bool = True,
) -> Iterator[OptionError]:
    """Yield every reason to reject these options: first bad values, then bad combinations."""
    bad = [problem for name, value in requested.items() if (problem := _value_problem(name, value))]
    for name in files:
        if name not in OPTIONS or not (OPTIONS[name].kind == "file" or OPTIONS[name].file_taken):
            bad.append(OptionError(name, "file_unwanted"))
    yield from bad
    if bad:
        return
    chosen = _active(_chosen(requested, files))
    for name in chosen:
        yield from _combination_problems(OPTIONS[name], chosen, files, profiled=profiled)
        if runtime is not None and (name in requested or name in files):
            yield from _runtime_problems(OPTIONS[name], chosen, runtime)
    if profiled and runtime is not None and runtime.flags and "profile" not in runtime.flags:
        yield OptionError("profile", "no_profile")


def unavailable(option: Option, runtime: Capabilities) -> str:
    """Return the code of the reason why a runtime does not support an option; empty if it does.

    never: users may not set it; wheel: requires a compiled load_and_run; flag: this version of
    load_and_run does not know it; cuda, tensorrt, opencl: the device or the build lacks it, so the
    option would have no effect or fail; amd: MKL-DNN's code generator hangs on this processor;
    library: the device's owner configured none.
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
    """Return whether the option hangs on AMD: `bad err=45 in Xbyak::Error`, then a futex wait.

    The runner of the wheel inspects the model before it transforms layouts; a compiled load_and_run
    does not, and hangs.
    """
    if option.name == "enable_nchw88":
        return True
    return runtime.kind == "binary" and option.name in ("layout_transform", "fitting")


def _chosen(requested: Mapping[str, Value], files: AbstractSet[str]) -> dict[str, Value]:
    """Return the options that differ from their defaults, and True for options with a file."""
    chosen = {
        name: value
        for name, value in requested.items()
        if value != OPTIONS[name].default and (value is not False or OPTIONS[name].default is True)
    }
    return {**chosen, **dict.fromkeys(sorted(files), True)}


def _active(chosen: Mapping[str, Value]) -> dict[str, Value]:
    """Return the options for load_and_run, including the switches that we turn on by default."""
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
    """Check rules of single options: fitting resets the others, each thread needs its own core."""
    if option.name == "fitting":
        for other in chosen:
            if other not in KEPT_BY_FITTING:
                yield OptionError(option.name, "excluded", other)
    if option.name == "fake_first" and int(chosen.get("warmup_iter", 1)) < _FAKE_WARM_UPS:
        yield OptionError(option.name, "warmup", _FAKE_WARM_UPS)
    if option.name != "multi_thread_core_ids":
        return
    threads = next((chosen[name] for name in _THREADED if name in chosen), None)
    cores = _core_ids(chosen)
    if threads is not None and len(cores) != threads:
        yield OptionError("multi_thread_core_ids", "thread_count", str(threads))
    if len(set(cores)) < len(cores):
        yield OptionError("multi_thread_core_ids", "core_twice")


def _core_ids(chosen: Mapping[str, Value]) -> list[int]:
    return [int(number) for number in str(chosen["multi_thread_core_ids"]).split(",")]


def _core_problems(
    option: Option, chosen: Mapping[str, Value], cores: Sequence[int]
) -> Iterator[OptionError]:
    if not set(cores).issuperset(_core_ids(chosen)):
        yield OptionError(option.name, "core_missing", _ranges(cores))


def _ranges(numbers: Iterable[int]) -> str:
    """Format numbers, such as `0-3, 6`."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1][1:] = [number]
        else:
            ranges.append([number])
    return ", ".join("-".join(map(str, ends)) for ends in ranges)


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
    if option.name == "multi_thread_core_ids" and runtime.run_cores:
        yield from _core_problems(option, chosen, runtime.run_cores)
    if runtime.kind == "wheel":
        yield from _wheel_problems(option, chosen)
    elif option.name == "workspace_limit" and "lite" not in chosen:
        yield OptionError(option.name, "needs_lite")
    elif option.name == "fitting" and not {"cpu", "cuda"} & set(chosen) and _lost_gpu(runtime):
        yield OptionError(option.name, "needs", "cpu")


def _lost_gpu(runtime: Capabilities) -> bool:
    """Return whether a CUDA build runs on a device without GPU: fitting tries CUDA and aborts."""
    return "cuda" in runtime.flags and "cuda" not in runtime.builds


def _wheel_problems(option: Option, chosen: Mapping[str, Value]) -> Iterator[OptionError]:
    """Check options that the wheel supports in one of its two interfaces only, or on CUDA only."""
    for other in chosen:
        if OPTIONS[other].wheel_graph and not option.wheel_mdl:
            yield OptionError(option.name, "mdl", other)
    needs = option.wheel_needs
    if needs and not any(other in chosen for other in needs):
        yield OptionError(option.name, "needs", ", ".join(needs))


def _target_problems(chosen: Mapping[str, Value], runtime: Capabilities) -> Iterator[OptionError]:
    """Check that layouts are transformed for the device that the model runs on."""
    target = chosen["layout_transform"]
    if target == "cuda" and "cuda" not in runtime.builds:
        yield OptionError("layout_transform", "cuda")
        return
    device = _device_of(chosen, runtime)
    if device and target != device:
        yield OptionError("layout_transform", "target", device)


def _device_of(chosen: Mapping[str, Value], runtime: Capabilities) -> str:
    """Return the device of the run (cpu or cuda); empty if the model may choose it."""
    if "cuda" in chosen:
        return "cuda"
    on_cpu = any(name in chosen for name in ("lite", "cpu", "cpu_default", *_THREADED))
    sure = runtime.kind == "wheel" or "cuda" not in runtime.builds
    return "cpu" if sure or on_cpu else ""


def may_use_gpu(options: Mapping[str, Value], runtime: Capabilities) -> bool:
    """Return whether a run with these validated options may use a GPU."""
    if runtime.kind == "wheel" and any(OPTIONS[name].wheel_graph for name in options):
        return "cpu" not in options  # the model chooses the device
    return _device_of(options, runtime) != "cpu"


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
    """Build load_and_run's command line arguments from validated options.

    `inputs` maps variables, as `--input` names them, to file names; `profile` is the path of the
    profile, empty for none. If `first` is true, this pass writes the files of the options in
    `ONCE`; if `dumps` is true, those of `DISTURBING`. `libraries` maps the names of C operator
    libraries to paths. Each value is joined to its flag with `=`, so that gflags cannot mistake it
    for another argument.

    Options that the agent implements itself are omitted. With `batch_size` load_and_run would
    ignore the data, so the agent prepares arrays of that batch size instead.
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
    """Return whether the options require a dump pass, which writes files during iterations."""
    return bool(DISTURBING & set(options))


def options_of_passes(options: Mapping[str, Value], plan: Plan) -> dict[str, Value]:
    """Return the options that all passes share.

    Searching algorithms takes minutes, so the first process caches its choice for the others.
    """
    # a clean pass may be repeated with more iterations
    several = plan.passes + has_dump_pass(options) > 1 or plan.clean
    shared = dict(options)
    if several and ("fast_run" in shared or "full_run" in shared):
        shared["fast_run_algo_policy"] = True
    return shared


def clean_iterations_of(options: Mapping[str, Value], plan: Plan) -> int:
    """Return the number of iterations of the first try of a clean pass."""
    profiled = int(options.get("iter", OPTIONS["iter"].default))
    return max(profiled, plan.clean_min_iterations)


def clean_passes_of(options: Mapping[str, Value], plan: Plan) -> int:
    """Return the number of clean passes, without those that a budget adds."""
    if not plan.clean:
        return 0
    # one process of `fitting` runs the model with all sets of flags, which takes long
    return 1 if "fitting" in options else plan.clean_passes


def artifact_of(option: str) -> str:
    """Return the artifact name of an option of kind `artifact`; a folder becomes a zip file."""
    file = OPTIONS[option].file
    return file.removesuffix("/") + ".zip" if file.endswith("/") else file


def describe() -> list[dict[str, Any]]:
    """Return the table as JSON-compatible data: one entry per option, with the fields of `Option`.

    `artifact` is the name of the artifact that the option produces, `taken` is whether users may
    set it, and `keeps_only` lists the options that it does not reset. `file_taken` is also true for
    options that are switched on by a file.
    """
    return [_described(option) for option in OPTIONS.values()]


def _described(option: Option) -> dict[str, Any]:
    fields = asdict(option)
    del fields["file"]
    return fields | {
        "keeps_only": sorted(KEPT_BY_FITTING) if option.name == "fitting" else [],
        "file_taken": option.file_taken or option.kind == "file",
        "artifact": artifact_of(option.name) if option.kind == "artifact" else "",
        "taken": option.kind != "agent",
    }
