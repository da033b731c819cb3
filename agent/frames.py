"""Texts that fit into a frame: limits count characters, but JSON writes some as six bytes."""

import json

from agent.protocol import MAX_FRAME_BYTES, AttemptFinished, encode

#: of an attempt's command lines, and of what it printed last
COMMAND_BYTES = 16 << 10
LOG_END_BYTES = 16 << 10
_DETAIL_BYTES = 4 << 10


def cut_to_bytes(text: str, most: int, *, keep_end: bool = False) -> str:
    """The begin of a text, or its end, that takes at most `most` bytes in a frame."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if _size(_part(text, middle, keep_end)) <= most:
            low = middle
        else:
            high = middle - 1
    return _part(text, low, keep_end)


def fit_end(end: AttemptFinished) -> AttemptFinished:
    """Cut its texts so that it fits into a frame; what does not say why it ended is cut first.

    All else together stays below a frame by the limits of its fields.
    """
    bare = end.model_copy(update={"detail": "", "log_end": "", "command": ""})
    room = MAX_FRAME_BYTES - len(encode(bare).encode())
    detail = cut_to_bytes(end.detail, min(_DETAIL_BYTES, room))
    room -= _size(detail)
    log_end = cut_to_bytes(end.log_end, min(LOG_END_BYTES, room), keep_end=True)
    room -= _size(log_end)
    command = cut_to_bytes(end.command, min(COMMAND_BYTES, room))
    return end.model_copy(update={"detail": detail, "log_end": log_end, "command": command})


def _part(text: str, length: int, keep_end: bool) -> str:
    return text[len(text) - length :] if keep_end else text[:length]


def _size(text: str) -> int:
    """Bytes within the quotes. Pydantic writes JSON as the standard library does here."""
    return len(json.dumps(text, ensure_ascii=False).encode()) - 2
