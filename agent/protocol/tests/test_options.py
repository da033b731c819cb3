"""load_and_run's options: the table, validation, and the command line."""

import dataclasses
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.protocol.artifacts import limit_of
from agent.protocol.options import (
    DISTURBING,
    KEPT_BY_FITTING,
    ONCE,
    OPTIONS,
    Capabilities,
    Option,
    OptionError,
    artifact_of,
    build_arguments,
    check_options,
    describe,
    find_problems,
    may_use_gpu,
    unavailable,
)

#: the sanity check of the first run is off by default
PROTOCOL = Path(__file__).resolve().parents[1]
DEFAULT = ["--no_sanity_check"]
GPU_WHEEL = Capabilities("wheel", builds=frozenset({"cuda", "tensorrt"}))
BINARY = Capabilities("binary", builds=frozenset({"cuda", "tensorrt", "opencl"}))


def parameter_name(parameter: object) -> str:
    """Return a stable name for a test, since the order of sets varies."""
    return parameter.kind if isinstance(parameter, Capabilities) else str(parameter)


def problem_codes(options, **more) -> list[str]:
    return [f"{p.option} {p.code}" for p in find_problems(options, **more)]


def test_the_table_has_the_74_options_of_load_and_run_and_61_of_the_wheel():
    assert len(OPTIONS) == 74
    assert sum(option.wheel for option in OPTIONS.values()) == 61
    assert all(name == option.name for name, option in OPTIONS.items())
    groups = Counter(option.group for option in OPTIONS.values())
    assert groups == {
        "model": 2, "basic": 4, "io": 8, "fast_run": 6, "layout": 8, "layout_transform": 2,
        "dtype": 1, "optimize": 16, "device": 6, "plugin": 5, "debug": 5, "c_opr": 3,
        "packing": 6, "fitting": 2,
    }  # fmt: skip


def test_rows_of_the_file_have_only_known_keys():
    table = json.loads((PROTOCOL / "options.json").read_bytes())
    known = {field.name for field in dataclasses.fields(Option)} - {"excludes", "wheel_mdl"}
    more = {"flag_default", "not_with_mdl", "disturbs", "once", "kept_by_fitting", "note"}
    assert [row["name"] for row in table["options"] if set(row) - known - more] == []
    named = [
        name
        for conflict in table["conflicts"]
        for name in conflict["options"] + conflict.get("others", [])
    ]
    assert set(named) <= set(OPTIONS)


def test_rows_of_a_group_are_adjacent():
    order = [option.group for option in OPTIONS.values()]
    assert len({*order}) == sum(a != b for a, b in zip(order, [None, *order[:-1]], strict=True))


@pytest.mark.parametrize("option", OPTIONS.values(), ids=lambda option: option.name)
def test_rows_are_consistent(option):
    if option.kind != "agent":
        off = False if option.kind in ("artifact", "file") else option.default
        assert check_options({option.name: off}) == {}
    if option.kind in ("int", "float"):
        assert option.minimum is not None and option.maximum is not None
        assert option.minimum < option.maximum
    if option.kind == "choice":
        assert option.choices
    if option.kind in ("text", "library"):
        assert re.compile(option.pattern)
        assert not re.fullmatch(option.pattern, "a b")
    if option.kind in ("artifact", "file"):
        assert re.fullmatch(r"[a-z_]+(\.[a-z]+|/)", option.file)
    if option.kind == "artifact":
        assert limit_of(artifact_of(option.name))
    assert option.file_taken <= (option.kind == "artifact")
    assert option.type == "bool" or option.kind not in ("text", "choice") or option.type == "string"
    for other in (*option.needs, *option.wheel_needs, *option.excludes):
        assert other in OPTIONS
        assert other != option.name
    assert not set(option.needs) & set(option.excludes)


def test_exclusions_are_symmetric():
    for option in OPTIONS.values():
        for other in option.excludes:
            assert option.name in OPTIONS[other].excludes, (option.name, other)


def test_the_wheel_has_what_its_options_need():
    for option in OPTIONS.values():
        if option.wheel and option.needs:
            assert any(OPTIONS[other].wheel for other in option.needs), option.name


