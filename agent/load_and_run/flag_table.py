"""The 74 flags of load_and_run 1.13, from the table of options that agent and server read, too."""

import json
import os

_TABLE = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "protocol", "options.json"
)
with open(_TABLE, "rb") as _file:
    _CONTENT = json.loads(_file.read().decode("utf-8"))

#: name -> row; `agent/protocol/option.py` says what its keys mean
OPTIONS = {row["name"]: row for row in _CONTENT["options"]}
#: (names, names, why none of the first goes with any other of the second)
CONFLICTS = [
    (each["options"], each.get("others", each["options"]), each["why"])
    for each in _CONTENT["conflicts"]
]
#: name -> (type, default, what it does), as load_and_run itself has them
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
#: heading of the help -> names
GROUPS = {heading: [] for heading in _CONTENT["groups"].values()}
for _row in _CONTENT["options"]:
    GROUPS[_CONTENT["groups"][_row["group"]]].append(_row["name"])
GROUPS["gflags"] = ["help", "version"]

#: what the library in the wheel has no way in for
COMPILED_ONLY = [name for name, row in OPTIONS.items() if not row.get("wheel", True)]
LAYOUTS = [name for name, row in OPTIONS.items() if row["group"] == "layout"]
#: dumps of every variable
VARIABLE_DUMPS = [
    name for name, row in OPTIONS.items() if row.get("disturbs") and name != "bin_out_dump"
]
#: of `workspace_limit`: no limit
NO_LIMIT = FLAGS["workspace_limit"][1]
