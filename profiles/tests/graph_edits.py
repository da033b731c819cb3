"""Edits of real profiles whose effect on an alignment is known."""

import json
import random
import re
from typing import Any

from profiles.comparison.nodes import Nodes, nodes_of
from profiles.tests.make import to_json
from profiles.tests.passes import data_of, shuffle_entries
from testdata import good_profile

_NUMBER = re.compile(r"\[(\d+)\]")


def read_nodes(data: bytes) -> Nodes:
    """Return the operators of a profile as nodes of an alignment."""
    return nodes_of(data_of(data))


def profile_of(name: str) -> dict[str, Any]:
    """Return a recorded profile as a JSON object."""
    return json.loads(good_profile(name))


def relabel(profile: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Return the profile as if it came from another dump of the same model.

    All ids, the numbers in names and the order of operators in the file differ.
    """
    graph, times = profile["graph_exec"], profile["profiler"]
    ids = [*graph["operator"], *graph["var"]]
    numbers = rng.sample(range(10_000, 99_999), len(ids))
    new = {old: str(number) for old, number in zip(ids, numbers, strict=True)}

    def name(text: str) -> str:
        # numbers in names of modules are part of the name and stay
        return _NUMBER.sub(
            lambda m: f"[{new.get(m[1], rng.randrange(10**6))}]" if "(" in text else m[0], text
        )

    operators = {
        new[key]: {
            **operator,
            "id": new[key],
            "name": name(operator["name"]),
            "input": [new[i] for i in operator["input"]],
            "output": [new[i] for i in operator["output"]],
        }
        for key, operator in graph["operator"].items()
    }
    variables = {
        new[key]: {**variable, "id": new[key], "name": name(variable["name"])}
        for key, variable in graph["var"].items()
    }
    return {
        "graph_exec": {
            **graph,
            "operator": shuffle_entries(operators, rng),
            "var": shuffle_entries(variables, rng),
            "comp_seq": [new[key] for key in graph["comp_seq"]],
            "mem_chunk": {},
        },
        "profiler": {
            side: {new[key]: value for key, value in times[side].items()}
            for side in ("device", "host", "opr_footprint")
        },
    }


def bypass_operator(profile: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the profile without one operator, whose readers read its first input instead."""
    graph = profile["graph_exec"]
    removed = graph["operator"][key]
    replacement = removed["input"][0]
    operators = {
        k: {
            **operator,
            "input": [replacement if i in removed["output"] else i for i in operator["input"]],
        }
        for k, operator in graph["operator"].items()
        if k != key
    }
    return _with_operators(profile, operators, [k for k in graph["comp_seq"] if k != key])


def insert_after(profile: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the profile with an operator of a new type between an operator and its readers."""
    graph = profile["graph_exec"]
    outputs = graph["operator"][key]["output"]
    read = next(
        i for operator in graph["operator"].values() for i in operator["input"] if i in outputs
    )
    fields = {"name": "inserted", "type": "Inserted", "id": "777777", "input": [read]}
    operators = {
        k: {**operator, "input": ["777778" if i == read else i for i in operator["input"]]}
        for k, operator in graph["operator"].items()
    }
    operators["777777"] = {**graph["operator"][key], **fields, "output": ["777778"]}
    sequence = list(graph["comp_seq"])
    sequence.insert(sequence.index(key) + 1, "777777")
    changed = _with_operators(profile, operators, sequence)
    changed["graph_exec"]["var"] = {
        **graph["var"],
        "777778": {**graph["var"][read], "id": "777778", "name": "inserted"},
    }
    for side in ("device", "host", "opr_footprint"):
        changed["profiler"][side] = {
            **changed["profiler"][side],
            "777777": changed["profiler"][side][key],
        }
    return changed


def fuse(profile: dict[str, Any], keys: list[str], type_: str = "Fused") -> dict[str, Any]:
    """Return the profile with a chain of operators, in order, replaced by one operator.

    It reads all inputs of the chain that come from outside and has the outputs of the last one.
    """
    graph = profile["graph_exec"]
    chain = [graph["operator"][key] for key in keys]
    inside = {i for operator in chain for i in operator["output"]}
    inputs = [i for operator in chain for i in operator["input"] if i not in inside]
    last = {**chain[-1], "type": type_, "name": "fused", "input": inputs}
    operators = {k: operator for k, operator in graph["operator"].items() if k not in keys[:-1]}
    operators[keys[-1]] = last
    return _with_operators(profile, operators, [k for k in graph["comp_seq"] if k not in keys[:-1]])


def find_chains(profile: dict[str, Any], length: int) -> list[list[str]]:
    """Return chains of executed operators, each of which is the only reader of the one before."""
    operators = profile["graph_exec"]["operator"]
    running = set(profile["graph_exec"]["comp_seq"])
    readers: dict[str, list[str]] = {}
    for key, operator in operators.items():
        for i in operator["input"]:
            readers.setdefault(i, []).append(key)
    followers = {
        key: {reader for i in operator["output"] for reader in readers.get(i, [])}
        for key, operator in operators.items()
    }
    matches = []
    for key, operator in operators.items():
        chain = [key]
        while len(chain) < length and len(followers[chain[-1]]) == 1:
            chain.extend(followers[chain[-1]])
        ends = {operators[k]["type"] for k in chain} & {"InputCallback", "OutputCallback"}
        if len(chain) == length and operator["input"] and not ends and running.issuperset(chain):
            matches.append(chain)
    return matches


def without_graph(name: str) -> bytes:
    """Return a recorded profile whose operators have no inputs and outputs."""
    profile = profile_of(name)
    profile["graph_exec"]["var"] = {}
    for operator in profile["graph_exec"]["operator"].values():
        operator["input"], operator["output"] = [], []
    return to_json(profile)


def with_end_times(name: str, *ends: float | str) -> bytes:
    """Return a recorded profile with these end times of its first operators."""
    profile = profile_of(name)
    for times, end in zip(profile["profiler"]["device"].values(), ends, strict=False):
        for interval in times.values():
            interval["end"] = end
    return to_json(profile)


def _with_operators(
    profile: dict[str, Any], operators: dict[str, Any], sequence: list[str]
) -> dict[str, Any]:
    return {
        "graph_exec": {**profile["graph_exec"], "operator": operators, "comp_seq": sequence},
        "profiler": {
            side: {k: value for k, value in profile["profiler"][side].items() if k in operators}
            for side in ("device", "host", "opr_footprint")
        },
    }
