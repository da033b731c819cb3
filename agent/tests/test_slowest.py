"""The slowest operators of a profile fit into a small frame, whatever the profile contains."""

import json
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agent.execution.slowest import LARGEST_BYTES, shorten, slowest_operators
from agent.protocol.messages import (
    MOST_PASSES,
    MOST_SLOWEST,
    SLOWEST_FRAME_BYTES,
    AttemptStarted,
    LatencySoFar,
    SlowestOperators,
    decode_agent,
    encode,
)
from agent.tests.fakes import profile_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "profile.json"


def find(path: Path, operators: list[tuple[str, str, float]]) -> SlowestOperators | None:
    path.write_bytes(profile_of(operators))
    return slowest_operators(path)


def frame_of(slowest: SlowestOperators) -> bytes:
    """Return the largest frame with these operators."""
    message = AttemptStarted(
        attempt=uuid.uuid4(),
        at=1e10 / 3,
        download_s=1e8 / 3,
        passes=MOST_PASSES,
        passes_done=MOST_PASSES,
        slowest=slowest,
        latency=LatencySoFar(
            passes=100, used=100, median_ms=1e8 / 3, low_ms=1e8 / 3, high_ms=1e8 / 3
        ),
    )
    frame = encode(message)
    assert decode_agent(frame) == message
    return frame.encode()


def test_operators_are_sorted_by_the_time_of_their_slowest_node(path):
    times = {
        "1": {"a": {"start": 0.0, "end": 0.000002}, "b": {"start": 0.0, "end": 0.000007}},
        "2": {"a": {"start": 0.0, "end": 0.000009}},
        "3": {},
        "4": {"a": {"start": 0.0, "end": 0.000007}},
        "unknown": {"a": {"start": 0.0, "end": 1.0}},
    }
    operators = {
        key: {"name": f"op{key}", "type": "Elemwise" if key == "2" else "Conv"} for key in "51234"
    }
    profile = {"graph_exec": {"operator": operators}, "profiler": {"device": times}}
    path.write_text(json.dumps(profile))
    slowest = slowest_operators(path)
    assert slowest is not None
    assert slowest.types == ("Elemwise", "Conv")
    # equal times stay in the order of the profile
    assert slowest.rows == (("op2", 0, 9.0), ("op1", 1, 7.0), ("op4", 1, 7.0))
    assert (slowest.operators, slowest.total_us) == (3, 23.0)


@pytest.mark.parametrize("letter", ["x", "\x01", '"', "模", "🙂", "\\"])
@pytest.mark.parametrize("length", [1, 60, 250, 20_000])
def test_a_frame_has_at_most_4_kb_with_any_names(path, letter, length):
    operators = [
        (f"{n}{letter * length}{n}", f"{letter * 60}{n}", 0.001 / (n + 1)) for n in range(60)
    ]
    slowest = find(path, operators)
    assert slowest is not None
    assert len(frame_of(slowest)) <= SLOWEST_FRAME_BYTES
    assert (slowest.operators, slowest.rows[0][2]) == (60, 1000.0)
    # each name keeps its begin and its end, which tell operators apart
    for number, (name, _, _) in enumerate(slowest.rows):
        assert name.startswith(str(number))
        assert name.endswith(str(number))


@pytest.mark.parametrize("letter", ["x", "模"])
def test_names_of_250_letters_are_shortened_before_rows_are_left_out(path, letter):
    operators = [(f"{n}{letter * 250}{n}", "ConvBiasForward", 0.001) for n in range(80)]
    slowest = find(path, operators)
    assert slowest is not None
    assert len(slowest.rows) >= (MOST_SLOWEST if letter == "x" else 30)
    assert all(len(name) >= 30 for name, _, _ in slowest.rows)


def test_short_names_are_complete(path):
    slowest = find(path, [("conv(data,conv1.weight)[493]", "ConvolutionForward", 0.001948)])
    assert slowest is not None
    assert slowest.rows == (("conv(data,conv1.weight)[493]", 0, 1948.0),)


