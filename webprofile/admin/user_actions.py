"""Admin actions on users."""

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from accounts import services
from accounts.selectors import has_second_factor
from accounts.sessions import end_user_sessions
from webprofile.admin.actions import AdminAction

USER_ACTIONS = (
    AdminAction(
        "promote",
        _("Make administrator"),
        services.promote_user,
        done=ngettext_lazy(
            "%(names)s is now an administrator.", "%(names)s are now administrators.", "count"
        ),
        unchanged=ngettext_lazy(
            "%(names)s was already an administrator.",
            "%(names)s were already administrators.",
            "count",
        ),
        warning=_("An administrator can see and change all tasks and devices."),
        fits=lambda user: user.is_active and not user.is_staff,
    ),
    AdminAction(
        "demote",
        _("Revoke administrator rights"),
        services.demote_user,
        done=ngettext_lazy(
            "%(names)s is no longer an administrator.",
            "%(names)s are no longer administrators.",
            "count",
        ),
        unchanged=ngettext_lazy(
            "%(names)s was not an administrator.", "%(names)s were not administrators.", "count"
        ),
        warning=_(
            "They keep their own tasks and granted devices. Access tokens with administrator "
            "permissions are revoked."
        ),
        of_oneself=_(
            "You are one of the selected users: you will lose access to these pages "
            "immediately, and only another administrator can restore it."
        ),
        fits=lambda user: user.is_staff,
    ),
    AdminAction(
        "end_sessions",
        _("End sessions"),
        end_user_sessions,
        done=ngettext_lazy(
            "All sessions of %(names)s have been ended.",
            "All sessions of %(names)s have been ended.",
            "count",
        ),
        unchanged=ngettext_lazy(
            "%(names)s had no sessions or access tokens.",
            "%(names)s had no sessions or access tokens.",
            "count",
        ),
        warning=_(
            "They are logged out everywhere and have to log in again, and their access tokens are "
            "revoked."
        ),
        of_oneself=_("You are one of the selected users: your current session is kept."),
        # without it the response to administrators who end their own sessions would be an error
        more=lambda request: {"keep": request.session.session_key},
    ),
    AdminAction(
        "remove_second_factor",
        _("Remove the second factor"),
        services.remove_second_factor,
        done=ngettext_lazy(
            "%(names)s now logs in with the password only.",
            "%(names)s now log in with the password only.",
            "count",
        ),
        warning=_(
            "For a user who has lost their phone, keys and codes. Verify the identity of the "
            "user first. Afterwards, the password alone is sufficient to log in. All sessions "
            "of the user are ended, and access tokens are revoked."
        ),
        of_oneself=_(
            "You are one of the selected users and are skipped: turn off your own second factor "
            "in your account."
        ),
        is_dangerous=True,
        fits=has_second_factor,
    ),
    AdminAction(
        "deactivate",
        _("Deactivate"),
        services.deactivate_user,
        done=ngettext_lazy("%(names)s was deactivated.", "%(names)s were deactivated.", "count"),
        unchanged=ngettext_lazy(
            "%(names)s was already deactivated.", "%(names)s were already deactivated.", "count"
        ),
        warning=_(
            "They are logged out everywhere and cannot log in, and their access tokens are "
            "revoked. Tasks and results are kept."
        ),
        of_oneself=_(
            "You are one of the selected users and are skipped: only another administrator can "
            "deactivate you."
        ),
        is_dangerous=True,
        fits=lambda user: user.is_active,
    ),
    AdminAction(
        "reactivate",
        _("Reactivate"),
        services.reactivate_user,
        done=ngettext_lazy("%(names)s can log in again.", "%(names)s can log in again.", "count"),
        unchanged=ngettext_lazy(
            "%(names)s was already active.", "%(names)s were already active.", "count"
        ),
        fits=lambda user: not user.is_active,
    ),
)
