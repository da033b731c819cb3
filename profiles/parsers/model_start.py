"""What the first bytes of a model tell of its form; nothing of it is loaded."""

from typing import Literal

#: how much of a file decides
START_BYTES = 32
#: v2: what MegEngine dumps by default (`dump_format='FBS_V2'`); v1: `FBS`; old: before
#: FlatBuffers; other: packed, encrypted or no model
ModelForm = Literal["v2", "v1", "old", "other"]

_INPUT_DATA = b"mgbtest0"
_OLD = (b"mgb0001", b"mgb0000a", b"MGBS")


def model_form(start: bytes) -> ModelForm:
    """Return the form of the model whose first `START_BYTES` are `start`.

    Source: MegEngine `src/serialization/impl/serializer_oss*.cpp`. A file with input data begins
    with `mgbtest0` and their number, 12 bytes in all. The identifier of a FlatBuffers file
    stands after its root's offset, before which there may be its size.
    """
    if start.startswith(_INPUT_DATA):
        start = start[12:]
    if b"mgv2" in (start[4:8], start[8:12]):
        return "v2"
    if start.startswith(b"MGBC"):
        return "v1"
    return "old" if start.startswith(_OLD) else "other"
