"""What administrators do with devices."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from profiles.health import health_ask
from webprofile.administration.acts import Act
from workers import services

#: that need nothing but the device
_ACTS = (
    Act(
        "drain",
        _("Drain"),
        services.worker_drain,
        fits=lambda worker: worker.is_enabled,
    ),
    Act(
        "resume",
        _("Resume"),
        services.worker_resume,
        fits=lambda worker: not worker.is_enabled or worker.held_at is not None,
    ),
    Act(
        "health_check",
        _("Run a health check"),
        health_ask,
        fits=lambda worker: worker.is_enabled and worker.is_online,
    ),
    Act(
        "publish",
        _("Make public"),
        services.worker_publish,
        warning=_("Every user will see this device and may send models to it."),
        fits=lambda worker: not worker.is_public,
    ),
    Act(
        "hide",
        _("Make private"),
        services.worker_hide,
        warning=_(
            "Only administrators and users to whom it was granted will see it. Tasks that wait "
            "for it or run on it stay."
        ),
        fits=lambda worker: worker.is_public,
    ),
    Act(
        "allow_scripts",
        _("Let users run scripts"),
        services.worker_allow_scripts,
        warning=_(
            "Any Python code of those who may use this device will run on it, with its processors, "
            "GPUs and memory. It runs in a sandbox: without network, in a folder of its own, with "
            "limits on time, memory, processes and disk, and without sight of the agent's token. "
            "The sandbox is no virtual machine: code that breaks the system's kernel or a GPU's "
            "driver gets out of it, and what other programs on the device leave readable for "
            "everybody can be read. Nothing starts before the device's owner allows scripts in the "
            "agent's configuration too."
        ),
        fits=lambda worker: not worker.allows_scripts,
        is_dangerous=True,
    ),
    Act(
        "forbid_scripts",
        _("Run no more scripts"),
        services.worker_forbid_scripts,
        warning=_(
            "No further script starts there; one that runs goes on until it ends or is cancelled. "
            "Scripts that wait for this device end as failed if they have waited for long; the "
            "others stay for a while, and their pages say why."
        ),
        fits=lambda worker: worker.allows_scripts,
    ),
    Act(
        "revoke",
        _("Revoke the agent's token"),
        services.worker_revoke,
        warning=_(
            "The agent is shut out at once, and unused enrolment codes are void. What it runs "
            "is lost and tried again elsewhere or later. To let it in, enrol it again."
        ),
        is_dangerous=True,
    ),
    Act(
        "retire",
        _("Retire"),
        services.worker_retire,
        warning=_(
            "The device is taken out of service for good, which cannot be undone. Its agent is "
            "shut out, tasks that wait for it alone fail, and its name is free for another "
            "device. Results and history stay."
        ),
        is_dangerous=True,
    ),
)


def hardware_acts(
    *, enrol: Callable[[HttpRequest, list[Any]], HttpResponse | None]
) -> tuple[Act, ...]:
    """enrol: shows the lines to paste, once"""
    return (Act("enrol", _("Enrol"), page=enrol), *_ACTS)
