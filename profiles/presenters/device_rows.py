"""The state of a device before and after a run, as rows of a table."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from profiles.analysis.durations import ABSENT
from profiles.presenters.formatting import bytesize

State = Mapping[str, Any]
_LARGEST = 2**63


def device_rows(device: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return [{"name", "before", "after"}], without rows that are missing on both sides.

    device: `before` and `after` as in `agent.protocol.measurement`; any part may be missing or of
        another type, since an agent wrote it.
    """
    sides = [_cells(_mapping(device.get(when))) for when in ("before", "after")]
    names = list(dict.fromkeys([*sides[0], *sides[1]]))
    return [
        {"name": name, "before": sides[0].get(name, ABSENT), "after": sides[1].get(name, ABSENT)}
        for name in names
    ]


def _cells(state: State) -> dict[str, str]:
    rows = {
        _("Processor load"): _number(state.get("cpu_percent"), "{:.0f} %"),
        _("Load average (1 min)"): _number(_first(state.get("load_average")), "{:.2f}"),
        _("Processor clock"): _clocks(state.get("clocks")),
        _("Clock governor"): _text(state.get("governor")),
        _("Temperature"): _number(state.get("temperature_c"), "{:.0f} °C"),
        _("Free memory"): _bytes(state.get("memory_available_bytes")),
    }
    gpus = state.get("gpus")
    for number, gpu in enumerate(gpus if isinstance(gpus, list) else []):
        rows[f"GPU {number}"] = _gpu(_mapping(gpu))
    return {name: text for name, text in rows.items() if text}


def _clocks(clocks: Any) -> str:
    """Return the lowest and the highest clock of all cores."""
    cores = clocks if isinstance(clocks, list) else []
    known = [core.get("current_mhz") for core in cores if isinstance(core, dict)]
    speeds = [float(speed) for speed in known if speed is not None and _is_number(speed)]
    if not speeds:
        return ""
    low, high = min(speeds), max(speeds)
    return f"{high:.0f} MHz" if high - low < 1 else f"{low:.0f}–{high:.0f} MHz"


def _gpu(gpu: State) -> str:
    parts = (
        _text(gpu.get("name")),
        _number(gpu.get("sm_clock_mhz"), "{:.0f} MHz"),
        _number(gpu.get("temperature_c"), "{:.0f} °C"),
        _number(gpu.get("utilisation_percent"), "{:.0f} %"),
        _bytes(gpu.get("memory_used_bytes")),
    )
    return ", ".join(filter(None, parts))


def _mapping(value: Any) -> State:
    return value if isinstance(value, dict) else {}


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else None


def _is_number(value: Any) -> bool:
    """Whether this is a valid number; stored rows may be older than its validation."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= _LARGEST


def _number(value: Any, form: str) -> str:
    return form.format(value) if _is_number(value) else ""


def _bytes(value: Any) -> str:
    return bytesize(value) if _is_number(value) else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
