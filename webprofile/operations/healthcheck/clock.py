"""Check of the clock: compare it with the database and storage, since machines compare times."""

import datetime
from collections.abc import Iterator
from contextlib import suppress
from email.utils import parsedate_to_datetime

from django.conf import settings
from django.db import DatabaseError

from webprofile.operations.healthcheck.finding import Finding, broken, good, warning
from webprofile.operations.healthcheck.rows import database_clock
from webprofile.operations.healthcheck.web import Unreachable, ask

#: tolerated skew; the Date header of HTTP has a resolution of one second
_FINE_S = 3.0
#: S3 rejects signatures with a larger skew
_STORAGE_S = 900.0
STEP = "Set the clocks of all machines with a time service (chrony, systemd-timesyncd)."


def clock() -> Finding:
    """Compare the clock with those of the database and storage, if they are available."""
    skews = dict(_skews())
    if not skews:
        return good("No clock of another machine is available for comparison.")
    name, skew_s = max(skews.items(), key=lambda item: abs(item[1]))
    if abs(skew_s) <= _FINE_S:
        return good(f"It agrees with {' and '.join(sorted(skews))} within {_FINE_S:.0f} s.")
    text = f"It is {abs(skew_s):.0f} s {'behind' if skew_s > 0 else 'ahead of'} {name}"
    harm = _harm(name, skew_s)
    return broken(f"{text}: {harm}", STEP) if harm else warning(f"{text}.", STEP)


def _harm(name: str, skew_s: float) -> str:
    """Return what a skew breaks, empty if nothing."""
    if name == "storage" and abs(skew_s) >= _STORAGE_S:
        return "storage rejects all signatures, so files cannot be stored or read."
    if name == "storage" and skew_s >= settings.PRESIGN_EXPIRY_S / 2:
        left = settings.PRESIGN_EXPIRY_S - skew_s
        return f"presigned URLs are valid for only {max(left, 0):.0f} s."
    if abs(skew_s) >= settings.LEASE_S - settings.HEARTBEAT_S:
        return "machines whose clocks differ so much end each other's attempts as lost."
    return ""


def _skews() -> Iterator[tuple[str, float]]:
    """Yield (name of the other machine, seconds that its clock is ahead of this one)."""
    with suppress(DatabaseError):
        before = datetime.datetime.now(datetime.UTC)
        if (database_at := database_clock()) is not None:
            yield "the database", _ahead_s(database_at, before)
    if settings.S3_ENDPOINT_URL:
        with suppress(Unreachable, ValueError, TypeError):
            before = datetime.datetime.now(datetime.UTC)
            date = ask("HEAD", settings.S3_ENDPOINT_URL).headers.get("Date", "")
            yield "storage", _ahead_s(parsedate_to_datetime(date), before)


def _ahead_s(remote: datetime.datetime, before: datetime.datetime) -> float:
    after = datetime.datetime.now(datetime.UTC)
    return (remote - (before + (after - before) / 2)).total_seconds()