def test_the_sets_of_the_table_contain_known_options():
    assert set(OPTIONS) >= (DISTURBING | ONCE | KEPT_BY_FITTING)
    assert not DISTURBING & ONCE


def test_describe_returns_all_options_as_json():
    rows = json.loads(json.dumps(describe()))
    assert [row["name"] for row in rows] == list(OPTIONS)
    assert {row["name"] for row in rows if not row["taken"]} == {"input", "profile", "wait_gdb"}


def test_defaults_are_left_out():
    assert check_options({"iter": 10, "cpu": False, "warmup_iter": 2}) == {"warmup_iter": 2}


@pytest.mark.parametrize(
    ("given_options", "code"),
    [
        ({"io_dump": "/etc/passwd"}, "not_bool"),
        ({"flagfile": "/etc/passwd"}, "unknown"),
        ({"profile": "p.json"}, "never"),
        ({"input": "data:/etc/passwd"}, "never"),
        ({"wait_gdb": True}, "never"),
        ({"iter": "10"}, "not_int"),
        ({"iter": True}, "not_int"),
        ({"iter": 1.0}, "not_int"),
        ({"range": "1"}, "not_number"),
        ({"range": float("nan")}, "not_number"),
        ({"range": float("inf")}, "too_large"),
        ({"range": float("-inf")}, "too_small"),
        ({"iter": float("inf")}, "too_large"),
        ({"c_opr_lib": 1}, "not_text"),
        ({"cpu": 1}, "not_bool"),
        ({"iter": 0}, "too_small"),
        ({"iter": 10_001}, "too_large"),
        ({"layout_transform": "arm"}, "bad_choice"),
        ({"multithread": 1, "multi_thread_core_ids": "0;1"}, "bad_text"),
        ({"multithread": 2, "multi_thread_core_ids": "0"}, "thread_count"),
        ({"cpu": True, "cpu_default": True}, "excluded"),
        ({"layout_transform_dump": True}, "needs"),
        ({"lite": True, "fuse_grain": True}, "lite"),
        ({"thread": 2}, "alone"),
        ({"multithread": 2, "multi_thread_core_ids": "1,01"}, "core_twice"),
        ({"mdl": True, "lite": True}, "excluded"),
    ],
)
def test_invalid_options_are_rejected_with_a_code(given_options, code):
    with pytest.raises(OptionError) as caught:
        check_options(given_options)
    assert caught.value.code == code


def test_all_problems_are_found():
    assert problem_codes({"lite": True, "mdl": True, "thread": 2}) == [
        "lite excluded", "mdl excluded", "thread alone",
    ]  # fmt: skip
    assert problem_codes({"iter": 0, "nothing": 1}) == ["iter too_small", "nothing unknown"]


@pytest.mark.parametrize("kind", ["wheel", "binary"])
@pytest.mark.parametrize(
    ("alone", "other"),
    [
        ("thread", "io_dump"),
        ("thread", "io_dump_stdout"),
        ("thread", "bin_out_dump"),
        ("thread", "get_static_mem_info"),
        ("thread", "model_dump"),
        ("record_comp_seq", "io_dump"),
        ("record_comp_seq", "io_dump_stdout"),
        ("record_comp_seq2", "io_dump_stderr"),
        ("record_comp_seq2", "bin_io_dump"),
    ],
)
def test_outputs_that_threads_or_recordings_would_spoil_are_rejected(kind, alone, other):
    options = {alone: 2 if alone == "thread" else True, other: True}
    problems = problem_codes(options, runtime=Capabilities(kind), profiled=False)
    assert f"{alone} excluded" in problems
    assert f"{other} excluded" in problems


def test_threads_and_recordings_allow_harmless_options():
    for options in ({"thread": 2, "range": 1.0}, {"record_comp_seq": True, "bin_out_dump": True}):
        assert problem_codes(options, runtime=Capabilities("binary"), profiled=False) == []
    assert problem_codes({"thread": 1, "io_dump": True}) == []


