"""Names of the files of an opened profile: storage numbers them, their owner knows others."""

from collections import Counter
from dataclasses import replace

from profiles.analysis.data import ProfileData
from profiles.models import Profile


def own_names(profile: Profile | None) -> dict[str, str]:
    """{stored name: what its owner calls it} for the files of an opened profile.

    Files of one name have their number behind it.
    """
    files = list(profile.upload.files.all()) if profile and profile.upload else []
    counts = Counter(each.name for each in files)
    return {
        each.stored_name: each.name if counts[each.name] == 1 else f"{each.name} ({each.number})"
        for each in files
    }


def with_own_names(data: ProfileData, profile: Profile | None) -> ProfileData:
    """The same data; passes and files left out have the names that their owner knows."""
    names = own_names(profile)
    if not names:
        return data
    return replace(
        data,
        load_graph=lambda: data.graph,
        passes=tuple(names.get(name, name) for name in data.passes),
        left_out=tuple(
            each._replace(name=names.get(each.name, each.name)) for each in data.left_out
        ),
    )
