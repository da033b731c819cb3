"""The reader's words for what rules remove."""

from typing import Any

from django.conf import settings
from django.utils.translation import gettext_lazy as _

_KINDS: dict[str, Any] = {
    "dumps": _("values, dumps and models that runs wrote"),
    "caches": _("caches of algorithms"),
    "failed": _("profiles and traces of attempts that became no result"),
    "files": _("models and data that were uploaded"),
    "logs": _("the log on this page"),
}


def rules_shown() -> list[tuple[str, int]]:
    """What is removed some days after a task's end, and after how many."""
    return [(str(_KINDS[name]), days) for name, days in settings.RETENTION.items()]
