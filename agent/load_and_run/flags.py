"""Parse the command line as gflags does, with the 74 flags of load_and_run 1.13.

The table of flags is the table of options that agent and server use (`options.json`).
"""

import json
import os
import re

from load_and_run.errors import FlagError

_TABLE = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "protocol", "options.json"
)
with open(_TABLE, "rb") as _file:
    _CONTENT = json.loads(_file.read().decode("utf-8"))

#: name -> row; `agent/protocol/options.py` documents the keys
OPTIONS = {row["name"]: row for row in _CONTENT["options"]}
#: (names, other names, reason): no name of the first list can be combined with another one of the
#: second list
CONFLICTS = [
    (conflict["options"], conflict.get("others", conflict["options"]), conflict["why"])
    for conflict in _CONTENT["conflicts"]
]
#: name -> (type, default, help), as in load_and_run itself
FLAGS = {
    name: (
        row.get("type", "bool"),
        row.get("flag_default", row.get("default", False)),
        row["help"],
    )
    for name, row in OPTIONS.items()
}
FLAGS["help"] = ("bool", False, "show help on all flags")
FLAGS["version"] = ("bool", False, "show version and exit")
#: heading in the help -> names
GROUPS = {heading: [] for heading in _CONTENT["groups"].values()}
for _row in _CONTENT["options"]:
    GROUPS[_CONTENT["groups"][_row["group"]]].append(_row["name"])
GROUPS["gflags"] = ["help", "version"]

#: flags that the library in the wheel does not support
COMPILED_ONLY = [name for name, row in OPTIONS.items() if not row.get("wheel", True)]
_WRITTEN = {name: row["file"] for name, row in OPTIONS.items() if row["kind"] == "artifact"}
LAYOUTS = [name for name, row in OPTIONS.items() if row["group"] == "layout"]
#: flags whose value is a file or folder that the run writes (except the profile)
FILES = [name for name, file in _WRITTEN.items() if not file.endswith("/")]
FOLDERS = [name for name, file in _WRITTEN.items() if file.endswith("/")]
#: flags that dump all variables
VARIABLE_DUMPS = [
    name for name, row in OPTIONS.items() if row.get("disturbs") and name != "bin_out_dump"
]
#: value of `workspace_limit` for no limit
NO_LIMIT = FLAGS["workspace_limit"][1]

#: with a negative count of runs load_and_run would never end
_NOT_NEGATIVE = frozenset(["iter", "warmup_iter"])
#: integer type -> smallest and largest value
_LIMITS = {"int32": (-(2**31), 2**31 - 1), "uint64": (0, 2**64 - 1)}

_TRUE = frozenset(["1", "t", "true", "y", "yes"])
_FALSE = frozenset(["0", "f", "false", "n", "no"])
_INT = re.compile(r"\s*(?:0[xX][0-9a-fA-F]+|[+-]?[0-9]+)\Z", re.ASCII)
_DOUBLE = re.compile(
    r"\s*[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?|nan)\Z",
    re.ASCII | re.IGNORECASE,
)


def parse(arguments):
    """Return (flags by name, positional arguments). Raises FlagError with gflags' own message.

    `arguments` does not include the program's name. As in gflags, the last occurrence of a flag
    wins, dashes equal underscores, a bool flag never consumes the next argument, and `--` ends the
    flags.
    """
    values = {name: default for name, (_, default, _) in FLAGS.items()}
    positional = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            positional.extend(rest)
            break
        if not argument.startswith("-") or argument == "-":
            positional.append(argument)
            continue
        name, equals, text = argument[2 if argument.startswith("--") else 1 :].partition("=")
        flag, text = _find(name, text if equals else None)
        if text is None:
            if not rest:
                raise FlagError(
                    "ERROR: flag '{}' is missing its argument; flag description: {}".format(
                        argument, FLAGS[flag][2]
                    )
                )
            text = rest.pop(0)
        values[flag] = _value(flag, text)
    return values, positional


def _find(name, text):
    """Return the flag `name` and its value as text, None if the next argument is the value."""
    flag = name.replace("-", "_")
    if flag in FLAGS:
        return flag, "true" if text is None and FLAGS[flag][0] == "bool" else text
    if flag.startswith("no") and flag[2:] in FLAGS:
        flag = flag[2:]
        if FLAGS[flag][0] == "bool" and text is None:
            return flag, "false"
        raise FlagError(
            "ERROR: boolean value ({}) specified for {} command line flag".format(
                name, FLAGS[flag][0]
            )
        )
    raise FlagError("ERROR: unknown command line flag '{}'".format(name))


def _value(flag, text):
    kind = FLAGS[flag][0]
    if kind == "string":
        return text
    if kind == "bool":
        if text.lower() in _TRUE or text.lower() in _FALSE:
            return text.lower() in _TRUE
    elif kind == "double":
        if _DOUBLE.match(text):
            return float(text)
    elif _INT.match(text):
        number = int(text, 16 if "x" in text.lower() else 10)
        if flag in _NOT_NEGATIVE and number < 0:
            raise FlagError(_illegal(flag, text) + ": it must not be negative")
        smallest, largest = _LIMITS[kind]
        if smallest <= number <= largest:
            return number
    raise FlagError(_illegal(flag, text))


def _illegal(flag, text):
    return "ERROR: illegal value '{}' specified for {} flag '{}'".format(text, FLAGS[flag][0], flag)


def usage(full):
    """Return the text for stdout: the short form without arguments, the full form for --help."""
    lines = ["usage: ", "load_and_run: load_and_run <model_path> [options Flags...]", ""]
    for group, flags in GROUPS.items():
        lines.append("  Flags of {}:".format(group))
        lines += [_describe(name, full) for name in flags]
        lines.append("")
    if not full:
        lines += ['More details using "--help" to get!!', ""]
    return "\n".join(lines) + "\n"


def _describe(name, full):
    kind, default, meaning = FLAGS[name]
    text = '"{}"'.format(default) if kind == "string" else str(default).lower()
    if full:
        return "    -{} ({})\n      type: {} default: {}".format(name, meaning, kind, text)
    return "    -{:<35}type: {:<10}default: {:<22}{}".format(name, kind, text, meaning)
