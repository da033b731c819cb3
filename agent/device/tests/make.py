"""Make snapshots and samples of an idle machine, with the changes of a test."""

from typing import Any

from agent.device.state import DeviceSample, Snapshot

GIB = 1 << 30


def snapshot(at: float = 0.0, **changes: Any) -> Snapshot:
    """Make a snapshot of a machine with two cores, one of which the run itself uses."""
    facts: dict[str, Any] = {
        "at": 1_000.0 + at,
        "window_s": at or 0.1,
        "busy_s": 100.0 + at,
        "own_s": 50.0 + at,
        "memory_available_bytes": 4 * GIB,
        "swapped_bytes": 0,
        "throttle_counts": {"core": 5, "package": 7},
        "temperature_c": 50.0,
    }
    return Snapshot(**{**facts, **changes})


def sample(at: float = 2.0, **changes: Any) -> DeviceSample:
    facts: dict[str, Any] = {
        "at": 1_000.0 + at,
        "other_cores": 0.0,
        "own_cores": 1.0,
        "max_clock_mhz": 3000.0,
        "temperature_c": 60.0,
        "memory_available_bytes": 4 * GIB,
    }
    return DeviceSample(**{**facts, **changes})
