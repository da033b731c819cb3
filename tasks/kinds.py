"""What a task profiles: a model, or a Python program."""

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class Kind(TextChoices):
    MODEL = "model", _("model")
    SCRIPT = "script", _("script")


def program_name(name: str) -> str:
    """What a script's program is called on the device: what it is tells its suffix."""
    return "script.zip" if name.lower().endswith(".zip") else "script.py"
