"""The message about an attempt's end fits into a frame."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.link.outbox import cut_to_bytes, fit_end
from agent.protocol.messages import (
    MAX_FRAME_BYTES,
    MAX_PHASES,
    AttemptFinished,
    EndReason,
    FileOffer,
    Phase,
    StoredFile,
    decode_agent,
    encode,
)
from agent.protocol.notes import Note

NAME = "a" * 100


def make_end(count: int = 0, text: str = "") -> AttemptFinished:
    """Return an end with `count` files, whose texts are filled with `text`."""
    offer = FileOffer(name=NAME, size_bytes=2**63 - 1, md5="a" * 32)
    phase = Phase(name="a" * 40, started_at=1e10 / 3, ended_at=1e10 / 3)
    return AttemptFinished(
        attempt=uuid.uuid4(),
        at=1e10 / 3,
        reason=EndReason.EXITED,
        exit_code=1,
        notes=(Note.of("storage_connection", name=text * 1000, cause=text * 1000),) * 20,
        detail=(text * 1000)[:1000],
        command=(text * 8000)[:8000],
        log_end=(text * 4000)[:4000],
        files=(offer,) * count,
        received=(StoredFile(name=NAME, sha256="a" * 64),) * count,
        phases=(phase,) * min(count, MAX_PHASES),
    )


@pytest.mark.parametrize("count", [0, 24, 128])
@pytest.mark.parametrize("text", ["x", "\x01", '"', "模", "🙂"])
def test_any_end_fits_into_a_frame_and_keeps_its_explanation(count, text):
    frame = encode(fit_end(make_end(count, text)))
    assert len(frame.encode()) <= MAX_FRAME_BYTES
    end = decode_agent(frame)
    assert len(end.detail) > 500
    assert len(end.notes[0].values["name"]) > 50


def test_a_log_keeps_its_end_and_other_texts_their_begin():
    end = make_end().model_copy(
        update={"log_end": "\x01" * 3000 + "last", "command": "first" + "\x01" * 7000}
    )
    fitted = fit_end(end)
    assert fitted.log_end.endswith("\x01last")
    assert fitted.command.startswith("first\x01")
    assert len(fitted.command) > 2000


def test_a_short_end_is_not_changed():
    end = make_end(5, "plain 模\n").model_copy(update={"notes": (Note.of("disk_full"),)})
    assert fit_end(end) == end


@given(st.text(), st.integers(0, 40), st.booleans())
def test_a_text_is_not_cut_more_than_needed(text, most, keep_end):
    cut = cut_to_bytes(text, most, keep_end=keep_end)

    def size(part):
        return len(encode(make_end().model_copy(update={"detail": part})).encode())

    assert text.endswith(cut) if keep_end else text.startswith(cut)
    assert size(cut) - size("") <= most
    if cut != text:
        more = text[-len(cut) - 1 :] if keep_end else text[: len(cut) + 1]
        assert size(more) - size("") > most
