"""The table of the 74 options of load_and_run 1.13.

The table is read from `options.json`, which `agent/load_and_run` (Python 3.6) reads, too. Names,
types, defaults and limits are load_and_run's own (`lite/load_and_run/src` of MegEngine v1.13.0);
rows are in the order of its groups. The task form, the validation, the command line, the page of
documentation and `python -m agent options --json` are generated from this table. `options` applies
it to a task.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

Value = bool | int | float | str
OptionKind = Literal[
    "bool", "int", "float", "choice", "text", "artifact", "file", "library", "agent"
]


class OptionGroup(StrEnum):
    """load_and_run's groups of options; each has a source file of its own there."""

    MODEL = "model"
    BASIC = "basic"
    IO = "io"
    FAST_RUN = "fast_run"
    LAYOUT = "layout"
    LAYOUT_TRANSFORM = "layout_transform"
    DTYPE = "dtype"
    OPTIMIZE = "optimize"
    DEVICE = "device"
    PLUGIN = "plugin"
    DEBUG = "debug"
    C_OPR = "c_opr"
    PACKING = "packing"
    FITTING = "fitting"


@dataclass(frozen=True)
class Option:
    """One option of load_and_run: a row of the table. Limits are inclusive.

    `kind` says how the value is given. `artifact`: a switch; load_and_run writes `file`, a name in
    the attempt's folder (a folder if it ends in `/`), which becomes an artifact. `file`: switched
    on by uploading a file. `library`: the name of a library that the device's owner configured.
    `agent`: set by the agent only, never by a user.

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
    additional fields: `help`, the text of load_and_run's help; `flag_default`, load_and_run's
    default where ours differs; `not_with_mdl`, the reason why the wheel does not support the option
    in the graph interface (`wheel_mdl` is then false); `disturbs`, `once` and `kept_by_fitting`,
    membership in the sets at the end of this module; `note`, the reason for a value. `excludes` is
    computed from the table's conflicts.
    """

    name: str
    group: OptionGroup
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
    device's owner configured. `cores`: the number of cores of the device, 0 if unknown.
    """

    kind: Literal["wheel", "binary"]
    version: str = ""
    flags: frozenset[str] = frozenset()
    builds: frozenset[str] = frozenset()
    libraries: frozenset[str] = frozenset()
    cpu_model: str = ""
    cores: int = 0

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
    values["group"] = OptionGroup(row["group"])
    values["excludes"] = _excludes(row["name"])
    values["wheel_mdl"] = "not_with_mdl" not in row
    return Option(**values)


def _marked(key: str) -> frozenset[str]:
    return frozenset(row["name"] for row in _TABLE["options"] if row.get(key))


OPTIONS: Mapping[str, Option] = {row["name"]: _option(row) for row in _TABLE["options"]}

#: options that write files during iterations and slow them down; they get a pass of their own
DISTURBING = _marked("disturbs")
#: options whose files are written once per attempt, by its first pass
ONCE = _marked("once")
#: options that `fitting` does not reset
KEPT_BY_FITTING = _marked("kept_by_fitting")
