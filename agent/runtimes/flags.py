"""What a compiled load_and_run says of itself in its help: flags and, from them, its build."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

#: gflags' own, in every program that uses it; they read files and the environment
_BUILT_IN = frozenset(
    {
        "flagfile",
        "fromenv",
        "tryfromenv",
        "undefok",
        "tab_completion_columns",
        "tab_completion_word",
        "help",
        "helpfull",
        "helpmatch",
        "helpon",
        "helppackage",
        "helpshort",
        "helpxml",
        "version",
    }
)
_MOST_TEXT = 1 << 20
_START = re.compile(r"^ {4}-(?=[a-z])", re.MULTILINE)
_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")
_TYPE = re.compile(r"\) type: ([a-z0-9]{1,10}) default: (\"[^\"]{0,200}\"|\S{1,100})")

_LEGACY_LINE = re.compile(r"^ {0,2}--.{1,200}$", re.MULTILINE)
_LEGACY_NAME = re.compile(r"--([a-z][a-z0-9-]{1,59})")
#: known to the program up to 1.6, but not to its help
_LEGACY_SILENT = frozenset(
    {
        "enable_nchw4",
        "enable_nchw32",
        "enable_nhwcd4",
        "enable_fuse_conv_bias_nonlinearity",
        "enable_fuse_conv_bias_with_z",
    }
)
#: known to the help of 1.6, but not to the program
_LEGACY_EMPTY = frozenset({"layout_transform_verify", "data"})

#: flag -> the part of the build that it is compiled with
_BUILDS = {
    "cuda": "cuda",
    "tensorrt": "tensorrt",
    "fast_run": "fast_run",
    "profile": "json",
    "enable_jit": "jit",
    "c_opr_lib": "c_opr",
}


@dataclass(frozen=True)
class Flag:
    """A flag as gflags describes it; `default` without quotes."""

    type: str
    default: str


def parse_help(text: str) -> Mapping[str, Flag]:
    """The flags in the output of `--help` from 1.7 on, gflags' own left out; empty if none."""
    flags: dict[str, Flag] = {}
    for block in _START.split(text[:_MOST_TEXT])[1:]:
        # gflags breaks its lines where the description happens to fill them
        words = " ".join(block.split())
        name, kind = _NAME.match(words), _TYPE.search(words)
        if name and kind and name[0] not in _BUILT_IN:
            flags[name[0]] = Flag(kind[1], kind[2].strip('"'))
    return flags


def parse_legacy_help(text: str) -> frozenset[str]:
    """The flags of load_and_run up to 1.6, from what it prints without arguments."""
    _, heading, options = text[:_MOST_TEXT].partition("Where options are:")
    if not heading:
        return frozenset()
    lines = _LEGACY_LINE.findall(options)
    names = {name.replace("-", "_") for line in lines for name in _LEGACY_NAME.findall(line)}
    return frozenset((names | _LEGACY_SILENT) - _LEGACY_EMPTY)


def builds_of(flags: Collection[str]) -> tuple[str, ...]:
    """How it was built, as far as its flags show: cuda, tensorrt, fast_run, json, jit, c_opr."""
    return tuple(build for flag, build in _BUILDS.items() if flag in flags)