def test_an_option_that_is_off_excludes_nothing():
    assert check_options({"cpu": True, "cpu_default": False}) == {"cpu": True}


def test_fitting_excludes_options_that_it_resets():
    fitting = {"fitting": True, "dump_fitting_model": True, "cpu": True, "verbose": True}
    assert check_options(fitting, profiled=False) == fitting
    assert problem_codes({**fitting, "fast_run": True}, profiled=False) == ["fitting excluded"]


def test_a_file_sets_its_option_and_a_missing_file_is_a_problem():
    cache = frozenset({"fast_run_algo_policy"})
    assert check_options({}, files=cache) == {"fast_run_algo_policy": True}
    assert problem_codes({"fast_run_algo_policy": True}) == ["fast_run_algo_policy needs"]
    assert problem_codes({}, files={"iter"}) == ["iter file_unwanted"]
    packed = {"packed_model_dump": True, "pack_cache": True}
    assert problem_codes(packed) == ["pack_cache file_missing"]
    assert problem_codes(packed, files={"pack_cache"}) == []
    assert problem_codes({}, files={"pack_cache"}) == ["pack_cache needs"]
    assert problem_codes({}, files={"tensorrt_cache"}) == ["tensorrt_cache needs"]


@pytest.mark.parametrize(
    ("runtime", "name", "code"),
    [
        (Capabilities("wheel"), "fitting", "wheel"),
        (Capabilities("wheel"), "wait_gdb", "never"),
        (Capabilities("wheel", flags=frozenset({"iter"})), "cpu", "flag"),
        (Capabilities("binary", flags=frozenset({"iter"})), "cpu", "flag"),
        (Capabilities("binary", flags=frozenset({"iter"})), "batch_size", ""),
        (Capabilities("binary", flags=frozenset({"iter"})), "profile_host", ""),
        (Capabilities("binary"), "enable_nchw4", "cuda"),
        (Capabilities("binary"), "tensorrt", "tensorrt"),
        (Capabilities("binary"), "enable_nhwcd4", "opencl"),
        (Capabilities("binary"), "c_opr_lib", "library"),
        (Capabilities("wheel", cpu_model="AMD EPYC"), "enable_nchw88", "amd"),
        (Capabilities("wheel", cpu_model="AMD EPYC"), "layout_transform", ""),
        (Capabilities("binary", cpu_model="AMD EPYC"), "layout_transform", "amd"),
        (Capabilities("binary", cpu_model="Intel Xeon"), "layout_transform", ""),
        (BINARY, "enable_nchw4", ""),
    ],
)
def test_unavailable_returns_why_a_runtime_lacks_an_option(runtime, name, code):
    assert unavailable(OPTIONS[name], runtime) == code


