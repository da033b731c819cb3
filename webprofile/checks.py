"""Settings that do not go together, each with the cause and the next step (`manage.py check`)."""

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register


@register(Tags.security)
def check_settings(**kwargs: Any) -> list[CheckMessage]:
    return [*_storage(), *_mail(), *_times()]


def _storage() -> Iterator[CheckMessage]:
    if not settings.S3_ACCESS_KEY_ID or not settings.S3_SECRET_ACCESS_KEY:
        yield Error(
            "Object storage has no keys: no file could be uploaded.",
            hint="Set S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY, or the files S3_..._FILE name.",
            id="webprofile.E001",
        )


def _mail() -> Iterator[CheckMessage]:
    if settings.ACCOUNT_EMAIL_VERIFICATION == "mandatory" and not settings.HAS_MAIL_SERVER:
        yield Warning(
            "E-mail addresses must be verified, but mail goes nowhere: nobody could register.",
            hint="Set EMAIL_URL to a mail server, or ACCOUNT_EMAIL_VERIFICATION to none.",
            id="webprofile.W001",
        )


def _times() -> Iterator[CheckMessage]:
    if settings.LEASE_S < 3 * settings.HEARTBEAT_S:
        yield Error(
            "LEASE_S is under three heartbeats: a single lost one would end running attempts.",
            hint="Raise LEASE_S or lower HEARTBEAT_S.",
            id="webprofile.E002",
        )