@given(st.lists(st.tuples(st.text(max_size=400), st.text(max_size=150)), min_size=1, max_size=60))
def test_a_frame_of_any_texts_is_small_and_valid(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("profile") / "profile.json"
    slowest = find(path, [(name, kind, 0.001) for name, kind in texts])
    assert slowest is not None
    assert len(frame_of(slowest)) <= SLOWEST_FRAME_BYTES


def test_a_profile_with_half_a_character_is_left_to_the_server(path):
    assert find(path, [("\ud83d", "A", 0.001)]) is None


@pytest.mark.parametrize("time_s", [-0.001, float("nan"), float("inf"), 1e300])
def test_a_profile_with_an_impossible_time_is_left_to_the_server(path, time_s):
    assert find(path, [("a", "A", 0.001), ("b", "B", time_s)]) is None


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"graph_exec": {}}', profile_of([]), b"\xff", b"[" * 10_000]
)
def test_a_damaged_profile_is_left_to_the_server(path, content):
    path.write_bytes(content)
    assert slowest_operators(path) is None


def test_damaged_profiles_raise_nothing(testdata):
    for path in sorted((testdata / "bad" / "profiles").glob("*.json")):
        slowest = slowest_operators(path)
        if slowest is not None:
            assert len(frame_of(slowest)) <= SLOWEST_FRAME_BYTES


def test_a_very_large_profile_is_not_read(path):
    path.write_bytes(profile_of([("a", "A", 0.001)]))
    with path.open("ab") as file:
        file.truncate(LARGEST_BYTES + 1)
    assert slowest_operators(path) is None
    assert slowest_operators(path.with_name("missing.json")) is None


@pytest.mark.parametrize(("text", "short"), [("abc", "abc"), ("abcdefgh", "ab…gh"), ("", "")])
def test_a_text_is_shortened_in_its_middle(text, short):
    assert shorten(text, 5) == short


ROW = ["conv", 0, 1.0]
GOOD = {"operators": 60, "total_us": 10.0, "types": ["Conv"], "rows": [ROW]}


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": []},
        {"rows": [ROW] * (MOST_SLOWEST + 1)},
        {"rows": [["x" * 301, 0, 1.0]]},
        {"rows": [["conv", 1, 1.0]]},
        {"rows": [["conv", -1, 1.0]]},
        {"rows": [["conv", 0, -1.0]]},
        {"rows": [["conv", 0, 1e16]]},
        {"rows": [["conv", 0]]},
        {"rows": [["conv", 0, 1.0, 2.0]]},
        {"rows": [[{}, 0, 1.0]]},
        {"operators": 0},
        {"operators": 2**31},
        {"total_us": -1.0},
        {"types": ["x" * 101]},
        {"types": ["x"] * (MOST_SLOWEST + 1)},
        {"types": []},
    ],
)
def test_the_server_rejects_operators_beyond_their_limits(changes):
    frame = {"type": "attempt.started", "attempt": str(uuid.uuid4()), "at": 1.0}
    assert decode_agent(json.dumps(frame | {"slowest": GOOD})).slowest
    with pytest.raises(ValidationError):
        decode_agent(json.dumps(frame | {"slowest": GOOD | changes}))


def test_nan_is_no_time():
    frame = {"type": "attempt.started", "attempt": str(uuid.uuid4()), "at": 1.0}
    bad = GOOD | {"rows": [["conv", 0, float("nan")]]}
    with pytest.raises(ValidationError):
        decode_agent(json.dumps(frame | {"slowest": bad}))


def test_nul_in_a_name_is_replaced():
    frame = {"type": "attempt.started", "attempt": str(uuid.uuid4()), "at": 1.0}
    text = json.dumps(frame | {"slowest": GOOD | {"rows": [["a\0b", 0, 1.0]]}})
    assert decode_agent(text).slowest.rows[0][0] == "a\ufffdb"
