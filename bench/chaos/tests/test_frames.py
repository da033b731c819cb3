"""Tests of dropping and repeating WebSocket frames in a byte stream."""

import pytest

from bench.chaos.frames import Frames

HEAD = b"GET /ws/agent/ HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"


def text(content: bytes, *, masked: bool = False) -> bytes:
    mask, bit = (b"\1\2\3\4", 0x80) if masked else (b"", 0)
    size = len(content)
    if size < 126:
        length = bytes([bit | size])
    elif size < 1 << 16:
        length = bytes([bit | 126]) + size.to_bytes(2, "big")
    else:
        length = bytes([bit | 127]) + size.to_bytes(8, "big")
    return b"\x81" + length + mask + content


PING = b"\x89\x00"


@pytest.mark.parametrize("piece", [1, 7, 10_000_000])
def test_frames_without_a_fault_pass_unchanged(piece):
    stream = HEAD + text(b"a") + PING + text(b"b" * 300, masked=True) + text(b"c" * 70_000)
    frames = Frames(b"GET /ws/", lambda: lambda: 1)
    heard = b"".join(frames.feed(stream[at : at + piece]) for at in range(0, len(stream), piece))
    assert heard == stream


def test_frames_are_lost_or_repeated_but_not_pings():
    fates = iter((0, 2, 1))
    frames = Frames(b"GET /ws/", lambda: lambda: next(fates))
    stream = HEAD + text(b"lost") + PING + text(b"twice", masked=True) + text(b"once")
    assert frames.feed(stream) == HEAD + PING + 2 * text(b"twice", masked=True) + text(b"once")


def test_other_traffic_than_websockets_is_not_changed():
    frames = Frames(b"GET /ws/", lambda: lambda: 0)
    pieces = (b"POST /api/", b"agent/\x81\x01a")
    assert b"".join(map(frames.feed, pieces)) == b"".join(pieces)
