"""The 74 options of load_and_run 1.13, one row each: what the product knows of them.

The table is `options.json`, so that the wheel's runner (`agent/load_and_run`, Python 3.6) reads the
same one. Names, types, defaults and limits are load_and_run's own (`lite/load_and_run/src` of
MegEngine v1.13.0); the order is that of its groups. From this table come the form, the validation,
the command line, the page of documentation and `python -m agent options --json`.
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
        (each["options"], each.get("others", each["options"])) for each in _TABLE["conflicts"]
    ]
    both_ways = (*pairs, *((others, some) for some, others in pairs))
    found = [other for some, others in both_ways if name in some for other in others]
    return tuple(other for other in dict.fromkeys(found) if other != name)


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

#: written while iterations run, which makes them slow: they belong into a pass of their own
DISTURBING = _marked("disturbs")
#: written once an attempt, by its first pass
ONCE = _marked("once")
#: fitting resets what else is set; these stay
KEPT_BY_FITTING = _marked("kept_by_fitting")
