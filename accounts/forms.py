"""allauth's forms where the site has something of its own to say."""

from typing import Any

from allauth.account.forms import LoginForm as AllauthLoginForm
from django.conf import settings
from django.utils.translation import gettext_lazy as _


class LoginForm(AllauthLoginForm):
    """Offers a reset by mail only where mail goes anywhere."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not settings.HAS_MAIL_SERVER:
            self.fields["password"].help_text = _("Forgotten? Ask an administrator for a new one.")
