"""Admin actions on devices."""

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from profiles.health import request_health_checks
from tasks.scheduling.eligibility import starts_checks
from webprofile.admin.actions import AdminAction
from workers import services

HEALTH_CHECK = AdminAction(
    "health_check",
    _("Run a health check"),
    request_health_checks,
    done=ngettext_lazy(
        "Health check requested: %(names)s. It runs when the device is idle.",
        "Health checks requested: %(names)s. Each runs when its device is idle.",
        "count",
    ),
    fits=starts_checks,
)
WORKER_ACTIONS = (
    AdminAction(
        "drain",
        _("Drain"),
        services.drain_worker,
        done=ngettext_lazy(
            "%(names)s is drained: it gets no new tasks, and what runs there goes on.",
            "%(names)s are drained: they get no new tasks, and what runs there goes on.",
            "count",
        ),
        unchanged=ngettext_lazy(
            "%(names)s was drained before.", "%(names)s were drained before.", "count"
        ),
        fits=lambda worker: worker.is_enabled,
    ),
    AdminAction(
        "resume",
        _("Resume"),
        services.resume_worker,
        done=ngettext_lazy("%(names)s gets tasks again.", "%(names)s get tasks again.", "count"),
        unchanged=ngettext_lazy(
            "%(names)s was in service before.", "%(names)s were in service before.", "count"
        ),
        fits=lambda worker: not worker.is_enabled or worker.held_at is not None,
    ),
    HEALTH_CHECK,
    AdminAction(
        "publish",
        _("Make public"),
        services.publish_worker,
        done=ngettext_lazy(
            "%(names)s is public: every user may choose it.",
            "%(names)s are public: every user may choose them.",
            "count",
        ),
        unchanged=ngettext_lazy(
            "%(names)s was public before.", "%(names)s were public before.", "count"
        ),
        warning=_("Every user will see this device and may send models to it."),
        fits=lambda worker: not worker.is_public,
    ),
    AdminAction(
        "hide",
        _("Make private"),
        services.hide_worker,
        done=ngettext_lazy(
            "%(names)s is private: only those may choose it to whom it is granted.",
            "%(names)s are private: only those may choose them to whom they are granted.",
            "count",
        ),
        unchanged=ngettext_lazy(
            "%(names)s was private before.", "%(names)s were private before.", "count"
        ),
        warning=_(
            "Only administrators and users to whom it was granted will see it. Tasks that wait "
            "for it or run on it stay."
        ),
        fits=lambda worker: worker.is_public,
    ),
    AdminAction(
        "allow_scripts",
        _("Let users run scripts"),
        services.allow_worker_scripts,
        done=ngettext_lazy(
            "%(names)s may run scripts, as soon as its agent's configuration allows them too.",
            "%(names)s may run scripts, as soon as their agents' configurations allow them too.",
            "count",
        ),
        unchanged=ngettext_lazy(
            "%(names)s was allowed to run scripts before.",
            "%(names)s were allowed to run scripts before.",
            "count",
        ),
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
    AdminAction(
        "forbid_scripts",
        _("Run no more scripts"),
        services.forbid_worker_scripts,
        done=ngettext_lazy(
            "%(names)s starts no more scripts.", "%(names)s start no more scripts.", "count"
        ),
        unchanged=ngettext_lazy(
            "%(names)s was not allowed to run scripts.",
            "%(names)s were not allowed to run scripts.",
            "count",
        ),
        warning=_(
            "No further script starts there; one that runs goes on until it ends or is cancelled. "
            "Scripts that wait for this device end as failed if they have waited for long; the "
            "others stay for a while, and their pages say why."
        ),
        fits=lambda worker: worker.allows_scripts,
    ),
    AdminAction(
        "revoke",
        _("Revoke the agent's token"),
        services.revoke_worker,
        done=ngettext_lazy(
            "The agent of %(names)s is shut out until it is enrolled again.",
            "The agents of %(names)s are shut out until they are enrolled again.",
            "count",
        ),
        unchanged=ngettext_lazy(
            "The agent of %(names)s was shut out before.",
            "The agents of %(names)s were shut out before.",
            "count",
        ),
        warning=_(
            "The agent is shut out at once, and unused enrolment codes are void. What it runs "
            "is lost and tried again elsewhere or later. To let it in, enrol it again."
        ),
        is_dangerous=True,
        is_final=True,
    ),
    AdminAction(
        "retire",
        _("Retire"),
        services.retire_worker,
        done=ngettext_lazy(
            "%(names)s is out of service for good.",
            "%(names)s are out of service for good.",
            "count",
        ),
        unchanged=ngettext_lazy(
            "%(names)s was retired before.", "%(names)s were retired before.", "count"
        ),
        warning=_(
            "The device is taken out of service for good, which cannot be undone. Its agent is "
            "shut out, tasks that wait for it alone fail, and its name is free for another "
            "device. Results and history stay."
        ),
        is_dangerous=True,
        is_final=True,
    ),
)
