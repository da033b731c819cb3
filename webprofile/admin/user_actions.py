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
            "%(names)s is an administrator now.", "%(names)s are administrators now.", "count"
        ),
        unchanged=ngettext_lazy(
            "%(names)s was an administrator before.",
            "%(names)s were administrators before.",
            "count",
        ),
        warning=_("An administrator sees every task and device and may change everything."),
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
            "%(names)s was no administrator.", "%(names)s were no administrators.", "count"
        ),
        warning=_(
            "They keep their own tasks and granted devices. Access tokens with the right "
            "to administer are revoked."
        ),
        of_oneself=_(
            "You are among them: these pages close to you at once, and only another "
            "administrator can let you in again."
        ),
        fits=lambda user: user.is_staff,
    ),
    AdminAction(
        "end_sessions",
        _("End sessions"),
        end_user_sessions,
        done=ngettext_lazy("%(names)s is logged out.", "%(names)s are logged out.", "count"),
        unchanged=ngettext_lazy(
            "There was no session or access token of %(names)s to end.",
            "There were no sessions or access tokens of %(names)s to end.",
            "count",
        ),
        warning=_(
            "They are logged out everywhere and have to log in again, and their access tokens are "
            "revoked."
        ),
        of_oneself=_("You are among them: the session that you use now stays."),
        # without it the response to administrators who end their own sessions would be an error
        more=lambda request: {"keep": request.session.session_key},
    ),
    AdminAction(
        "remove_second_factor",
        _("Remove the second factor"),
        services.remove_second_factor,
        done=ngettext_lazy(
            "%(names)s logs in by the password alone now.",
            "%(names)s log in by the password alone now.",
            "count",
        ),
        warning=_(
            "For somebody who lost phone, keys and codes; be sure that it is they who ask. "
            "From then on the password alone lets in. They are logged out everywhere, and "
            "their access tokens are revoked."
        ),
        of_oneself=_(
            "You are among them, and stay as you are: your own second factor is turned off "
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
            "revoked. Tasks and results stay."
        ),
        of_oneself=_(
            "You are among them, and stay as you are: only another administrator can shut you out."
        ),
        is_dangerous=True,
        fits=lambda user: user.is_active,
    ),
    AdminAction(
        "reactivate",
        _("Reactivate"),
        services.reactivate_user,
        done=ngettext_lazy("%(names)s may log in again.", "%(names)s may log in again.", "count"),
        unchanged=ngettext_lazy(
            "%(names)s was not deactivated.", "%(names)s were not deactivated.", "count"
        ),
        fits=lambda user: not user.is_active,
    ),
)
