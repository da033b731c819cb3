"""Variants of a real profile: additional passes, other times, other graphs."""

import json
import random
from dataclasses import replace
from typing import Any

from profiles.analysis.data import LeftOut, ProfileData
from profiles.analysis.passes import merge
from profiles.formats.load_and_run.reader import parse, parse_whole


def another_pass(data: bytes, seed: int) -> bytes:
    """Return the profile that another process would write for the same model.

    Its times differ, and so does the order of operators in the file.
    """
    chance, profile = random.Random(seed), json.loads(data)
    for side in ("device", "host"):
        for lanes in profile["profiler"][side].values():
            for times in lanes.values():
                factor = chance.uniform(0.8, 1.3)
                for key in ("kern", "end"):
                    if times.get(key, -1) > 0:
                        length = times[key] - times["start"]
                        times[key] = times["start"] + length * factor
    graph = profile["graph_exec"]
    graph["operator"] = shuffle_entries(graph["operator"], chance)
    return json.dumps(profile).encode()


def scale_times(data: bytes, factor: float) -> bytes:
    """Return the profile with all device times multiplied by `factor`."""
    profile = json.loads(data)
    for lanes in profile["profiler"]["device"].values():
        for times in lanes.values():
            times["end"] = times["start"] + (times["end"] - times["start"]) * factor
    return json.dumps(profile).encode()


def data_of(*passes: bytes, left_out: tuple[LeftOut, ...] = ()) -> ProfileData:
    """Return the analysed data of one or several passes."""
    first, graph = parse_whole(passes[0])
    columns = [first, *map(parse, passes[1:])]
    named = [(f"profile-{number}.json", each) for number, each in enumerate(columns, start=1)]
    data = merge(named, graph())
    return replace(data, left_out=(*left_out, *data.left_out))


def change_operator(data: bytes, **fields: Any) -> bytes:
    """Return the profile with other fields in its first operator that has device times."""
    profile = json.loads(data)
    key = next(iter(profile["profiler"]["device"]))
    profile["graph_exec"]["operator"][key] |= fields
    return json.dumps(profile).encode()


def remove_operator(data: bytes) -> bytes:
    """Return the profile without its first operator that has device times."""
    profile = json.loads(data)
    key = next(iter(profile["profiler"]["device"]))
    for section in ("device", "host", "opr_footprint"):
        profile["profiler"][section].pop(key, None)
    del profile["graph_exec"]["operator"][key]
    return json.dumps(profile).encode()


def shuffle_entries(entries: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """Return the entries in another order."""
    keys = list(entries)
    chance.shuffle(keys)
    return {key: entries[key] for key in keys}
