"""Parse the help of a compiled load_and_run for its flags and the features it was built with."""

import re
from collections.abc import Collection

#: flags of gflags itself, which every program with gflags has; they read files and the environment
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
_TYPE = re.compile(r"\) type: [a-z0-9]{1,10} default: (\"[^\"]{0,200}\"|\S{1,100})")

_LEGACY_LINE = re.compile(r"^ {0,2}--.{1,200}$", re.MULTILINE)
_LEGACY_NAME = re.compile(r"--([a-z][a-z0-9-]{1,59})")
#: flags that load_and_run up to 1.6 supports, but does not list in its help
_LEGACY_UNLISTED = frozenset(
    {
        "enable_nchw4",
        "enable_nchw32",
        "enable_nhwcd4",
        "enable_fuse_conv_bias_nonlinearity",
        "enable_fuse_conv_bias_with_z",
    }
)
#: flags that the help of 1.6 lists, but the program does not support
_LEGACY_UNSUPPORTED = frozenset({"layout_transform_verify", "data"})

#: flag -> build feature that it requires
_BUILDS = {
    "cuda": "cuda",
    "tensorrt": "tensorrt",
    "fast_run": "fast_run",
    "profile": "json",
    "enable_jit": "jit",
    "c_opr_lib": "c_opr",
}


def parse_help(text: str) -> frozenset[str]:
    """Return load_and_run's flags in the output of `--help` (from 1.7 on), without gflags' own."""
    flags = set()
    for block in _START.split(text[:_MOST_TEXT])[1:]:
        # gflags wraps its lines at any space
        line = " ".join(block.split())
        name = _NAME.match(line)
        if name and name[0] not in _BUILT_IN and _TYPE.search(line):
            flags.add(name[0])
    return frozenset(flags)


def parse_legacy_help(text: str) -> frozenset[str]:
    """Return the flags of load_and_run up to 1.6, from its output without arguments."""
    _, heading, options = text[:_MOST_TEXT].partition("Where options are:")
    if not heading:
        return frozenset()
    lines = _LEGACY_LINE.findall(options)
    names = {name.replace("-", "_") for line in lines for name in _LEGACY_NAME.findall(line)}
    return frozenset((names | _LEGACY_UNLISTED) - _LEGACY_UNSUPPORTED)


def builds_of(flags: Collection[str]) -> tuple[str, ...]:
    """Return the build features that the flags imply: the values of `_BUILDS`."""
    return tuple(build for flag, build in _BUILDS.items() if flag in flags)
