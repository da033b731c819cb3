"""Parse the command line of a run, with the 74 flags of load_and_run 1.13.

The table of flags is the table of options that agent and server use (`options.json`). The agent has
checked the values and their combinations (`agent/protocol/options.py`).
"""

import json
import os

from load_and_run.errors import FlagError

_TABLE = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "protocol", "options.json"
)
with open(_TABLE, "rb") as _file:
    _CONTENT = json.loads(_file.read().decode("utf-8"))

#: name -> row; `agent/protocol/options.py` documents the keys
OPTIONS = {row["name"]: row for row in _CONTENT["options"]}
#: name -> default, as in load_and_run itself
DEFAULTS = {
    name: row.get("flag_default", row.get("default", False)) for name, row in OPTIONS.items()
}

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
NO_LIMIT = DEFAULTS["workspace_limit"]

#: type of a flag with a value -> function that reads the value
_READ = {"int32": int, "uint64": int, "double": float, "string": str}


def parse(arguments):
    """Return (flags by name, positional arguments). Raises FlagError with gflags' own message.

    `arguments` does not include the program's name. Flags are written as the agent writes them:
    `--name=value`, or `--name` for a bool.
    """
    values = dict(DEFAULTS)
    positional = []
    for argument in arguments:
        if not argument.startswith("--"):
            positional.append(argument)
            continue
        name, _, text = argument[2:].partition("=")
        if name not in OPTIONS:
            raise FlagError("ERROR: unknown command line flag '{}'".format(name))
        kind = OPTIONS[name].get("type", "bool")
        if kind == "bool" and not text:
            values[name] = True
            continue
        try:
            values[name] = _READ[kind](text)
        except (KeyError, ValueError):  # KeyError: a value for a bool
            raise FlagError(
                "ERROR: illegal value '{}' specified for {} flag '{}'".format(text, kind, name)
            )
    return values, positional
