"""Size limits of the files of a run, by kind, from the settings."""

from django.conf import settings

from profiles.formats.detection import FileKind, kind_of


def size_limit(kind: FileKind) -> int:
    """Return the limit of a kind of file, bytes; higher for traces, which are read in pieces."""
    if kind == "trace":
        return int(settings.TRACE_SIZE_LIMIT_BYTES)
    return int(settings.PROFILE_SIZE_LIMIT_BYTES)


def announced_limit(head: bytes) -> int:
    """Return the limit of a file with these first bytes, bytes; the highest one without any."""
    return size_limit(kind_of(head)) if head else most_bytes()


def most_bytes() -> int:
    """Return the highest limit of all kinds, bytes."""
    return max(size_limit("profile"), size_limit("trace"))
