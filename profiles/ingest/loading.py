"""Profiles in memory: read once from storage, kept for the next question."""

import datetime
import threading

from cachetools import LRUCache, cached
from django.conf import settings
from django.core.cache import cache

from profiles.analysis.archive import VERSION, from_archive, weight_bytes
from profiles.analysis.data import ProfileData
from profiles.formats.errors import ProfileFormatError
from profiles.models import Profile
from webprofile.background import enqueue_on_commit
from webprofile.errors import DomainError
from webprofile.storage import storage

#: archives are made by our own reader, whose memory is limited: none becomes nearly as large
_ARCHIVE_LIMIT_BYTES = 1 << 30
_CACHE_BYTES: int = settings.PROFILE_CACHE_BYTES
#: a profile is not asked for again so soon
REBUILD_PAUSE_S = 60


def profile_data(profile: Profile) -> ProfileData:
    """Return the data of a profile that has operators.

    Raises DomainError operators_none for one without, and as `run_data`.
    """
    data = run_data(profile)
    if not data.has_operators:
        raise DomainError("operators_none", status=404)
    return data


def run_data(profile: Profile) -> ProfileData:
    """Return a profile's data, which nobody may change: other readers get the same object.

    Raises DomainError: profile_outdated if its derived data are missing or of another version of
    this program, and are being made anew; profile_damaged if that failed; storage_unreachable.
    """
    return _read(profile)[0]


def _key(profile: Profile) -> tuple[int, datetime.datetime]:
    return profile.pk, profile.built_at


def _weight(read: tuple[ProfileData, int]) -> int:
    """Bytes in the cache. A profile larger than the cache fills it; a cache of 0 keeps none."""
    return max(1, min(read[1], _CACHE_BYTES))


@cached(LRUCache(_CACHE_BYTES, getsizeof=_weight), key=_key, lock=threading.Lock())
def _read(profile: Profile) -> tuple[ProfileData, int]:
    if profile.derived_version != VERSION:
        raise _outdated(profile)
    try:
        archive = storage.read(profile.derived_key, limit_bytes=_ARCHIVE_LIMIT_BYTES)
        return from_archive(archive), weight_bytes(archive)
    except ProfileFormatError as error:
        raise _outdated(profile) from error
    except DomainError as error:
        if error.code == "storage_unreachable":
            raise
        raise _outdated(profile) from error


def _outdated(profile: Profile) -> DomainError:
    """Have the data made anew by an actor, unless that failed before: parsing has no place here."""
    if profile.problem:
        return DomainError("profile_damaged", status=404)
    request_rebuild(profile.pk)
    return DomainError("profile_outdated", status=503)


def request_rebuild(profile_id: int) -> None:
    """Have derived data made again; every reader asks, once in `REBUILD_PAUSE_S` is enough."""
    if cache.add(f"profile-rebuild:{profile_id}", "asked", timeout=REBUILD_PAUSE_S):
        enqueue_on_commit("rebuild_profile", profile_id, queue="profiles")
