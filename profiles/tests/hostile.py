"""Functions that damage a real profile; `hostile_cases` combines them."""

import json
from collections.abc import Callable
from typing import Any

from testdata import good_profile

Profile = dict[str, Any]
Change = Callable[[Profile], None]

NODE = 'CompNode("cpu0:0" from "xpux:0")'
#: markup, line ends, bidirectional marks, zero width, astral planes, NUL, ends of scripts
NAMES = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "</script><!-- ]]> -->",
    "a\nb\r\nc\u2028d\u2029e\x85f",
    "abc\u202egnp.exe\u202c",
    "\u2067right\u2066left",
    "closed\u2069\u202ednepo",
    "👩‍👩‍👧‍👦🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "NUL\x00in\x1b[31mit",
    "=cmd|' /C calc'!A0",
    "{{ 7 }}{% now 'Y' %}${7}",
    "n" * 8_000,
    "\u0301" * 200,
    "",
    " ",
    "..",
    ".".join("abc" * 900),
    "%s%(x)s%",
    "__proto__",
    "javascript:alert(3)",
    "\ufeff\u200b\u00ad\ufffe\uffff",
)
SECTIONS = (
    ("profiler", "device"),
    ("profiler", "host"),
    ("profiler", "opr_footprint"),
    ("graph_exec", "operator"),
    ("graph_exec", "var"),
    ("graph_exec", "mem_chunk"),
    ("graph_exec", "comp_seq"),
)


def damage(*changes: Change, base: str = "two_inputs") -> bytes:
    """Return a real profile with these changes."""
    profile = json.loads(good_profile(base))
    for change in changes:
        change(profile)
    return json.dumps(profile).encode()


def remove_section(part: str, section: str) -> Change:
    return lambda profile: profile[part].pop(section)


def set_section(part: str, section: str, value: Any) -> Change:
    def change(profile: Profile) -> None:
        profile[part][section] = value

    return change


def set_times(
    *, sides: tuple[str, ...] = ("device", "host"), every: int = 1, **values: Any
) -> Change:
    """Replace times of each `every`-th operator by a value or by a function of the old value."""

    def change(profile: Profile) -> None:
        for side in sides:
            for index, lanes in enumerate(profile["profiler"][side].values()):
                for lane in lanes.values() if index % every == 0 else ():
                    for key, value in values.items():
                        lane[key] = value(lane[key]) if callable(value) else value

    return change


def reverse_times(profile: Profile) -> None:
    for side in ("device", "host"):
        for lanes in profile["profiler"][side].values():
            for lane in lanes.values():
                lane["start"], lane["end"] = lane["end"], lane["start"]


def set_entries(part: str, section: str, **values: Any) -> Change:
    """Replace fields in each entry of a section; a function gets the number of the entry."""

    def change(profile: Profile) -> None:
        for index, entry in enumerate(profile[part][section].values()):
            for key, value in values.items():
                entry[key] = value(index) if callable(value) else value

    return change


def set_operators(**values: Any) -> Change:
    return set_entries("graph_exec", "operator", **values)


def set_variables(**values: Any) -> Change:
    return set_entries("graph_exec", "var", **values)


def set_footprints(**values: Any) -> Change:
    return set_entries("profiler", "opr_footprint", **values)


def set_chunks(**values: Any) -> Change:
    return set_entries("graph_exec", "mem_chunk", **values)


def set_plans(**values: Any) -> Change:
    def change(profile: Profile) -> None:
        for variable in profile["graph_exec"]["var"].values():
            if variable["mem_plan"]:
                variable["mem_plan"] |= values

    return change


def hostile_name(index: int) -> str:
    return NAMES[index % len(NAMES)]


def set_hostile_names(profile: Profile) -> None:
    """Replace every text that a page could show, except dtypes and ids."""
    graph, profiler = profile["graph_exec"], profile["profiler"]
    for index, operator in enumerate(graph["operator"].values()):
        operator["name"], operator["type"] = hostile_name(index), hostile_name(index + 1)
    for index, variable in enumerate(graph["var"].values()):
        variable["name"] = hostile_name(index)
        variable["comp_node"] = hostile_name(index % 3)
        variable["flag"] = [hostile_name(index)]
        if variable["mem_plan"]:
            variable["mem_plan"]["layout"]["dtype"] = hostile_name(index)
    for index, footprint in enumerate(profiler["opr_footprint"].values()):
        footprint["param"] = {
            hostile_name(index): hostile_name(index + 2),
            "mode": {"deep": [hostile_name(index)]},
        }
    for side in ("device", "host"):
        for index, (key, lanes) in enumerate(profiler[side].items()):
            profiler[side][key] = {hostile_name(index % 5): lane for lane in lanes.values()}


