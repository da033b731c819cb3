"""Read secrets from the environment at start; a missing one is an error."""

import os
import re
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured


def secret(name: str, default: str | None = None) -> str:
    """Return the secret `name` from the environment or from the file that `NAME_FILE` names.

    Read with plain os.environ: django-environ takes a value that starts with `$` for another
    variable's name. Raises ImproperlyConfigured if neither is set and there is no default.
    """
    if file := os.environ.get(f"{name}_FILE"):
        return Path(file).read_text(encoding="utf-8").strip()
    value = os.environ.get(name, default)
    if value is None:
        raise ImproperlyConfigured(f"Set {name} or {name}_FILE in the environment.")
    return value


def secrets(name: str) -> list[str]:
    """Return a list of secrets, separated by newlines or commas; empty if it is not set."""
    return [value.strip() for value in re.split(r"[\n,]", secret(name, "")) if value.strip()]
