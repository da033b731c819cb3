"""The parser of profiles of load_and_run on damaged, odd and hostile files."""

import json
import math
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiles.formats.errors import ProfileFormatError
from profiles.formats.load_and_run.reader import MAX_NAME_CHARS, parse
from profiles.tests.make import NODE, make_profile, to_json
from testdata import bad_profile, commands, good_profile

BAD = {
    "not_json": "not_json",
    "truncated_last_byte": "not_json",
    "trailing": "not_json",
    "utf16": "utf16",
    "invalid_utf8": "not_utf8",
    "list": "not_a_profile",
    "string": "not_a_profile",
    "null": "not_a_profile",
    "deep": "not_a_profile",
    "deep_inside": "too_deep",
    "no_profiler": "missing_key",
    "no_graph_exec": "missing_key",
    "no_profiler_host": "missing_key",
    "operator_no_type": "missing_key",
    "operator_no_input": "missing_key",
    "time_no_start": "missing_key",
    "time_null": "bad_value",
    "memory_null": "bad_value",
    "memory_text": "bad_value",
    "shapes_flat": "bad_value",
}
# the tool loads these and crashes later; test_profile_text checks our output
LOADED = {"time_all_zero", "time_all_zero_opencl", "time_integers"}
#: refused by the tool only
READ = {"utf8_bom"}


def error_of(data: bytes, **limits: int) -> ProfileFormatError:
    with pytest.raises(ProfileFormatError) as caught:
        parse(data, **limits)
    return caught.value


@pytest.mark.parametrize(("name", "code"), BAD.items())
def test_a_damaged_profile_gives_a_code_and_a_message(name: str, code: str) -> None:
    error = error_of(bad_profile(name))
    assert error.code == code
    assert error.detail.endswith(".")
    assert len(error.detail) < 400


def test_the_tool_fails_on_the_profiles_of_these_tests() -> None:
    refused = {c["profile"] for c in commands("bad/profiles", "-t 3") if c["status"]}
    assert refused == BAD.keys() | LOADED | READ


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("operator_no_type", ["graph_exec.operator", "'60'", "`type`"]),
        ("time_no_start", ["`start`", "profiler.device", "'60'", "cpu0:0"]),
        ("memory_text", ["`memory`", "opr_footprint", "'60'", "'12'"]),
        ("shapes_flat", ["`in_shapes`", "'60'"]),
        ("no_profiler_host", ["`profiler`", "'host'"]),
        ("invalid_utf8", ["31539"]),
    ],
)
def test_the_message_names_the_place_of_the_error(name: str, words: list[str]) -> None:
    detail = error_of(bad_profile(name)).detail
    assert [word for word in words if word not in detail] == []


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "empty"),
        (b" \n\t ", "empty"),
        (b'{"traceEvents": []}', "not_a_profile"),
        (b'{"profiler": {"device": {"1": {"n": {"start": ' + b"[" * 200_000, "too_deep"),
        (b'{"a":' * 100_000, "too_deep"),
        # a parser that takes quadratic time does not end
        (b'{"profiler": NaN, "' + b'\\"' * 2_000_000, "not_json"),
    ],
    ids=["empty", "white space", "trace", "open lists", "open objects", "open string"],
)
def test_a_file_that_is_not_a_profile_is_refused(data: bytes, code: str) -> None:
    assert error_of(data).code == code


def test_a_file_over_the_size_limit_is_refused() -> None:
    data = to_json(make_profile({"1": 0.5}))
    assert error_of(data, max_bytes=len(data) - 1).code == "too_large"
    assert len(parse(data, max_bytes=len(data))) == 1


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("NaN", math.nan),
        ("Infinity", math.inf),
        ("-Infinity", -math.inf),
        ("1e400", math.inf),
        ("-1E+400", -math.inf),
        ("1e-400", 0.0),
        ('"inf"', math.inf),
        ('"-inf"', -math.inf),
        ('"nan"', math.nan),
        ("3", 3.0),
    ],
)
def test_nan_and_infinity_are_read(written: str, value: float) -> None:
    profile = make_profile({"1": 0.5, "NaN 1e400": 0.25}, names={"1": "Infinity"})
    profile["graph_exec"]["operator"]["NaN 1e400"]["id"] = "2"
    profile["profiler"]["device"]["1"][NODE]["end"] = "HERE"
    columns = parse(to_json(profile).replace(b'"HERE"', written.encode()))
    assert columns.device.end_s.tolist() == pytest.approx([value, 0.25], nan_ok=True)
    assert columns.names[0] == "Infinity"


@pytest.mark.parametrize("value", [None, "12", "", [], {}, [[[]]]])
def test_a_time_that_is_not_a_number_is_refused(value: Any) -> None:
    profile = make_profile({"1": 0.5})
    profile["profiler"]["device"]["1"][NODE]["end"] = value
    assert error_of(to_json(profile)).code == "bad_value"


