"""The two kinds of tasks: profiling a model, and profiling a Python script."""

import re

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

#: file names that are safe on every device, as in `agent.protocol.message_parts.FileName`
PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class TaskKind(TextChoices):
    MODEL = "model", _("model")
    SCRIPT = "script", _("script")


def program_name(name: str) -> str:
    """Return the file name of a script on the device: the uploaded name if it is safe.

    The program sees it as `sys.argv[0]`, and it appears in tracebacks.
    """
    if PLAIN_NAME.fullmatch(name) and name.endswith((".py", ".zip")):
        return name
    return "script.zip" if name.lower().endswith(".zip") else "script.py"
