"""Names of the files of an opened profile: storage numbers them, their owner knows others."""

from dataclasses import replace

from profiles.analysis.data import ProfileData
from profiles.models import Profile


def own_names(profile: Profile | None) -> dict[str, str]:
    """{stored name: what its owner calls it} for the files of an opened profile."""
    upload = profile.upload if profile else None
    return {each.stored_name: each.name for each in upload.files.all()} if upload else {}


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
