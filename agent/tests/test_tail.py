"""Chunks of the log, without a process."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.link.log_tail import CHUNK_BYTES, LogTail
from agent.protocol.run_log import ESCAPE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "output"


def add(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_a_missing_file_is_an_empty_log(path):
    tail = LogTail(path, 1000)
    tail.read()
    tail.finish()
    assert tail.chunks == []


def test_output_of_the_timed_part_is_held_back(path):
    tail = LogTail(path, 1000)
    add(path, b"load\n=== prepare: 5ms; going to")
    tail.read()
    before = tail.text()
    add(path, b" warmup\niter 0\n")
    tail.read()
    assert tail.quiet
    assert tail.text() == before
    add(path, b"=== finished test #0\n==== pass 2 (profiled)\nload model\n")
    tail.read()
    assert tail.text() == before
    tail.finish()
    assert not tail.quiet
    assert tail.text().endswith(
        "iter 0\n=== finished test #0\n==== pass 2 (profiled)\nload model\n"
    )


def test_release_sends_the_output_of_a_pass_and_holds_the_next_back(path):
    tail = LogTail(path, 1000)
    add(path, b"going to warmup\niter 0\n")
    tail.read()
    assert tail.text() == ""
    tail.release(1000)
    assert tail.text() == "going to warmup\niter 0\n"
    add(path, b"load model\n")
    tail.read()
    assert tail.quiet
    assert tail.text() == "going to warmup\niter 0\n"
    tail.release(1000)
    assert tail.text() == "going to warmup\niter 0\nload model\n"


@pytest.mark.parametrize("piece", ["x", "\n", '"\\', "\x01", "模", "🙂"])
def test_release_adds_as_much_as_fits_and_keeps_the_rest(path, piece):
    tail = LogTail(path, 100_000)
    text = f"going to warmup\n{piece * 3000}"
    add(path, text.encode())
    tail.release(1000)
    (chunk,) = tail.chunks
    written = json.dumps(chunk.text, ensure_ascii=False)[1:-1]
    assert 990 <= len(written.encode()) <= 1000
    assert text.startswith(chunk.text)
    tail.finish()
    assert tail.text() == text


@pytest.mark.parametrize(
    "colour", [b"\x1b[32m", b"\x1b[1;31m", b"\x1b[0m", b"\x1b[K", b"\x1b]0;title\x07"]
)
@pytest.mark.parametrize("is_script", [False, True])
def test_escape_sequences_are_removed_if_a_read_splits_them(path, colour, is_script):
    for cut in range(len(colour) + 1):
        path.unlink(missing_ok=True)
        tail = LogTail(path, 1000, is_script=is_script)
        add(path, b"24 22:58:28 " + colour[:cut])
        tail.read()
        assert tail.text() == "24 22:58:28 "
        add(path, colour[cut:] + b"WRN slow [0m\n")
        tail.finish()
        assert tail.text() == "24 22:58:28 WRN slow [0m\n"
        assert sum(chunk.size for chunk in tail.chunks) == len(tail.text())


def test_escape_sequences_are_removed_from_the_end_of_a_truncated_log(path):
    tail = LogTail(path, 10)
    add(path, b"0123456789" + b"\x1b[31m-" * 20_000 + b"\x1b[0mthe end\n")
    tail.finish()
    assert tail.text().endswith("---the end\n")
    assert "\x1b" not in tail.text()


def test_an_escape_character_at_the_end_is_kept(path):
    tail = LogTail(path, 1000)
    add(path, b"100 \x1b")
    tail.finish()
    assert tail.text() == "100 \x1b"


def test_output_of_a_script_is_never_held_back(path):
    tail = LogTail(path, 1000, is_script=True)
    add(path, b"going to warmup\nstep 1\n")
    tail.read()
    add(path, b"step 2\n")
    tail.read()
    assert (tail.quiet, tail.text()) == (False, "going to warmup\nstep 1\nstep 2\n")


def test_a_log_just_above_the_limit_contains_each_byte_once(path):
    tail = LogTail(path, 10)
    add(path, b"0123456789abc")
    tail.finish()
    lines = tail.text().splitlines()
    assert (lines[0], lines[-1]) == ("0123456789", "abc")


#: a terminal's controls and what they consist of, in any order
_CONTROLS = st.lists(
    st.sampled_from([b"\x1b", b"[", b"]", b"0;31", b"m", b"\x07", b"\\", b"x"]), max_size=12
).map(b"".join)


@given(st.lists(st.binary(max_size=30_000) | _CONTROLS, max_size=6), st.booleans())
def test_chunks_join_without_gaps(tmp_path_factory, pieces, looks):
    path = tmp_path_factory.mktemp("tail") / "output"
    tail = LogTail(path, 1 << 20)
    for piece in pieces:
        add(path, piece)
        if looks:
            tail.read()
    tail.finish()
    text = b"".join(pieces).decode("utf-8", errors="replace")
    assert tail.text() == ESCAPE.sub("", text).replace("\0", "\ufffd")
    offset = 0
    for number, chunk in enumerate(tail.chunks, 1):
        assert (chunk.seq, chunk.offset) == (number, offset)
        assert chunk.size == len(chunk.text.encode()) <= CHUNK_BYTES
        offset += chunk.size


def test_nul_characters_are_replaced_and_offsets_count_what_is_sent(path):
    tail = LogTail(path, 1000)
    add(path, b"a\0\0b\n")
    tail.release(1000)
    add(path, b"next\n")
    tail.release(1000)
    first, second = tail.chunks
    assert first.text == "a\ufffd\ufffdb\n"
    assert (first.size, second.offset) == (len(first.text.encode()),) * 2
