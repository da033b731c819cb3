"""Mutate JSON so that it stays valid, since flipped bytes seldom pass the parser."""

import copy
import random
from typing import Any

#: values that often break readers of JSON, such as the limits of columns and floats
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**400,
    0.5, -0.0, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf"), 253402300800.0,
    "", " ", "\x00", "a\x00b", "\ud800", "\udfff\ud800", "\u2069\u202e", "=1+1", "../..", "nan",
    "1e999", "\U0001f600" * 40, "x" * 5_000, [], {}, [[]], [None], {"": None}, {"type": "hello"},
)  # fmt: skip


def change(value: Any, chance: random.Random) -> Any:
    """Return a copy of `value` with one to four random changes."""
    root = [copy.deepcopy(value)]
    for _ in range(chance.randint(1, 4)):
        places = list(_places(root))
        if not places:
            break
        _change_at(*chance.choice(places), places, chance)
    return root[0] if root else None


def nested(depth: int, chance: random.Random) -> str:
    """Return the text of deeply nested JSON, which no encoder would write."""
    opening, closing = chance.choice((("[", "]"), ('{"a":', "}"), ("[{},", "]")))
    return opening * depth + "1" + closing * depth


def _places(root: Any) -> Any:
    """Yield (container, key) of all values at all depths."""
    waiting = [root]
    while waiting:
        holder = waiting.pop()
        keys = range(len(holder)) if isinstance(holder, list) else list(holder)
        for key in keys:
            yield holder, key
            if isinstance(holder[key], list | dict):
                waiting.append(holder[key])


def _change_at(holder: Any, key: Any, places: list[Any], chance: random.Random) -> None:
    act = chance.randrange(7)
    if act == 0:
        del holder[key]
    elif act == 1:
        other, place = chance.choice(places)
        if _holds(other, place):
            holder[key] = copy.deepcopy(other[place])
    elif act == 2 and isinstance(holder, dict):
        holder[chance.choice(("", "type", "name", "\x00", "a.b", "x" * 200))] = holder.pop(key)
    elif act == 3 and isinstance(holder, list):
        more = chance.choice((1, 2, 50))
        holder[key:key] = [copy.deepcopy(holder[key]) for _ in range(more)]
    elif act == 4 and isinstance(holder[key], str):
        at = chance.randint(0, len(holder[key]))
        holder[key] = holder[key][:at] + str(chance.choice(ODD)) + holder[key][at:]
    elif act == 5 and type(holder[key]) in (int, float):
        holder[key] = chance.choice((-holder[key], holder[key] + 1, holder[key] * 1000))
    else:
        holder[key] = copy.deepcopy(chance.choice(ODD))


def _holds(holder: Any, key: Any) -> bool:
    return key in holder if isinstance(holder, dict) else key < len(holder)
