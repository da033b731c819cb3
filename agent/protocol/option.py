"""What one option of load_and_run is, and what a runtime can do, as far as options depend on it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Value = bool | int | float | str
Kind = Literal["bool", "int", "float", "choice", "text", "artifact", "file", "library", "agent"]


class Group(StrEnum):
    """load_and_run's own groups, one source file each."""

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
    """One option: the type of the rows of `option_table`. Limits are inclusive.

    `kind` is how a value is given: `artifact` is switched on and written to `file`, a name below
    the attempt's folder (a folder if it ends in `/`) which becomes an artifact; `file` is switched
    on by an uploaded file; `library` names one that the device's owner listed; `agent` is never
    taken from a user. `needs`: at least one of these must be set too; `excludes`: none of these.
    `alone`: it must not stand beside a profile, so it wants a plan without profiled passes.
    `platform`: what a device must have for the option to do anything. `lite`: what becomes of it
    together with `--lite` on a compiled load_and_run. `wheel`: the wheel can do it; `wheel_mdl`:
    also in the graph interface, into which an option with `wheel_graph` puts the run;
    `wheel_needs`: at least one of these must be set too, on the wheel only. `by_agent`: the agent
    does it, so load_and_run need not know it. `since`: the first version that can do it, empty for
    all.
    `file_taken`: an uploaded file may be its content at the start (caches).

    A row of `options.json` omits fields that have the default of this class, and has these in
    addition: `help`, the text of load_and_run's help; `flag_default`, load_and_run's default where
    ours differs; `not_with_mdl`, why the wheel cannot do it in the graph interface (then
    `wheel_mdl` is false); `disturbs`, `once` and `kept_by_fitting`, the sets of `option_table`;
    `note`, the reason for a value. `excludes` follows from the table's conflicts.
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
    """`flags`: the options it knows, empty if that is not known. `builds`: cuda, tensorrt, opencl.

    `libraries`: names of the C operator libraries that the device's owner lists.
    `cores`: how many the device has, 0 if that is not known.
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
