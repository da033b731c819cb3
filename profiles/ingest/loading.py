"""Load derived data from storage, with an in-memory LRU cache."""

import datetime
import threading

from cachetools import LRUCache, cached
from django.conf import settings
from django.utils import timezone

from profiles.analysis.archive import VERSION, from_archive, weight_bytes
from profiles.analysis.data import ProfileData
from profiles.formats.errors import ProfileFormatError
from profiles.models import Profile
from webprofile.background import enqueue_on_commit
from webprofile.errors import DomainError
from webprofile.storage import storage

#: upper bound; archives come from our own reader, whose memory limit keeps them far smaller
_ARCHIVE_LIMIT_BYTES = 1 << 30
_CACHE_BYTES: int = settings.PROFILE_CACHE_BYTES


def profile_data(profile: Profile) -> ProfileData:
    """Return the data of a profile that has operators.

    Raises DomainError operators_none if it has none, and the errors of `run_data`.
    """
    data = run_data(profile)
    if not data.has_operators:
        raise DomainError("operators_none", status=404)
    return data


def run_data(profile: Profile) -> ProfileData:
    """Return a profile's data. The object is shared through the cache and must not be modified.

    Raises DomainError: profile_outdated if the derived data are missing or of another version and a
    rebuild was requested; profile_damaged if a rebuild failed; storage_unreachable.
    """
    return _read(profile)[0]


def _key(profile: Profile) -> tuple[int, datetime.datetime]:
    return profile.pk, profile.built_at


def _weight(entry: tuple[ProfileData, int]) -> int:
    """Cache weight in bytes. A profile larger than the cache counts as the whole cache."""
    return max(1, min(entry[1], _CACHE_BYTES))


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
    """Request a rebuild by an actor, unless one failed before; a web request never parses files."""
    if profile.problem:
        return DomainError("profile_damaged", status=404)
    request_rebuild(profile.pk)
    return DomainError("profile_outdated", status=503)


def request_rebuild(profile_id: int) -> None:
    """Request a rebuild of derived data, unless it is already requested."""
    rows = Profile.objects.filter(pk=profile_id, rebuild_hinted_at=None)
    if rows.update(rebuild_hinted_at=timezone.now()):
        enqueue_on_commit("rebuild_profile", profile_id, queue="profiles")
