"""What devices reach at best, as their agents measured it."""

from collections.abc import Iterable
from typing import Any

from agent.protocol import MeasuredRoofs

#: dtypes as profiles name them; a newer agent may measure others, of which nothing here knows
DTYPES = frozenset({"Float32", "Float16", "BFloat16", "Int8", "QuantizedS8", "QuantizedS4"})
DEVICES = frozenset({"cpu", "cuda"})


def roofs_as_json(told: Iterable[MeasuredRoofs]) -> list[dict[str, Any]]:
    """What is kept of an agent's figures: those of known kinds of devices and dtypes.

    Their sizes were judged with the frame (`agent.protocol.contents`).
    """
    kept: dict[str, dict[str, Any]] = {}
    for roofs in told:
        peaks = {name: flops for name, flops in roofs.peak_flops.items() if name in DTYPES}
        if roofs.device in DEVICES and peaks:
            kept[roofs.device] = {**roofs.model_dump(mode="json"), "peak_flops": peaks}
    return list(kept.values())


def roofs_for(roofs: object, device: str) -> MeasuredRoofs | None:
    """The kept figures of one kind of device."""
    for each in roofs if isinstance(roofs, list) else ():
        if isinstance(each, dict) and each.get("device") == device:
            return MeasuredRoofs.model_validate(each)
    return None
