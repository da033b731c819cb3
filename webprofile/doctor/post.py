"""Mail: a server that takes letters from this site."""

import smtplib

from django.conf import settings
from django.core.mail.backends.smtp import EmailBackend

from webprofile.doctor.finding import Finding, broken, good, odd, reason
from webprofile.doctor.patience import patience_s

STEP = "Start the mail server, or correct EMAIL_URL."


def mail() -> Finding:
    """Greet, encrypt and log in as for a letter, name the sender; send nothing."""
    if not settings.HAS_MAIL_SERVER:
        text = "Letters go nowhere: no confirmation of addresses, no new passwords by mail."
        return odd(text, "Set EMAIL_URL to a mail server: smtp+tls://user:password@host:587")
    server = EmailBackend(timeout=max(1, round(patience_s())))
    try:
        server.open()
        assert server.connection is not None  # what open() is for
        code, answer = server.connection.mail(settings.DEFAULT_FROM_EMAIL)
    except smtplib.SMTPAuthenticationError as error:
        return broken(f"The login was refused ({error.smtp_code}).", "Correct EMAIL_URL's login.")
    except smtplib.SMTPNotSupportedError as error:
        step = "Use smtp:// for a server without encryption, smtp+tls:// or smtp+ssl:// with it."
        return broken(reason(error), step)
    finally:
        server.close()
    if code != 250:
        text = f"The server takes no letters from {settings.DEFAULT_FROM_EMAIL} ({code})."
        said = answer.decode(errors="replace").splitlines()[0][:100] if answer else ""
        return broken(f"{text} {said}".strip(), "Set DEFAULT_FROM_EMAIL to an address of yours.")
    where = f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT}"
    return good(f"{where} takes letters from {settings.DEFAULT_FROM_EMAIL}.")
