"""Damaged and hostile files by their defect, and the error code of those that are refused."""

import json
from collections.abc import Iterator

from profiles.tests import hostile
from profiles.tests.flows import to_flow
from profiles.tests.hostile import (
    SECTIONS,
    damage,
    keep_only,
    set_chunks,
    set_footprints,
    set_operators,
    set_plans,
    set_times,
    set_variables,
)
from profiles.tests.static_plans import graph_of, make_chunk, make_plan, plan_of, to_bytes
from profiles.tests.traces import DEVICE, HOST, enclose, operator, span, to_trace
from testdata import DATA, good_profile

#: error code of each case that is refused
REFUSED = {
    name: code
    for code, names in {
        "missing_key": (
            "no profiler.device", "no profiler.host", "no graph_exec.operator", "no graph_exec.var",
            "graph_exec.var = {}", "unknown variables",
        ),
        "bad_value": (
            *(
                f"{section} = {value}"
                for section in (
                    "profiler.device", "profiler.host", "profiler.opr_footprint",
                    "graph_exec.operator", "graph_exec.var",
                )
                for value in ("null", "[]", '"text"', '{"72": null}')
            ),
            "end null", "end text", "end true", "end nested", "end 10^400", "ids text",
            "computation 10^400", "computation text", "memory null", "shapes nulls",
            "shapes number", "shapes numbers", "shapes long", "shapes too many", "profiler null",
            "graph_exec list",
        ),
        "device_total_zero": ("total 0 of opposites",),
        "too_large": ("names too long",),
        "not_json": (
            "cut in half", "without its last byte", "two of them", "null", "text",
            "tensorboard events", "plan cut",
        ),
        "utf16": ("UTF-16",),
        "svg": ("foreign_svg",),
        "list": ("list", "tensorboard scalars", "brackets 100,000 deep"),
        "not_a_profile": ("object", "another tool's object", "trace below zero"),
        "not_utf8": ("no UTF-8",),
        "static_memory_missing": ("plan without addresses",),
        "static_memory_bad": ("plan that ends before it begins",),
        "static_memory_twice": ("plan with a chunk twice",),
        "static_memory_operator": ("plan of unknown operators",),
        "graph_alone": ("graph of a plan",),
        "too_deep": ("brackets 100,000 deep inside", "objects 100,000 deep"),
        "empty": ("only white space",),
        "svg_refused": ("flow with entities",),
        "no_memory_flow": ("flow of another program",),
        "not_svg": ("flow of its beginning",),
    }.items()
    for name in names
}  # fmt: skip
#: cases without operators: the page of an operator does not exist
EMPTY = ("graph_exec.operator = {}", "no operators")
#: cases that stress pages most
WORST = (
    "ends far apart", "both infinities", "some NaN", "denormal", "hostile names of a larger model",
    "nodes that disagree", "scopes 4,000 deep", "computation huge", "shapes many",
    "trace of hostile names", "trace far away", "total 0",
)  # fmt: skip


def all_cases() -> dict[str, bytes]:
    """Return every damaged file by its defect."""
    return dict(_missing()) | _time_cases() | _graph_cases() | _shape_cases() | _file_cases()


def _missing() -> Iterator[tuple[str, bytes]]:
    for part, section in SECTIONS:
        name = f"{part}.{section}"
        yield f"no {name}", damage(hostile.remove_section(part, section))
        for value in (None, [], {}, "text", {"72": None}):
            data = damage(hostile.set_section(part, section, value))
            yield f"{name} = {json.dumps(value)}", data


