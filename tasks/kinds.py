"""What a task profiles: a model, or a Python program."""

import re

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

#: what no device mistakes: as `agent.protocol.contents.FileName`
PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Kind(TextChoices):
    MODEL = "model", _("model")
    SCRIPT = "script", _("script")


def program_name(name: str) -> str:
    """What a script's program is called on the device: its own name, if that is plain.

    It is what the program finds in `sys.argv[0]`, and its user in tracebacks.
    """
    if PLAIN_NAME.fullmatch(name) and name.endswith((".py", ".zip")):
        return name
    return "script.zip" if name.lower().endswith(".zip") else "script.py"
