"""Golden frames: version 1 of the protocol must not change by accident."""

import json
import typing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agent.link.log_tail import CHUNK_BYTES
from agent.protocol.messages import (
    MAX_FRAME_BYTES,
    PROTOCOL_VERSION,
    AgentMessage,
    AttemptFinished,
    AttemptLog,
    CloseCode,
    EndReason,
    Script,
    ServerMessage,
    decode_agent,
    decode_server,
    encode,
)

FOLDER = Path(__file__).parent / "frames" / "v1"
FRAMES = sorted(FOLDER.glob("*.json"))
ATTEMPT = "5f0c1d2e-3b4a-4c5d-8e6f-7a8b9c0d1e2f"
DECODERS = {"agent": decode_agent, "server": decode_server}


def decoder_of(path: Path):
    return DECODERS[path.name.split(".")[0]]


def read_frame(name: str) -> str:
    return (FOLDER / f"{name}.json").read_text(encoding="utf-8")


def types_of(union) -> set[str]:
    members = typing.get_args(typing.get_args(union)[0])
    return {member.model_fields["type"].default for member in members}


@pytest.mark.parametrize("path", FRAMES, ids=lambda path: path.stem)
def test_a_golden_frame_is_decoded_and_encoded_unchanged(path):
    decode = decoder_of(path)
    golden = json.loads(path.read_text(encoding="utf-8"))
    message = decode(path.read_text(encoding="utf-8"))
    frame = encode(message)
    assert json.loads(frame) == golden
    assert decode(frame) == message
    assert encode(decode(frame)) == frame
    assert len(frame.encode()) < MAX_FRAME_BYTES


@pytest.mark.parametrize("path", FRAMES, ids=lambda path: path.stem)
def test_unknown_fields_are_dropped(path):
    decode = decoder_of(path)
    golden = json.loads(path.read_text(encoding="utf-8"))
    newer = {**golden, "mood": {"deep": [1, 2, 3]}}
    assert decode(json.dumps(newer)) == decode(json.dumps(golden))


@pytest.mark.parametrize("path", FRAMES, ids=lambda path: path.stem)
def test_a_frame_of_the_other_side_is_rejected(path):
    other = {decode_agent: decode_server, decode_server: decode_agent}[decoder_of(path)]
    with pytest.raises(ValidationError):
        other(path.read_text(encoding="utf-8"))


def test_all_messages_have_a_golden_frame():
    types: dict[str, set[str]] = {"agent": set(), "server": set()}
    for path in FRAMES:
        golden = json.loads(path.read_text(encoding="utf-8"))
        types[path.name.split(".")[0]].add(golden["type"])
    assert types["agent"] == types_of(AgentMessage)
    assert types["server"] == types_of(ServerMessage)


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"type": "dance"}',
        '{"type": "attempt.accepted"}',
        '{"type": "attempt.accepted", "attempt": "7"}',
        # a UUID of version 1, not 4
        '{"type": "cancel", "attempt": "5f0c1d2e-3b4a-11ee-8e6f-7a8b9c0d1e2f"}',
        "{" * 5000,
        # JSON has no such numbers
        '{"type": "heartbeat", "sent_at": NaN}',
        '{"type": "heartbeat", "sent_at": 1e400}',
    ],
)
@pytest.mark.parametrize("decode", DECODERS.values(), ids=DECODERS)
def test_an_invalid_frame_is_rejected(decode, frame):
    with pytest.raises(ValidationError):
        decode(frame)


@pytest.mark.parametrize("name", ["../model.mge", "a/b", ".bashrc", "a;b", "a:b", "", "a" * 101])
def test_a_file_name_with_a_path_is_rejected(name):
    start = json.loads(read_frame("server.start"))
    start["model"]["name"] = name
    with pytest.raises(ValidationError):
        decode_server(json.dumps(start))


def test_an_oversized_text_is_rejected():
    log = {"type": "attempt.log", "attempt": ATTEMPT, "seq": 1, "offset": 0, "size": 1}
    decode_agent(json.dumps({**log, "text": "x" * 16 * 1024}))
    with pytest.raises(ValidationError):
        decode_agent(json.dumps({**log, "text": "x" * (16 * 1024 + 1)}))


