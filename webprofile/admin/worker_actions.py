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
            "%(names)s is drained: it gets no new tasks; running tasks continue.",
            "%(names)s are drained: they get no new tasks; running tasks continue.",
            "count",
        ),
        unchanged=ngettext_lazy(
            "%(names)s was already drained.", "%(names)s were already drained.", "count"
        ),
        fits=lambda worker: worker.is_enabled,
    ),
    AdminAction(
        "resume",
        _("Resume"),
        services.resume_worker,
        done=ngettext_lazy(
            "%(names)s accepts tasks again.", "%(names)s accept tasks again.", "count"
        ),
        unchanged=ngettext_lazy(
            "%(names)s was already in service.", "%(names)s were already in service.", "count"
        ),
        fits=lambda worker: not worker.is_enabled or worker.held_at is not None,
    ),
    HEALTH_CHECK,
    AdminAction(
        "publish",
        _("Make public"),
        services.publish_worker,
        done=ngettext_lazy(
            "%(names)s is public: all users can use it.",
            "%(names)s are public: all users can use them.",
            "count",
        ),
        unchanged=ngettext_lazy(
            "%(names)s was already public.", "%(names)s were already public.", "count"
        ),
        warning=_("All users will see this device and can run models on it."),
        fits=lambda worker: not worker.is_public,
    ),
    AdminAction(
        "hide",
        _("Make private"),
        services.hide_worker,
        done=ngettext_lazy(
            "%(names)s is private: only users with a grant can use it.",
            "%(names)s are private: only users with a grant can use them.",
            "count",
        ),
        unchanged=ngettext_lazy(
            "%(names)s was already private.", "%(names)s were already private.", "count"
        ),
        warning=_(
            "Only administrators and users with a grant will see it. Tasks that wait for it or "
            "run on it are kept."
        ),
        fits=lambda worker: worker.is_public,
    ),
    AdminAction(
        "allow_scripts",
        _("Let users run scripts"),
        services.allow_worker_scripts,
        done=ngettext_lazy(
            "%(names)s can run scripts, if the configuration of its agent allows them too.",
            "%(names)s can run scripts, if the configurations of their agents allow them too.",
            "count",
        ),
        unchanged=ngettext_lazy(
            "%(names)s was already allowed to run scripts.",
            "%(names)s were already allowed to run scripts.",
            "count",
        ),
        warning=_(
            "Allows users of this device to run any Python code on it, with its processors, GPUs "
            "and memory. Code runs in a sandbox: without network, in a separate folder, with "
            "limits on time, memory, processes and disk, and without access to the agent’s token. "
            "The sandbox is not a virtual machine: code that exploits the kernel or a GPU driver "
            "can escape, and files that other programs leave world-readable can be read. Scripts "
            "start only if the device’s owner also allows them in the agent’s configuration."
        ),
        fits=lambda worker: not worker.allows_scripts,
        is_dangerous=True,
    ),
    AdminAction(
        "forbid_scripts",
        _("Forbid scripts"),
        services.forbid_worker_scripts,
        done=ngettext_lazy(
            "%(names)s starts no more scripts.", "%(names)s start no more scripts.", "count"
        ),
        unchanged=ngettext_lazy(
            "Scripts were already forbidden on %(names)s.",
            "Scripts were already forbidden on %(names)s.",
            "count",
        ),
        warning=_(
            "No more scripts start on the device; a running script continues until it ends or "
            "is cancelled. Scripts that have waited for this device for a long time fail; the "
            "others keep waiting for a while, and their pages give the reason."
        ),
        fits=lambda worker: worker.allows_scripts,
    ),
    AdminAction(
        "revoke",
        _("Revoke the agent’s token"),
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
            "Disconnects the agent immediately and invalidates unused enrolment codes. Tasks "
            "that are running on the device are interrupted, and retried on other devices or "
            "later. To reconnect the device, enrol it again."
        ),
        is_dangerous=True,
        is_final=True,
    ),
    AdminAction(
        "retire",
        _("Retire"),
        services.retire_worker,
        done=ngettext_lazy(
            "%(names)s has been retired.",
            "%(names)s have been retired.",
            "count",
        ),
        unchanged=ngettext_lazy(
            "%(names)s was already retired.", "%(names)s were already retired.", "count"
        ),
        warning=_(
            "Retires the device, which cannot be undone. Its token is revoked, tasks that wait for "
            "this device only will fail, and its name can be used for another device. Results and "
            "history are kept."
        ),
        is_dangerous=True,
        is_final=True,
    ),
)
