"""Settings that do not go together, each with the cause and the next step (`manage.py check`)."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register

from webprofile.origins import origin_of


@register(Tags.security)
def check_settings(**kwargs: Any) -> list[CheckMessage]:
    return [*_storage(), *_mail(), *_times(), *_viewer()]


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


def _viewer() -> Iterator[CheckMessage]:
    origin = settings.NETRON_ORIGIN
    if not origin:
        return
    if urlsplit(origin).scheme not in {"http", "https"} or origin_of(origin) != origin:
        yield Error(
            f"NETRON_ORIGIN is no origin: {origin!r}.",
            hint="Write scheme and host, without a path: https://viewer.example.org",
            id="webprofile.E003",
        )
    elif urlsplit(origin).hostname == urlsplit(settings.SITE_URL).hostname:
        yield Error(
            "NETRON_ORIGIN is on the host of SITE_URL, so browsers send it the same cookies.",
            hint="Give the viewer a host of its own, or leave NETRON_ORIGIN empty.",
            id="webprofile.E004",
        )
    elif urlsplit(settings.SITE_URL).scheme == "https" and not origin.startswith("https:"):
        yield Error(
            "NETRON_ORIGIN is plain HTTP on a site of HTTPS: browsers refuse such a frame.",
            hint="Serve the viewer's host by HTTPS too.",
            id="webprofile.E005",
        )


def _times() -> Iterator[CheckMessage]:
    if settings.LEASE_S < 3 * settings.HEARTBEAT_S:
        yield Error(
            "LEASE_S is under three heartbeats: a single lost one would end running attempts.",
            hint="Raise LEASE_S or lower HEARTBEAT_S.",
            id="webprofile.E002",
        )
