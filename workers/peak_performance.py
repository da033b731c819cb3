"""Peak performance of devices, as measured by their agents."""

from collections.abc import Iterable
from typing import Any

from agent.protocol import MeasuredRoofs

#: dtypes as profiles name them; others, which a newer agent may measure, are ignored
DTYPES = frozenset({"Float32", "Float16", "BFloat16", "Int8", "QuantizedS8", "QuantizedS4"})
DEVICES = frozenset({"cpu", "cuda"})


def roofs_as_json(measured: Iterable[MeasuredRoofs]) -> list[dict[str, Any]]:
    """Return an agent's figures for storage, limited to known kinds of devices and dtypes.

    Their ranges were validated with the frame (`agent.protocol.contents`).
    """
    by_device: dict[str, dict[str, Any]] = {}
    for roofs in measured:
        peaks = {name: flops for name, flops in roofs.peak_flops.items() if name in DTYPES}
        if roofs.device in DEVICES and peaks:
            by_device[roofs.device] = {**roofs.model_dump(mode="json"), "peak_flops": peaks}
    return list(by_device.values())


def roofs_for(roofs: object, device: str) -> MeasuredRoofs | None:
    """Return the stored figures of one kind of device; None if there are none."""
    for row in roofs if isinstance(roofs, list) else ():
        if isinstance(row, dict) and row.get("device") == device:
            return MeasuredRoofs.model_validate(row)
    return None