@pytest.mark.parametrize("value", [None, 0, 0.0])
def test_zero_computation_is_missing_but_zero_memory_is_zero(value: float | None) -> None:
    footprint = {"1": {"computation": value, "memory": 0}}
    columns = parse(to_json(make_profile({"1": 0.5, "2": 0.5}, footprint=footprint)))
    assert columns.computation.present.tolist() == [False, False]
    assert columns.memory.present.tolist() == [True, False]
    assert columns.memory.values[0] == 0


def test_equal_keys_take_the_last_value_and_the_first_position() -> None:
    data = to_json(make_profile({"1": 0.5, "2": 0.25}))
    data = data.replace(b'"operator": {', b'"operator": {"2": null, ')
    assert parse(data).ids == ("2", "1")


@pytest.mark.parametrize("key", ["NaN", "Infinity", "-Infinity", "1e400", "1e4000"])
def test_an_unquoted_number_as_a_key_is_refused(key: str) -> None:
    data = to_json(make_profile({"1": 0.5}))
    assert error_of(data[:-1] + f', {key} : 1, "x": NaN}}'.encode()).code == "not_json"


@pytest.mark.parametrize("times", [{"start": 1, "end": 2}, {"start": 1, "end": 2, "kern": None}])
def test_kern_times_are_optional(times: dict[str, Any]) -> None:
    columns = parse(to_json(make_profile({"1": {NODE: times}})))
    assert columns.device.end_s.tolist() == [1.0]
    assert math.isnan(columns.device.kern_s[0])


def test_an_unknown_variable_is_named() -> None:
    profile = make_profile({"1": 0.5})
    profile["graph_exec"]["operator"]["1"]["output"] = ["v", "lost"]
    error = error_of(to_json(profile))
    assert error.code == "missing_key"
    assert "'lost'" in error.detail


def test_times_of_operators_outside_the_graph_are_skipped() -> None:
    profile = make_profile({"1": 0.5})
    profile["profiler"]["device"]["7"] = {NODE: {}}
    assert parse(to_json(profile)).ids == ("1",)


def test_operators_that_never_ran_are_left_out() -> None:
    profile = make_profile({"1": 0.5, "2": 0.5})
    del profile["profiler"]["device"]["2"]
    assert parse(to_json(profile)).ids == ("1",)


@pytest.mark.parametrize("value", ["x", "", "9" * 5000])
def test_an_id_that_is_no_number_is_refused(value: Any) -> None:
    profile = make_profile({"1": 0.5})
    profile["graph_exec"]["operator"]["1"]["id"] = value
    assert error_of(to_json(profile)).code == "bad_value"


def test_names_and_shapes_that_are_too_long_are_refused() -> None:
    long = make_profile({"1": 0.5}, names={"1": "a" * (MAX_NAME_CHARS + 1)})
    assert error_of(to_json(long)).code == "too_large"
    wide = make_profile({"1": 0.5}, footprint={"1": {"in_shapes": [[1] * 1_000]}})
    assert error_of(to_json(wide)).code == "bad_value"


def test_dtypes_of_inputs_without_a_memory_plan_are_null() -> None:
    profile = make_profile({"1": 0.5})
    profile["graph_exec"]["var"]["w"] = {"mem_plan": None}
    profile["graph_exec"]["operator"]["1"]["input"] = ["w", "v"]
    assert parse(to_json(profile)).in_dtypes[0] == '[null,"Float32"]'


def test_an_error_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(error_of(b"")))
    assert (error.code, str(error)) == ("empty", error.detail)


def test_times_are_exactly_those_of_the_json_module() -> None:
    raw = json.loads(good_profile("resnet18"))["profiler"]
    columns = parse(good_profile("resnet18"))
    for key, end_s, kern_s in zip(
        columns.ids, columns.host.end_s.tolist(), columns.host.kern_s.tolist(), strict=True
    ):
        nodes = raw["host"][key].values()
        assert end_s == max(t["end"] - t["start"] for t in nodes)
        assert kern_s == max(t["kern"] - t["start"] for t in nodes)


@given(st.binary(max_size=60))
def test_arbitrary_bytes_raise_only_format_errors(data: bytes) -> None:
    error_of(data)


@pytest.mark.exhaustive
@given(st.data())
def test_a_changed_value_raises_only_format_errors(data: st.DataObject) -> None:
    footprint = {"1": {"computation": 3, "memory": 4, "in_shapes": [[1]], "in_layouts": [None]}}
    profile: Any = make_profile({"1": 0.5}, host={"1": 0.5}, footprint=footprint)
    spot = profile
    while True:
        key = data.draw(st.sampled_from(sorted(spot) if isinstance(spot, dict) else [0]))
        if not isinstance(spot[key], dict | list) or not spot[key] or data.draw(st.booleans()):
            break
        spot = spot[key]
    values = st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=3)
    spot[key] = data.draw(st.recursive(values, lambda inner: st.lists(inner, max_size=2)))
    try:
        parse(to_json(profile))
    except ProfileFormatError as error:
        assert error.detail