@pytest.mark.parametrize("character", ["\0", "\\", "ä", "模", "🙂"])
def test_a_full_log_chunk_of_any_character_fits_into_a_frame(character):
    text = character * (CHUNK_BYTES // len(character.encode()))
    log = AttemptLog(attempt=ATTEMPT, seq=10**9, offset=10**12, size=CHUNK_BYTES, text=text)
    assert len(encode(log).encode()) < MAX_FRAME_BYTES


def test_messages_are_immutable():
    message = decode_server(json.dumps({"type": "cancel", "attempt": ATTEMPT}))
    with pytest.raises(ValidationError):
        message.attempt = None


@given(
    reason=st.sampled_from(EndReason),
    exit_code=st.none() | st.integers(-(2**31), 2**31 - 1),
    detail=st.text(max_size=1000),
    run_s=st.none() | st.floats(0, 1e9),
    at=st.floats(0, 1e11),
)
def test_any_end_is_decoded_unchanged(reason, exit_code, detail, run_s, at):
    end = AttemptFinished(
        attempt=ATTEMPT, at=at, reason=reason, exit_code=exit_code, detail=detail, run_s=run_s
    )
    assert decode_agent(encode(end)) == end


def test_the_constants_of_version_1_are_fixed():
    assert PROTOCOL_VERSION == 1
    assert MAX_FRAME_BYTES == 65536
    assert [int(code) for code in CloseCode] == [4400, 4401, 4403, 4409, 4426, 4429]


def hello_with(**roofs):
    hello = json.loads(read_frame("agent.hello"))
    hello["runtimes"][0]["roofs"][0] |= roofs
    return json.dumps(hello)


@pytest.mark.parametrize(
    "wrong",
    [
        {"copy_bytes_s": 0},
        {"copy_bytes_s": 1e30},
        {"copy_bytes_s": float("inf")},
        {"peak_flops": {"Float32": float("nan")}},
        {"peak_flops": {"Float32": -1.0}},
        {"peak_flops": {"x" * 41: 1e9}},
        {"peak_flops": {f"dtype {number}": 1e9 for number in range(17)}},
        {"device": ""},
        {"measured_at": -1},
    ],
)
def test_impossible_peak_performance_is_rejected(wrong):
    with pytest.raises(ValidationError):
        decode_agent(hello_with(**wrong))


def test_nul_characters_in_texts_are_replaced():
    frame = json.loads(read_frame("agent.attempt_finished"))
    frame |= {"detail": "a\x00b", "log_end": "\x00", "command": "python x.py \x00"}
    message = decode_agent(json.dumps(frame))
    assert isinstance(message, AttemptFinished)
    assert (message.detail, message.log_end) == ("a\ufffdb", "\ufffd")
    assert message.command.endswith("\ufffd")


@pytest.mark.parametrize(
    "fields",
    [
        {"entry": "../main.py"},
        {"entry": "/etc/main.py"},
        {"entry": "a/../main.py"},
        {"entry": "main.sh"},
        {"entry": "-m.py"},
        {"arguments": ["a\x00b"]},
        {"arguments": ["a", "\x01"]},
        {"arguments": ["a\x0bb"]},
        {"arguments": ["\x1b[1m"]},
        {"arguments": ["\x7f"]},
        {"arguments": ["x"] * 65},
        {"formats": []},
        {"formats": ["chrome_timeline.json", "chrome_timeline.json"]},
        {"formats": ["other.json"]},
        {"sample_rate": -1},
    ],
)
def test_an_invalid_script_is_rejected(fields):
    with pytest.raises(ValidationError):
        Script.model_validate(fields)


def test_a_script_is_recorded_as_a_timeline_by_default():
    script = Script(entry="train/main one.py", arguments=("--epochs", "1", ""))
    assert script.formats == ("chrome_timeline.json",)
    assert script.profile_device


def test_arguments_can_contain_line_breaks_tabs_and_any_language():
    arguments = ("a\nb", "a\r\nb", "a\tb", "训练 🙂", "'\"\\")
    assert Script(arguments=arguments).arguments == arguments
