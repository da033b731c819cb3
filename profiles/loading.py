"""Profiles in memory: read once from storage, kept for the next question."""

from django.conf import settings

from profiles import storage
from profiles.analysis.data import ProfileData
from profiles.analysis.merging import merge
from profiles.models import Profile
from profiles.parsers.graph_json import parse_graph
from profiles.parsers.load_and_run import parse


def profile_data(profile: Profile) -> ProfileData:
    """Return a profile's data. Raises DomainError: profile_damaged, storage_unreachable."""
    data = storage.read(
        profile.object_key("profile.json"), limit_bytes=settings.PROFILE_SIZE_LIMIT_BYTES
    )
    columns = parse(data)
    return merge([("profile.json", columns)], parse_graph(data, columns))
