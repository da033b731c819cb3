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
            "Allows users of this device to run any Python code on it, with its processors, GPUs "
            "and memory. Code runs in a sandbox: without network, in a separate folder, with "
            "limits on time, memory, processes and disk, and without access to the agent’s "
            "token. The sandbox is not a virtual machine: code that exploits the kernel or a GPU "
            "driver can escape, and files that other programs leave world-readable can be read. "
            "Scripts only start when the device’s owner allows them in the agent’s "
            "configuration, too."
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
            "The token of %(names)s was revoked; enrol the device again to reconnect it.",
            "The tokens of %(names)s were revoked; enrol the devices again to reconnect them.",
            "count",
        ),
        unchanged=ngettext_lazy(
            "The token of %(names)s was already revoked.",
            "The tokens of %(names)s were already revoked.",
            "count",
        ),
        warning=_(
            "Disconnects the agent immediately and voids unused enrolment codes. Its running "
            "tasks are lost and retried elsewhere or later. To reconnect it, enrol it again."
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
            "Retires the device, which cannot be undone. Its token is revoked, tasks that wait "
            "for this device only fail, and its name becomes available. Results and history are "
            "kept."
        ),
        is_dangerous=True,
        is_final=True,
    ),
)