@pytest.mark.parametrize(
    ("options", "runtime", "problems"),
    [
        ({"workspace_limit": 9}, BINARY, ["workspace_limit needs_lite"]),
        ({"workspace_limit": 9, "lite": True}, BINARY, []),
        ({"workspace_limit": 9}, Capabilities("wheel"), []),
        ({"mdl": True, "const_shape": True}, Capabilities("wheel"), ["const_shape mdl"]),
        ({"mdl": True, "const_shape": True}, BINARY, []),
        ({"disable_mem_opt": True, "io_dump": True}, Capabilities("wheel"), ["io_dump mdl"]),
        ({"disable_mem_opt": True, "multithread": 2}, Capabilities("wheel"), ["multithread mdl"]),
        ({"disable_mem_opt": True, "share_param_mem": True}, Capabilities("wheel"),
         ["share_param_mem mdl"]),
        ({"disable_mem_opt": True, "io_dump": True, "share_param_mem": True}, BINARY, []),
        ({"mdl": True, "share_param_mem": True}, Capabilities("wheel"), ["share_param_mem mdl"]),
        ({"mdl": True, "disable_mem_opt": True}, Capabilities("wheel"), []),
        ({"enable_jit": True}, GPU_WHEEL, ["enable_jit needs"]),
        ({"enable_jit": True, "cpu_default": True}, GPU_WHEEL,
         ["enable_jit excluded", "enable_jit needs", "cpu_default excluded"]),
        ({"enable_nchw4": True, "cpu": True}, GPU_WHEEL,
         ["enable_nchw4 excluded", "enable_nchw4 needs", "cpu excluded"]),
        ({"enable_nchw32": True}, GPU_WHEEL, ["enable_nchw32 needs"]),
        ({"fake_first": True}, GPU_WHEEL, ["fake_first warmup"]),
        ({"multi_thread_core_ids": "\u0663", "multithread": 1}, GPU_WHEEL,
         ["multi_thread_core_ids bad_text"]),
        ({"tensorrt": True}, GPU_WHEEL, ["tensorrt needs"]),
        ({"tensorrt": True, "enable_jit": True, "cuda": True}, GPU_WHEEL, []),
        ({"tensorrt": True, "enable_jit": True}, BINARY, []),
        ({"layout_transform": "cuda"}, GPU_WHEEL, ["layout_transform target"]),
        ({"layout_transform": "cuda", "cuda": True}, GPU_WHEEL, []),
        ({"layout_transform": "cpu", "cuda": True}, GPU_WHEEL, ["layout_transform target"]),
        ({"layout_transform": "cpu", "cuda": True}, BINARY, ["layout_transform target"]),
        ({"layout_transform": "cuda", "cpu": True}, BINARY, ["layout_transform target"]),
        ({"layout_transform": "cuda", "lite": True}, BINARY, ["layout_transform target"]),
        ({"layout_transform": "cpu"}, BINARY, []),
        ({"layout_transform": "cpu"}, Capabilities("wheel", cpu_model="AMD EPYC"), []),
        # four cores without SMT, the last of which is the agent's
        ({"multithread": 2, "multi_thread_core_ids": "0,4"},
         Capabilities("wheel", run_cores=(0, 2, 4)), []),
        ({"multithread": 2, "multi_thread_core_ids": "0,1"},
         Capabilities("wheel", run_cores=(0, 2, 4)), ["multi_thread_core_ids core_missing"]),
        ({"multithread": 2, "multi_thread_core_ids": "0,6"},
         Capabilities("wheel", run_cores=(0, 2, 4)), ["multi_thread_core_ids core_missing"]),
        ({"multithread": 2, "multi_thread_core_ids": "0,99"}, Capabilities("wheel"), []),
        ({"layout_transform": "cuda"}, Capabilities("binary"), ["layout_transform cuda"]),
        ({"layout_transform": "cuda"}, BINARY, []),
    ],
    ids=parameter_name,
)  # fmt: skip
def test_a_runtime_rejects_values_and_combinations(options, runtime, problems):
    assert problem_codes(options, runtime=runtime) == problems


def test_the_usable_cores_are_named():
    wheel = Capabilities("wheel", run_cores=(0, 1, 2, 4, 6, 7))
    options = {"multithread": 1, "multi_thread_core_ids": "3"}
    (problem,) = find_problems(options, runtime=wheel)
    assert problem.limit == "0-2, 4, 6-7"


def test_the_conflicting_option_is_named():
    wheel = Capabilities("wheel")
    (problem,) = find_problems({"disable_mem_opt": True, "io_dump": True}, runtime=wheel)
    assert problem.limit == "disable_mem_opt"


def test_a_binary_without_profile_flags_cannot_profile():
    mute = Capabilities("binary", flags=frozenset({"iter", "no_sanity_check"}))
    assert problem_codes({}, runtime=mute) == ["profile no_profile"]
    assert problem_codes({}, runtime=mute, profiled=False) == []
    assert problem_codes({}, runtime=Capabilities("binary")) == []


def test_the_flag_of_a_host_profile_depends_on_the_binary():
    flags = frozenset({"iter", "no_sanity_check", "profile"})
    for known, flag in ((flags, "--profile=p"), (flags | {"profile_host"}, "--profile_host=p")):
        chosen = check_options({"profile_host": True}, runtime=Capabilities("binary", flags=known))
        assert build_arguments("m.mge", {}, chosen, "p") == ["m.mge", *DEFAULT, flag]