def _time_cases() -> dict[str, bytes]:
    return {
        "start 1e300": damage(set_times(start=1e300)),
        "start -1e300": damage(set_times(start=-1e300)),
        "one start 1e300": damage(set_times(start=1e300, every=30)),
        "ends far apart": damage(set_times(end=1e308, every=2), set_times(start=-1e308, every=3)),
        "end 1.7e308": damage(set_times(end=1.7e308)),
        "end in the next century": damage(set_times(end=4e9, every=5)),
        "NaN": damage(set_times(end=float("nan"))),
        "some NaN": damage(set_times(end=float("nan"), every=3)),
        "some start NaN": damage(set_times(start=float("nan"), every=3)),
        "Infinity": damage(set_times(end=float("inf"))),
        "some Infinity": damage(set_times(end=float("inf"), every=3)),
        "-Infinity": damage(set_times(end=float("-inf"), every=4)),
        '"nan"': damage(set_times(end="nan", every=3), set_footprints(memory="nan")),
        '"inf"': damage(set_times(end="inf", every=3), set_footprints(computation="inf")),
        '"-inf"': damage(set_times(end="-inf", every=3), set_footprints(computation="-inf")),
        "both infinities": damage(set_times(end="inf", every=3), set_times(end="-inf", every=4)),
        "1e400": damage(set_times(end=12345.0)).replace(b"12345.0", b"1e400"),
        "negative": damage(set_times(start=lambda s: -s, end=lambda s: -s)),
        "negative starts": damage(set_times(start=lambda s: s - 1)),
        "reversed": damage(hostile.reverse_times),
        "some reversed": damage(set_times(end=0.0, every=3)),
        "kern -1": damage(set_times(kern=-1)),
        "kern beyond": damage(set_times(kern=9.0)),
        "kern null": damage(set_times(kern=None)),
        "kern NaN": damage(set_times(kern=float("nan"))),
        "integers": damage(set_times(start=0, kern=1, end=2)),
        "denormal": damage(set_times(start=0.0, kern=0.0, end=5e-324)),
        "total 0": damage(set_times(start=0.0, kern=0.0, end=0.0)),
        "total 0 of opposites": damage(
            set_times(start=0.0, end=1.0), set_times(end=-1.0, every=2), keep_only("device", "host")
        ),
        "host total 0": damage(set_times(start=0.0, end=0.0, sides=("host",))),
        "end null": damage(set_times(end=None)),
        "end text": damage(set_times(end="soon")),
        "end true": damage(set_times(end=True)),
        "end nested": damage(set_times(end=[[1]])),
        "end 10^400": damage(set_times(end=10**400)),
    }


def _graph_cases() -> dict[str, bytes]:
    return {
        "nodes that disagree": damage(hostile.set_different_nodes),
        "many nodes": damage(hostile.add_many_nodes),
        "no nodes": damage(
            lambda p: p["profiler"].update(device={k: {} for k in p["profiler"]["device"]})
        ),
        "cycle": damage(hostile.add_cycle),
        "self loops": damage(hostile.add_self_loops),
        "one variable for all": damage(hostile.share_one_variable),
        "unknown variables": damage(hostile.read_unknown_variables),
        "strange sequence": damage(hostile.set_invalid_sequence),
        "strange keys": damage(hostile.set_hostile_keys),
        "no operators": damage(hostile.remove_operators),
        "only host": damage(keep_only("host")),
        "only device": damage(keep_only("device")),
        "only footprints": damage(keep_only("opr_footprint")),
        "chain": hostile.chain_profile(3_000),
        "equal names": damage(set_operators(name="same", type="Same")),
        "equal ids": damage(set_operators(id="7")),
        "ids at the edge": damage(set_operators(id=lambda n: 2**63 - 1 - n)),
        "ids beyond": damage(set_operators(id=2**63)),
        "ids negative": damage(set_operators(id=lambda n: -n)),
        "ids text": damage(set_operators(id="seven")),
        "names are numbers": damage(set_operators(name=7)),
        "names too long": damage(set_operators(name="n" * 9_000)),
        "scopes 4,000 deep": damage(set_operators(name=lambda n: "a." * 4_000 + f"b{n}")),
        "scopes of nothing": damage(set_operators(name="." * 2_000)),
        "hostile names": damage(hostile.set_hostile_names),
        "hostile names of a larger model": damage(hostile.set_hostile_names, base="resnet18_opt"),
        "types without end": damage(set_operators(type=lambda n: f"Type{n}" * 500)),
        "variables without anything": damage(
            lambda p: p["graph_exec"].update(var={k: {} for k in p["graph_exec"]["var"]})
        ),
        "no mem_plan": damage(set_variables(mem_plan=None)),
        "mem_plan text": damage(set_variables(mem_plan="here")),
        "layout null": damage(set_plans(layout=None)),
        "offset huge": damage(set_plans(offset_byte=2**63 - 1)),
        "offset negative": damage(set_plans(offset_byte=-8)),
        "chunk -1": damage(set_chunks(size=-1)),
        "chunk 2^63": damage(set_chunks(size=2**63)),
        "chunk 2^63 - 1": damage(set_chunks(size=2**63 - 1, dev_ptr=2**64 - 1)),
        "chunk 1e300": damage(set_chunks(size=1e300, dev_ptr=-1)),
        "chunk text": damage(set_chunks(size="much", owner_var="nobody")),
        "chunk null": damage(set_chunks(size=None, owner_var=None, dev_ptr=None)),
        "no param": damage(hostile.remove_params),
        "param text": damage(set_footprints(param="fast")),
        "param list": damage(set_footprints(param=[[], {}])),
        "param huge": damage(set_footprints(param={f"k{n}": "v" * 50 for n in range(500)})),
        "param NaN": damage(set_footprints(param={"x": float("nan"), "y": 10**400})),
        "computation huge": damage(set_footprints(computation=1.7e308, memory=1.7e308)),
        "computation tiny": damage(set_footprints(computation=5e-324, memory=5e-324)),
        "computation negative": damage(set_footprints(computation=-5, memory=-7)),
        "computation NaN": damage(set_footprints(computation=float("nan"), memory=float("inf"))),
        "computation 10^400": damage(set_footprints(computation=10**400)),
        "computation text": damage(set_footprints(computation="12")),
        "memory null": damage(set_footprints(memory=None)),
    }


