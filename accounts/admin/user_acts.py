"""What administrators do with users."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from accounts import services
from accounts.models import User
from accounts.selectors import has_second_factor
from accounts.sessions import user_end_sessions
from webprofile.administration.acts import Act

#: what grants ask for: a view of (request, users)
Page = Callable[[HttpRequest, list[User]], HttpResponse | None]

#: that need nothing but the user
_ACTS = (
    Act(
        "promote",
        _("Make administrator"),
        services.user_promote,
        warning=_("An administrator sees every task and device and may change everything."),
        fits=lambda user: user.is_active and not user.is_staff,
    ),
    Act(
        "demote",
        _("Take administrator's rights"),
        services.user_demote,
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
    Act(
        "end_sessions",
        _("End sessions"),
        user_end_sessions,
        warning=_("They are logged out everywhere and have to log in again."),
        # without it the answer to who ends their own would be an error
        more=lambda request: {"keep": request.session.session_key},
    ),
    Act(
        "remove_second_factor",
        _("Remove the second factor"),
        services.user_remove_second_factor,
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
    Act(
        "deactivate",
        _("Shut out"),
        services.user_deactivate,
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
    Act(
        "reactivate",
        _("Let in again"),
        services.user_reactivate,
        fits=lambda user: not user.is_active,
    ),
)


def user_acts(*, grant: Page, ungrant: Page) -> tuple[Act, ...]:
    """grant, ungrant: ask for the devices that are given or taken away"""
    return (
        Act("grant_workers", _("Give private devices"), page=grant),
        Act("ungrant_workers", _("Take private devices away"), page=ungrant),
        *_ACTS,
    )
