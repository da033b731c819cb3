"""Read an attempt's measurement.json and build the AttemptMeasurement row."""

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import ValidationError

from agent.protocol.artifacts import MEASUREMENT_NAME, limit_of
from agent.protocol.measurement import Measurement
from profiles.analysis.archive import VERSION
from profiles.analysis.measurement import figures, variation
from profiles.models import AttemptMeasurement
from tasks.models import Attempt, artifact_key
from webprofile.errors import DomainError
from webprofile.storage import storage

#: fields of a device state that pages show; the artifact has all of them
_SHOWN_STATE = (
    "at",
    "cpu_percent",
    "load_average",
    "clocks",
    "governor",
    "temperature_c",
    "memory_available_bytes",
    "memory_free_bytes",
    "memory_total_bytes",
    "gpus",
)
#: limits of texts, keys and lists (cores, GPUs, passes)
_LONGEST_TEXT, _LONGEST_KEY, _MOST_ROWS = 500, 100, 200
#: larger numbers are no plausible device readings, and break number formatting
_LARGEST = 2**63


class MeasurementFormatError(ValueError):
    """measurement.json is invalid."""


def read_measurement(attempt: Attempt) -> Measurement | None:
    """Read an attempt's measurement; None if its agent stored none.

    Raises MeasurementFormatError, DomainError storage_unreachable.
    """
    stored = {artifact.name for artifact in attempt.artifacts.all() if artifact.is_stored}
    if MEASUREMENT_NAME not in stored:
        return None
    try:
        data = storage.read(
            artifact_key(str(attempt.pk), MEASUREMENT_NAME),
            limit_bytes=limit_of(MEASUREMENT_NAME) or 0,
        )
        return Measurement.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise MeasurementFormatError(f"{MEASUREMENT_NAME}: {place}: {first['msg']}") from error
    except DomainError as error:
        if error.code == "storage_unreachable":
            raise
        raise MeasurementFormatError(f"{MEASUREMENT_NAME}: {error.code}") from error


def measurement_row(
    attempt: Attempt,
    measurement: Measurement,
    device_totals_s: Sequence[float | None],
    host_totals_s: Sequence[float | None] = (),
) -> AttemptMeasurement:
    """Build the row of a measurement, not saved yet; totals hold one value per profile, s."""
    sums = figures(measurement)
    known = [total for total in device_totals_s if total is not None]
    return AttemptMeasurement(
        attempt=attempt,
        derived_version=VERSION,
        **sums | {"passes": _plain(sums["passes"], depth=2)},
        device_totals_s=list(device_totals_s),
        host_totals_s=list(host_totals_s),
        device_cv=variation(known),
        plan=measurement.plan.model_dump(mode="json"),
        contaminations=_plain([row.model_dump() for row in measurement.contaminations], depth=2),
        notes=_plain(list(measurement.notes), depth=1),
        gate=_plain(measurement.gate, depth=3),
        device={
            when: {key: _plain(state[key], depth=3) for key in _SHOWN_STATE if key in state}
            for when in ("before", "after")
            if isinstance(state := measurement.device.get(when), dict)
        },
    )


def _plain(value: Any, *, depth: int) -> Any:
    """Reduce untrusted device data to JSON of bounded size and depth.

    PostgreSQL's JSON type allows neither NUL nor NaN.
    """
    if isinstance(value, str):
        return _text(value, _LONGEST_TEXT)
    if isinstance(value, int | float) and not abs(value) <= _LARGEST:
        return None
    if isinstance(value, dict | list) and not depth:
        return None
    if isinstance(value, dict):
        return {
            _text(str(key), _LONGEST_KEY): _plain(value[key], depth=depth - 1)
            for key in _some(value)
        }
    if isinstance(value, list):
        return [_plain(item, depth=depth - 1) for item in _some(value)]
    return value


def _text(text: str, limit: int) -> str:
    return text[:limit].replace("\x00", "\ufffd").encode("utf-8", "replace").decode()


def _some(items: Iterable[Any]) -> list[Any]:
    return list(items)[:_MOST_ROWS]