def set_different_nodes(profile: Profile) -> None:
    """Let each operator run on a comp node of its own that no variable has."""
    for index, (key, lanes) in enumerate(profile["profiler"]["device"].items()):
        lane = next(iter(lanes.values()))
        profile["profiler"]["device"][key] = {
            f'CompNode("gpu{index}:{n}" from "gpux:{n}")': lane for n in range(index % 4)
        }


def add_many_nodes(profile: Profile) -> None:
    for lanes in profile["profiler"]["device"].values():
        lane = next(iter(lanes.values()))
        lanes |= {f"node {n}": lane for n in range(200)}


def add_cycle(profile: Profile) -> None:
    """Let each operator read the output of the next one, and the last that of the first."""
    entries = list(profile["graph_exec"]["operator"].values())
    for index, entry in enumerate(entries):
        entry["input"] = entries[(index + 1) % len(entries)]["output"]


def add_self_loops(profile: Profile) -> None:
    for operator in profile["graph_exec"]["operator"].values():
        operator["input"] = operator["output"] * 3


def share_one_variable(profile: Profile) -> None:
    """Let every operator write and read the same variable."""
    first = next(iter(profile["graph_exec"]["var"]))
    for operator in profile["graph_exec"]["operator"].values():
        operator["input"] = operator["output"] = [first] * 50


def read_unknown_variables(profile: Profile) -> None:
    for operator in profile["graph_exec"]["operator"].values():
        operator["input"] = ["no such variable"]


def set_invalid_sequence(profile: Profile) -> None:
    profile["graph_exec"]["comp_seq"] = ["?", *reversed(profile["graph_exec"]["comp_seq"])] * 4


def remove_params(profile: Profile) -> None:
    for footprint in profile["profiler"]["opr_footprint"].values():
        del footprint["param"]


def keep_only(*sections: str) -> Change:
    """Empty all sections of the profiler except these."""

    def change(profile: Profile) -> None:
        for name, section in profile["profiler"].items():
            if name not in sections:
                section.clear()

    return change


def set_hostile_keys(profile: Profile) -> None:
    """Replace the ids by which sections refer to each other by hostile names."""
    graph = profile["graph_exec"]
    keys = {key: f"{hostile_name(index)} {index}" for index, key in enumerate(graph["operator"])}
    graph["operator"] = {keys[key]: operator for key, operator in graph["operator"].items()}
    graph["comp_seq"] = [keys[key] for key in graph["comp_seq"]]
    for section in ("device", "host", "opr_footprint"):
        entries = profile["profiler"][section]
        profile["profiler"][section] = {keys[key]: entry for key, entry in entries.items()}


def remove_operators(profile: Profile) -> None:
    for part, section in SECTIONS:
        profile[part][section].clear()


def chain_profile(length: int) -> bytes:
    """Return a profile of operators, each of which reads the output of the one before."""
    entries: dict[str, dict[str, Any]] = {"operator": {}, "var": {"v0": {"name": "v0"}}}
    device = {}
    for n in range(length):
        entries["operator"][f"{n}"] = {
            "name": f"op{n}", "type": "Elemwise", "id": n,
            "input": [f"v{n}"], "output": [f"v{n + 1}"],
        }  # fmt: skip
        entries["var"][f"v{n + 1}"] = {"name": f"v{n + 1}", "comp_node": NODE}
        device[f"{n}"] = {NODE: {"start": n * 1e-6, "kern": n * 1e-6, "end": n * 1e-6 + 5e-7}}
    graph = {**entries, "mem_chunk": {}, "comp_seq": [f"{n}" for n in range(length)]}
    profiler = {"device": device, "host": {}, "opr_footprint": {}}
    return json.dumps({"profiler": profiler, "graph_exec": graph}).encode()
