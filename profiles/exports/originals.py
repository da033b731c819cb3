"""The raw files of a profile, as MegEngine wrote them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from agent.protocol.artifacts import TRACE_NAMES, profile_number
from profiles.analysis.data import ProfileData
from profiles.formats.detection import FileKind
from profiles.models import Profile

#: kind by name of artifact; any other raw artifact is a profiled pass
_KINDS: dict[str, FileKind] = dict(zip(TRACE_NAMES, ("trace", "memory_flow"), strict=True))


@dataclass(frozen=True)
class Original:
    """A file of a run: number, kind, name, and key in object storage.

    number: for profiled passes of an attempt, the number of the pass
    stored_name: the name by which `ProfileData` knows the file
    """

    number: int
    kind: str
    name: str
    size_bytes: int
    key: str
    stored_name: str

    @property
    def ending(self) -> str:
        """Return the ending for downloads: `.json` for the first file, `-2.svg` for a later one."""
        suffix = PurePath(self.name).suffix.lower()
        suffix = suffix if suffix in (".json", ".svg") else ".json"
        return suffix if self.number == 1 else f"-{self.number}{suffix}"


def are_of_trace(profile: Profile, passes: Sequence[str]) -> bool:
    """Whether the operators are those of a trace. passes: as in `ProfileData`"""
    return any(
        original.kind == "trace" and original.stored_name in passes[:1]
        for original in originals_of(profile)
    )


def originals_of(profile: Profile) -> list[Original]:
    """Return the raw files of a profile, sorted by number."""
    if profile.upload is not None:
        return [
            Original(
                file.number,
                file.kind,
                file.name,
                file.size_bytes,
                file.object_key,
                file.stored_name,
            )
            for file in profile.upload.files.all()
        ]
    if profile.attempt is None:
        return []
    stored = {
        artifact.name: artifact for artifact in profile.attempt.artifacts.filter(is_stored=True)
    }
    numbers = {name: number for name in stored if (number := profile_number(name))}
    first = max(numbers.values(), default=0) + 1
    numbers |= {
        name: number
        for number, name in enumerate((name for name in TRACE_NAMES if name in stored), first)
    }
    return [
        Original(
            number,
            _KINDS.get(name, "profile"),
            name,
            stored[name].size_bytes,
            stored[name].object_key,
            name,
        )
        for name, number in sorted(numbers.items(), key=lambda item: item[1])
    ]


def original_of_kind(profile: Profile, kind: FileKind) -> Original | None:
    """Return the raw file of a kind of which a run has one; None if it was deleted."""
    return next((original for original in originals_of(profile) if original.kind == kind), None)


def own_names(profile: Profile | None) -> dict[str, str]:
    """Return {stored name: name at upload} for the files of an import.

    Files with equal names are distinguished by their numbers.
    """
    files = list(profile.upload.files.all()) if profile and profile.upload else []
    counts = Counter(file.name for file in files)
    return {
        file.stored_name: file.name if counts[file.name] == 1 else f"{file.name} ({file.number})"
        for file in files
    }


def with_own_names(data: ProfileData, profile: Profile | None) -> ProfileData:
    """Return the same data, in which passes and files left out have their names at upload."""
    names = own_names(profile)
    if not names:
        return data
    return replace(
        data,
        load_graph=lambda: data.graph,
        passes=tuple(names.get(name, name) for name in data.passes),
        left_out=tuple(
            file._replace(name=names.get(file.name, file.name)) for file in data.left_out
        ),
    )
