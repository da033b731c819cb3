"""Notes: the codes and values by which an agent explains things to users."""

import ast
import json
import re
from pathlib import Path

import pytest

from agent.protocol.messages import decode_agent
from agent.protocol.notes import LONGEST_VALUE, TEXTS, Note, text_of

ROOT = Path(__file__).parents[3]
PLACEHOLDER = re.compile(r"%\((\w+)\)s")


def test_a_note_has_an_english_text_with_its_values():
    note = Note.of("process_limit", count=300, limit=256)
    assert str(note) == "300 processes ran at the same time; the limit is 256."


def test_a_value_can_be_another_note():
    problem = Note.of("cannot_start", path="/opt/load_and_run", cause="Permission denied")
    note = Note.of("runtime_unusable", version="1.13.0", problem=problem)
    assert str(note) == (
        "MegEngine 1.13.0 cannot be used. Cannot start /opt/load_and_run: Permission denied"
    )


@pytest.mark.parametrize(
    "note", [Note.of("newer"), Note.of("silence_limit"), Note.of("silence_limit", other=1)]
)
def test_without_a_text_or_a_value_a_note_is_shown_by_its_code(note):
    assert text_of(note.model_dump(), TEXTS) == note.code


def test_a_log_shows_the_values_of_a_note_that_only_the_server_can_word():
    note = Note.of("option_too_small", option="iter", limit=1)
    assert str(note) == "option_too_small {'option': 'iter', 'limit': 1}"


def test_values_of_a_hostile_agent_are_limited():
    deep: dict[str, object] = {"code": "runtime_unusable", "values": {}}
    for _ in range(30):
        deep = {"code": "runtime_unusable", "values": {"problem": deep, "version": "x" * 10_000}}
    finished = {
        "type": "attempt.finished",
        "attempt": "5f0c1d2e-3b4a-4c5d-8e6f-7a8b9c0d1e2f",
        "at": 1.0,
        "reason": "refused",
        "notes": [deep, {"code": "file_failed", "values": {"name": "a\x00", "cause": 1e300}}],
    }
    first, second = decode_agent(json.dumps(finished)).notes
    assert len(str(first)) < 5 * LONGEST_VALUE
    assert second.values == {"name": "a\ufffd", "cause": 1e18}


def calls() -> list[tuple[str, str, set[str]]]:
    """Return (place, code, names of values) of all notes and input errors with a constant code."""
    found = []
    for path in [*(ROOT / "agent").rglob("*.py"), *(ROOT / "tasks/lifecycle").glob("*.py")]:
        if "tests" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="Note"), attr="of"),
                    args=[ast.Constant(value=str(code))],
                ):
                    pass
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="InputError"), attr="of"),
                    args=[_, ast.Constant(value=str(code))],
                ):
                    pass
                case _:
                    continue
            if all(keyword.arg for keyword in node.keywords):
                names = {str(keyword.arg) for keyword in node.keywords}
                found.append((f"{path.name}:{node.lineno}", code, names))
    return found


def test_each_note_that_is_sent_has_a_text_and_exactly_its_values():
    sent = calls()
    assert len(sent) > 60
    wrong = [
        (place, code)
        for place, code, names in sent
        if code not in TEXTS or set(PLACEHOLDER.findall(TEXTS[code])) != names
    ]
    assert wrong == []