def _shape_cases() -> dict[str, bytes]:
    shapes = {
        "negative": [[-1, -224]],
        "huge": [[2**63 - 1, 2**63 - 1, 2**31]],
        "beyond 64 bits": [[2**64, 10**30]],
        "fractions": [[1.5, 1e300]],
        "texts": [["a", "<b>"]],
        "hostile text": "<script>",
        "nested": [[[1, [2, [3]]], {"x": 1}]],
        "nested deeply": json.loads("[" * 90 + "]" * 90),
        "null": None,
        "nulls": [None, [None, True]],
        "number": 5,
        "numbers": [1, 2, 3],
        "empty": [],
        "long": [list(range(5_000))],
        "too many": [[1]] * 20_001,
        "many": [[n] for n in range(500)],
        "NaN": [[float("nan"), float("inf")]],
        "objects": {"0": [1], "1": [2]},
    }
    cases = {}
    for name, value in shapes.items():
        tags = {"SHAPE": {"inferred_result": value}}
        layout = {"shape": value, "dtype": "Float32"}
        fields = dict.fromkeys(("in_shapes", "out_shapes", "in_layouts"), value)
        cases[f"shapes {name}"] = damage(set_footprints(**fields), set_plans(layout=layout))
        cases[f"inferred {name}"] = damage(set_variables(static_infer_tags=tags, mem_plan=None))
    return cases | {
        "dtype list": damage(set_plans(layout={"shape": [1], "dtype": ["Float32"]})),
        "dtype null": damage(set_plans(layout={"shape": [1], "dtype": None})),
    }


def _trace_cases() -> dict[str, bytes]:
    hostile_name = '<img src=x onerror=alert(1)>"}],[\u202e'
    events = operator(10, hostile_name, 0, 5, f"{hostile_name}:0")
    for number in range(1, 6):
        events += operator(10 + number, "ADD", 30.0 * number, 2, "")
    wait = span(HOST, "TensorWaitProp", 40, 90, id=5, name=hostile_name, shape="{", dtype="?")
    return {
        "trace of hostile names": to_trace(
            *enclose(span(HOST, hostile_name, 0, 99), *events, *wait)
        ),
        "trace without a device": to_trace(*(event for event in events if event["tid"] != DEVICE)),
        "trace without a host": to_trace(*(event for event in events if event["tid"] == DEVICE)),
        "trace of one moment": to_trace(*operator(10, "ADD", -8, 1e-300, "a:0")),
        "trace far away": to_trace(*operator(10, "ADD", 1e300, 1e299, "a:0"), *events),
        "trace below zero": to_trace(*span(DEVICE, "ADD", 5, -5, __id__=1)),
    }


