"""Data types for load_and_run's options, and for the capabilities of a runtime they depend on."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Value = bool | int | float | str
Kind = Literal["bool", "int", "float", "choice", "text", "artifact", "file", "library", "agent"]


class Group(StrEnum):
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
    """One option of load_and_run: the row type of `option_table`. Limits are inclusive.

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
    membership in the sets of `option_table`; `note`, the reason for a value. `excludes` is computed
    from the table's conflicts.
    """

    name: str
    group: Group
    kind: Kind
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

    `flags`: the options that the runtime supports, empty if unknown. `builds`: any of cuda,
    tensorrt, opencl. `libraries`: names of the C operator libraries that the device's owner
    configured. `cores`: the number of cores of the device, 0 if unknown.
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
