"""Mail to users about what others did with their accounts."""

from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail import send_mail
from django.db import transaction
from django.template.loader import render_to_string
from django.utils import translation
from django.utils.translation import gettext

from accounts.models import User


def second_factor_removed(user: User) -> None:
    """Mail the user when the transaction is done, if the site has a mail server.

    Without one, or if it does not answer, the change stands: the audit log has it.
    """
    if settings.ACCOUNT_EMAIL_NOTIFICATIONS:
        transaction.on_commit(lambda: _mail_second_factor_removed(user), robust=True)


def _mail_second_factor_removed(user: User) -> None:
    domain = urlsplit(settings.SITE_URL).netloc
    # in the language of its reader, not of the administrator
    with translation.override(user.language or settings.LANGUAGE_CODE):
        subject = gettext("Your second factor was removed")
        text = render_to_string(
            "account/email/second_factor_removed_message.txt",
            {"current_site": {"domain": domain}, "email": user.email},
        )
    send_mail(f"[{domain}] {subject}", text.strip(), None, [user.email])
