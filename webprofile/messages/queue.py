"""User-facing messages for error codes of targets, quotas and the queue."""

from typing import Any

from django.utils.translation import gettext_lazy as _

QUEUE: dict[str, Any] = {
    "worker_held": _(
        "%(worker)s is held back, because it failed its last health check (%(reason)s). Choose "
        "another device, or ask an administrator to look at this one."
    ),
    "worker_retired": _(
        "%(worker)s was taken out of service for good. Choose another device; an administrator can "
        "register a new one."
    ),
    "worker_shut_out": _(
        "%(worker)s is shut out: its token was revoked, and it takes no tasks until it is enrolled "
        "again. Choose another device."
    ),
    "quota_reached": _(
        "%(live)s of your tasks have not ended, and %(limit)s is the most at once. Cancel some, "
        "wait until some have finished, or ask an administrator to raise your limit."
    ),
    "priority_bad": _("The priority is a whole number from %(low)s to %(high)s."),
    "time_limit": _(
        "The time limit is a whole number of seconds, at most %(limit)s for all passes of this "
        "plan. Leave it empty or enter 0 for the maximum."
    ),
    "time_limit_of_script": _("The time limit of a script is given with the script's own fields."),
    "title_bad": _("A title is one line of at most %(limit)s characters."),
    "not_waiting": _("The task waits no more, so this cannot be changed. Reload the page."),
    "not_ended": _(
        "The task has not ended yet. Repeat it when it has, or ask for the same in a new task."
    ),
    "removed_by_rule": _(
        "“%(name)s” was removed by a rule of this site on %(date)s: such files are kept for "
        "%(days)s days."
    ),
    "task_gone": _("The task does not exist any more: it was deleted."),
    "task_unknown": _("There is no such task of yours."),
    "run_over": _("The run had ended already."),
    "repeated_just_now": _("It was repeated a moment ago, as #%(task)s."),
    "no_ids": _("Choose at least one task."),
    "too_many_ids": _("At most %(limit)s tasks can be cancelled at once. Choose fewer."),
    "target_and_worker": _(
        "Ask either for one device and its version, or for any device that matches, not for both."
    ),
    "target_bad": _("A target has labels (name and value), a pool and versions, nothing else."),
    "target_label_bad": _(
        "A label is a name and a value, each of 1 to %(limit)s characters: chip=Kirin 990."
    ),
    "target_labels_many": _("At most %(limit)s labels can be asked for at once."),
    "target_versions_bad": _(
        "“%(versions)s” is no range of versions. Write for example >=1.12,<1.14 or ==1.13.*"
    ),
    "target_no_device": _(
        "There is no device that you may use. Ask an administrator to grant you one."
    ),
    "target_label_unknown": _(
        "No device you may use has a label %(label)s. Labels that there are: %(labels)s."
    ),
    "target_label_unmet": _(
        "No device you may use has the label %(label)s=%(value)s. Devices with this label: "
        "%(devices)s."
    ),
    "target_labels_together": _(
        "Each of these labels is to be had, but no device you may use has all of them: %(labels)s. "
        "Leave one out."
    ),
    "target_pool_unknown": _(
        "There is no pool %(pool)s with a device that you may use. Pools that there are: %(pools)s."
    ),
    "target_pool_unmet": _(
        "No device in the pool %(pool)s has these labels. Devices outside of it that have them: "
        "%(devices)s."
    ),
    "target_versions_unmet": _(
        "No device that matches has a MegEngine %(versions)s. What they have: %(devices)s."
    ),
    "target_away": _(
        "No device that matches takes tasks at the moment: %(devices)s. Ask for less, or wait "
        "until one is back."
    ),
}
