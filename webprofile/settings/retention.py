"""How long files are kept: RETENTION="dumps=30d failed=30d logs=180d", each kind optional."""

import re

import environ
from django.core.exceptions import ImproperlyConfigured

env = environ.Env()

KINDS = ("dumps", "caches", "failed", "files", "logs")
_RULE = re.compile(r"(\w+)=(\d{1,5})d")


def rules_of(text: str) -> dict[str, int]:
    """Days by kind; what is not named is kept for ever. Raises ImproperlyConfigured."""
    found: dict[str, int] = {}
    for word in text.replace(",", " ").split():
        rule = _RULE.fullmatch(word)
        if rule is None or rule[1] not in KINDS or rule[1] in found or int(rule[2]) < 1:
            told = ", ".join(KINDS)
            raise ImproperlyConfigured(
                f"{word!r} is no rule of RETENTION: write KIND=DAYSd, each kind once, with at "
                f"least one day. Kinds are {told}; results are kept for ever."
            )
        found[rule[1]] = int(rule[2])
    return found


RETENTION = rules_of(env.str("RETENTION", default=""))
