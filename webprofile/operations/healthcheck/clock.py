"""This machine's clock beside those of the others: times are compared across machines."""

import datetime
from collections.abc import Iterator
from contextlib import suppress
from email.utils import parsedate_to_datetime

from django.conf import settings
from django.db import DatabaseError

from webprofile.operations.healthcheck.finding import Finding, broken, good, odd
from webprofile.operations.healthcheck.rows import database_clock
from webprofile.operations.healthcheck.web import Unreachable, ask

#: what HTTP tells is of whole seconds
_FINE_S = 3.0
#: S3 refuses signatures that are older or younger
_STORAGE_S = 900.0
STEP = "Let a time service (chrony, systemd-timesyncd) set the clocks of all machines."


def clock() -> Finding:
    """Compare with the database and with storage; what cannot be asked has a line of its own."""
    skews = dict(_skews())
    if not skews:
        return good("There is no other machine's clock to compare with.")
    name, skew_s = max(skews.items(), key=lambda item: abs(item[1]))
    if abs(skew_s) <= _FINE_S:
        return good(f"It agrees with {' and '.join(sorted(skews))} within {_FINE_S:.0f} s.")
    text = f"It is {abs(skew_s):.0f} s {'behind' if skew_s > 0 else 'ahead of'} {name}"
    harm = _harm(name, skew_s)
    return broken(f"{text}: {harm}", STEP) if harm else odd(f"{text}.", STEP)


def _harm(name: str, skew_s: float) -> str:
    """What breaks; empty while nothing does."""
    if name == "storage" and abs(skew_s) >= _STORAGE_S:
        return "storage refuses every signature, so no file is stored or read."
    if name == "storage" and skew_s >= settings.PRESIGN_EXPIRY_S / 2:
        left = settings.PRESIGN_EXPIRY_S - skew_s
        return f"addresses of files are good for {max(left, 0):.0f} s instead of their time."
    if abs(skew_s) >= settings.LEASE_S - settings.HEARTBEAT_S:
        return "machines with such clocks end each other's running attempts as lost."
    return ""


def _skews() -> Iterator[tuple[str, float]]:
    """(whose, seconds that it is ahead of this machine)"""
    with suppress(DatabaseError):
        before = datetime.datetime.now(datetime.UTC)
        if (told := database_clock()) is not None:
            yield "the database", _ahead_s(told, before)
    if settings.S3_ENDPOINT_URL:
        with suppress(Unreachable, ValueError, TypeError):
            before = datetime.datetime.now(datetime.UTC)
            date = ask("HEAD", settings.S3_ENDPOINT_URL).headers.get("Date", "")
            yield "storage", _ahead_s(parsedate_to_datetime(date), before)


def _ahead_s(told: datetime.datetime, before: datetime.datetime) -> float:
    after = datetime.datetime.now(datetime.UTC)
    return (told - (before + (after - before) / 2)).total_seconds()
