"""How large the files of a run may be, by what they are."""

from django.conf import settings

from profiles.formats.detection import FileKind, kind_of


def size_limit(kind: FileKind) -> int:
    """Bytes; a trace is read piece by piece, so it may have more."""
    if kind == "trace":
        return int(settings.TRACE_SIZE_LIMIT_BYTES)
    return int(settings.PROFILE_SIZE_LIMIT_BYTES)


def announced_limit(head: bytes) -> int:
    """Bytes, of a file with these first bytes; without any it may be of each kind."""
    return size_limit(kind_of(head)) if head else most_bytes()


def most_bytes() -> int:
    """Of a file of whatever kind."""
    return max(size_limit("profile"), size_limit("trace"))
