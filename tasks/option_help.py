"""One line of help for each option of load_and_run, in the reader's language."""

from typing import Any

from django.utils.translation import gettext_lazy as _

OPTION_HELP: dict[str, Any] = {
    "iter": _("Timed iterations. The profile holds the last one."),
    "warmup_iter": _(
        "Iterations before the timed ones; without any the first timed one is far slower."
    ),
    "cpu": _("Run on the CPU with one worker thread."),
    "cpu_default": _("Run on the CPU in the calling thread: steadier times on a busy machine."),
    "profile_host": _(
        "Ask for the profile by --profile_host; the file is the same, OpenCL builds need it."
    ),
    "verbose": _("Log in detail. The log becomes long."),
}
