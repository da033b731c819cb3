"""The log's chunks, without a process."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.tail import CHUNK_BYTES, LogTail


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "output"


def add(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_a_file_that_does_not_exist_is_an_empty_log(path):
    tail = LogTail(path, 1000)
    tail.read()
    tail.finish()
    assert tail.chunks == []


def test_a_character_in_two_pieces_is_one(path):
    tail = LogTail(path, 1000)
    add(path, "模".encode()[:2])
    tail.read()
    assert tail.text() == ""
    add(path, "模".encode()[2:])
    tail.read()
    assert tail.text() == "模"


def test_the_timed_part_is_held_back_even_if_its_mark_comes_in_pieces(path):
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


def test_no_word_of_a_script_holds_its_output_back(path):
    tail = LogTail(path, 1000, is_script=True)
    add(path, b"going to warmup\nstep 1\n")
    tail.read()
    add(path, b"step 2\n")
    tail.read()
    assert (tail.quiet, tail.text()) == (False, "going to warmup\nstep 1\nstep 2\n")


def test_a_truncated_log_says_so_and_shows_its_end(path):
    tail = LogTail(path, 10)
    add(path, b"0123456789" + b"-" * 200_000 + b"the end\n")
    tail.read()
    assert tail.text() == "0123456789"
    tail.finish()
    text = tail.text()
    assert text.startswith("0123456789\n[log truncated at 10 bytes: 200018 were printed")
    assert text.endswith("--the end\n")
    assert len(text) < 66_000


def test_a_log_a_little_too_long_shows_everything_once(path):
    tail = LogTail(path, 10)
    add(path, b"0123456789abc")
    tail.finish()
    lines = tail.text().splitlines()
    assert (lines[0], lines[-1]) == ("0123456789", "abc")


@given(st.lists(st.binary(max_size=30_000), max_size=6), st.booleans())
def test_chunks_join_without_gaps(tmp_path_factory, pieces, looks):
    path = tmp_path_factory.mktemp("tail") / "output"
    tail = LogTail(path, 1 << 20)
    for piece in pieces:
        add(path, piece)
        if looks:
            tail.read()
    tail.finish()
    assert tail.text() == b"".join(pieces).decode("utf-8", errors="replace")
    offset = 0
    for number, chunk in enumerate(tail.chunks, 1):
        assert (chunk.seq, chunk.offset) == (number, offset)
        assert chunk.size == len(chunk.text.encode()) <= CHUNK_BYTES
        offset += chunk.size
