"""The table of the 74 options of load_and_run 1.13.

The table is read from `options.json`, which `agent/load_and_run` (Python 3.6) reads, too. Names,
types, defaults and limits are load_and_run's own (`lite/load_and_run/src` of MegEngine v1.13.0);
rows are in the order of its groups. The task form, the validation, the command line, the page of
documentation and `python -m agent options --json` are generated from this table.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from agent.protocol.option import Group, Option

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
    values["group"] = Group(row["group"])
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
