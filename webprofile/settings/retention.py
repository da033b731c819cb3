"""Retention of files: RETENTION="dumps=30d failed=30d logs=180d", each kind optional."""

import re

import environ
from django.core.exceptions import ImproperlyConfigured

env = environ.Env()

KINDS = ("dumps", "caches", "failed", "files", "logs")
_RULE = re.compile(r"(\w+)=(\d{1,5})d")


def rules_of(text: str) -> dict[str, int]:
    """Parse RETENTION into days by kind; other kinds are kept for ever.

    Raises ImproperlyConfigured.
    """
    rules: dict[str, int] = {}
    for word in text.replace(",", " ").split():
        rule = _RULE.fullmatch(word)
        if rule is None or rule[1] not in KINDS or rule[1] in rules or int(rule[2]) < 1:
            kinds = ", ".join(KINDS)
            raise ImproperlyConfigured(
                f"{word!r} is no rule of RETENTION: write KIND=DAYSd, each kind once, with at "
                f"least one day. Kinds are {kinds}; results are kept for ever."
            )
        rules[rule[1]] = int(rule[2])
    return rules


RETENTION = rules_of(env.str("RETENTION", default=""))