def _plan_cases() -> dict[str, bytes]:
    """Return damaged memory plans; they have no operators, hence no pages of operators."""
    whole = plan_of("two_inputs")
    one = b'"chunk": { "0": { "overwrite_dest_id": "-1", "logic_addr_end": "1", "logic_addr_begin":'
    one += b' "0", "time_begin": "0", "time_end": "1", "type": "static_mem", "id": "0"}, '
    return {
        "plan cut": whole[: len(whole) // 2],
        "plan without addresses": whole.replace(b"logic_addr_begin", b"logic_address"),
        "plan that ends before it begins": to_bytes(make_plan(3, make_chunk(0, (2, 1), (0, 8)))),
        "plan with a chunk twice": whole.replace(b'"chunk": { ', one, 1),
        "plan of unknown operators": to_bytes(make_plan(3, make_chunk(0, (0, 4), (0, 8)))),
        "graph of a plan": graph_of("two_inputs"),
    }


def _file_cases() -> dict[str, bytes]:
    good = good_profile()
    deep = b"[" * 100_000 + b"]" * 100_000
    trace = "traces/dynamic_train_resnet/profile."
    return {
        "cut in half": good[: len(good) // 2],
        "without its last byte": good.rstrip()[:-1],
        "two of them": good + good,
        "object": b"{}",
        "null": b"null",
        "list": b"[1, 2]",
        "text": b'"profile"',
        "trace cut": (DATA / f"{trace}chrome_timeline.json").read_bytes()[:200_000],
        **_trace_cases(),
        **_plan_cases(),
        "foreign_svg": b'<svg xmlns="http://www.w3.org/2000/svg"><rect/></svg>',
        "flow with entities": b'<!DOCTYPE svg [<!ENTITY a "b">]>\n' + to_flow()[39:],
        "flow of another program": to_flow("<circle/>"),
        "flow of its beginning": to_flow()[:400].split(b"\n<rect")[0][:-1],
        "tensorboard scalars": b"[[1700000000.5, 0, 0.25], [1700000001.5, 1, 0.125]]",
        "tensorboard events": b'\x18\0\0\0\0\0\0\0\xa3\x7fK"\t\0\0\xc0\xa0\xe4brain.Event:2',
        "another tool's object": b'{"schemaVersion": 1, "deviceProperties": [], "events": []}',
        # takes hours if a pattern is tried at each of the digits
        "end of 10^6 digits": good.replace(b'"end": ', b'"end": ' + b"1" * 10**6, 1),
        "profiler null": damage(lambda p: p.update(profiler=None)),
        "graph_exec list": damage(lambda p: p.update(graph_exec=[])),
        "brackets 100,000 deep": deep,
        "brackets 100,000 deep inside": good.replace(
            b'"comp_seq":', b'"x":' + deep + b',"comp_seq":', 1
        ),
        "objects 100,000 deep": b'{"profiler":' * 100_000 + b"1" + b"}" * 100_000,
        "every key twice": good.rstrip()[:-1] + b"," + good.lstrip()[1:],
        "sections twice": good.replace(b'"graph_exec":', b'"graph_exec": 7, "graph_exec":', 1),
        "operators twice": good.replace(b'"operator": {', b'"operator": {"72": 1, "72": {}, ', 1),
        "names twice": good.replace(b'"name":', b'"name": 1, "name":'),
        "lone surrogate": good.replace(b'"name": "', b'"name": "\\ud800', 1),
        "escapes": good.replace(b'"name": "', b'"name": "\\u0000\\u202e\\ud83d\\ude00'),
        "byte order mark": b"\xef\xbb\xbf" + good,
        "UTF-16": good.decode().encode("utf-16"),
        "no UTF-8": good.replace(b'"name": "', b'"name": "\xff', 1),
        "only white space": b" \n" * 500,
    }
