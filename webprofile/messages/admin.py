"""User-facing messages for error codes of administration."""

from typing import Any

from django.utils.translation import gettext_lazy as _

ADMINISTRATION: dict[str, Any] = {
    # users
    "not_administrator": _("Only an administrator may do this, and you are none any more."),
    "last_administrator": _(
        "%(user)s is the last administrator. Make somebody else an administrator first."
    ),
    "user_is_oneself": _("You cannot shut yourself out. Ask another administrator."),
    "second_factor_none": _("%(user)s has no second factor."),
    "second_factor_own": _(
        "You turn off your own second factor in your account, where the password is asked for. If "
        "you lost it, ask another administrator."
    ),
    "user_inactive": _("%(user)s is not active. Let them in again first."),
    "email_bad": _("This is no e-mail address. Write it like name@example.org."),
    "email_taken": _("There is a user with this e-mail already."),
    "password_weak": _("%(problems)s"),
    "session_unknown": _("This session has ended already."),
    # grants
    "users_unknown": _("There are no such users: %(names)s. Nothing was changed."),
    "users_inactive": _("These users are not active: %(names)s. Nothing was changed."),
    "workers_unknown": _("There are no such devices: %(names)s. Nothing was changed."),
    "workers_retired": _("These devices are retired: %(names)s. Nothing was changed."),
    # devices
    "worker_name_bad": _(
        "A device's name has 1 to 60 letters, digits, dots, dashes and underscores."
    ),
    "worker_name_taken": _("There is a device called %(name)s already. Choose another name."),
    "label_bad": _(
        "“%(label)s” is no label: names have letters, digits, dots, dashes and underscores, and "
        "values are not empty."
    ),
    "label_long": _("Names and values of labels have at most %(limit)s characters."),
    "labels_many": _("A device has at most %(limit)s labels."),
    "slots_bad": _("A device has 1 to 16 slots."),
    "pools_unknown": _("There are no such pools: %(names)s. Nothing was changed."),
}