@pytest.mark.parametrize(
    ("options", "more", "line"),
    [
        ({"iter": 20, "cpu": True}, {}, ["--iter=20", "--cpu"]),
        ({"multithread": 2, "multi_thread_core_ids": "0,1"}, {},
         ["--multithread=2", "--multi_thread_core_ids=0,1"]),
        ({"range": 1e-3, "layout_transform": "cpu"}, {},
         ["--range=0.001", "--layout_transform=cpu"]),
        ({"batch_size": 8}, {}, []),
        ({"model_dump": True, "get_static_mem_info": True}, {},
         ["--model_dump=model_dump.mge", "--get_static_mem_info=staticmeminfo"]),
        ({"model_dump": True, "iter": 2}, {"first": False}, ["--iter=2"]),
        ({"bin_io_dump": True}, {}, []),
        ({"bin_io_dump": True}, {"dumps": True}, ["--bin_io_dump=bin_io_dump"]),
        ({"io_dump_stdout": True}, {"dumps": True}, ["--io_dump_stdout"]),
        ({"fast_run_algo_policy": True}, {}, ["--fast_run_algo_policy=algo_cache.bin"]),
        ({"c_opr_lib": "mine"}, {"libraries": {"mine": "/opt/lib.so"}},
         ["--c_opr_lib=/opt/lib.so"]),
    ],
    ids=str,
)  # fmt: skip
def test_options_become_the_command_line(options, more, line):
    assert build_arguments("m.mge", {}, options, **more) == ["m.mge", *DEFAULT, *line]


def test_an_option_that_is_on_by_default_can_be_disabled():
    assert check_options({"no_sanity_check": False}) == {"no_sanity_check": False}
    assert build_arguments("m.mge", {}, {"no_sanity_check": False}) == ["m.mge"]


def test_values_and_flags_are_one_argument():
    assert build_arguments("m.mge", {"a": "a.npy", "b": "b.npy"}, {"iter": 20}, "p.json") == [
        "m.mge",
        "--input=a:a.npy;b:b.npy",
        *DEFAULT,
        "--iter=20",
        "--profile=p.json",
    ]


HOSTILE = st.text().filter(lambda text: re.search(r"[^A-Za-z0-9_,:-]", text))


@given(st.dictionaries(st.text(max_size=20) | st.sampled_from(list(OPTIONS)), HOSTILE, min_size=1))
def test_hostile_text_never_reaches_the_command_line(options):
    with pytest.raises(OptionError):
        check_options(options)


def test_fitting_with_a_cuda_build_without_gpu_needs_cpu():
    runtime = Capabilities(kind="binary", flags=frozenset({"fitting", "cuda", "cpu"}))
    with pytest.raises(OptionError) as caught:
        check_options({"fitting": True}, runtime=runtime, profiled=False)
    assert (caught.value.code, caught.value.limit) == ("needs", "cpu")
    check_options({"fitting": True, "cpu": True}, runtime=runtime, profiled=False)


def test_a_default_flag_is_left_out_if_the_binary_lacks_it():
    runtime = Capabilities(kind="binary", flags=frozenset({"iter", "profile"}))
    chosen = check_options({"iter": 3}, runtime=runtime)
    assert "--no_sanity_check" not in build_arguments("m.mge", {}, chosen, "p.json")


@pytest.mark.parametrize(
    ("kind", "builds", "options", "expected"),
    [
        ("wheel", {"cuda"}, {}, False),
        ("wheel", {"cuda"}, {"cuda": True}, True),
        ("wheel", {"cuda"}, {"mdl": True}, True),
        ("wheel", {"cuda"}, {"mdl": True, "cpu": True}, False),
        ("binary", {"cuda"}, {}, True),
        ("binary", {"cuda"}, {"multithread": 2}, False),
        ("binary", set(), {}, False),
    ],
)
def test_a_run_may_use_a_gpu_unless_its_options_or_its_build_exclude_it(
    kind, builds, options, expected
):
    assert may_use_gpu(options, Capabilities(kind, builds=frozenset(builds))) is expected
