"""System checks of the settings, each with a cause and a suggested fix (`manage.py check`)."""

import importlib.util
import itertools
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register

from agent.protocol.pairs import BUDGET_S
from webprofile.observability import trace_context
from webprofile.origins import origin_of
from webprofile.settings.environment import AMQP

#: first SQLite with `UPDATE ... RETURNING` (`tasks.lifecycle.transitions`): https://sqlite.org/lang_returning.html
RETURNING_SINCE = (3, 35)
_HERE = {"localhost", "127.0.0.1", "::1"}


@register(Tags.security)
def check_settings(**kwargs: Any) -> list[CheckMessage]:
    groups = [_database(), _storage(), _broker(), _mail(), _times(), _viewer(), _tracing()]
    return list(itertools.chain.from_iterable(groups))


@register(Tags.security, deploy=True)
def check_production(**kwargs: Any) -> list[CheckMessage]:
    """Check settings that only a public site needs (`check --deploy`)."""
    return [*_one_machine(), *_plain_http()]


def _database() -> Iterator[CheckMessage]:
    is_sqlite = settings.DATABASES["default"]["ENGINE"].endswith("sqlite3")
    if is_sqlite and sqlite3.sqlite_version_info < RETURNING_SINCE:
        yield Error(
            f"SQLite {sqlite3.sqlite_version} is too old to run tasks.",
            hint="Use a Python with SQLite 3.35 or newer, or set DATABASE_URL to PostgreSQL.",
            id="webprofile.E015",
        )


def _storage() -> Iterator[CheckMessage]:
    if bool(settings.S3_ACCESS_KEY_ID) != bool(settings.S3_SECRET_ACCESS_KEY):
        yield Error(
            "Only one of the two keys of object storage is set, so files cannot be uploaded.",
            hint="Set S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY, or S3_ACCESS_KEY_ID_FILE and"
            " S3_SECRET_ACCESS_KEY_FILE. If the machine has a role, set none of them.",
            id="webprofile.E001",
        )
    elif not settings.S3_ACCESS_KEY_ID and settings.S3_ENDPOINT_URL:
        yield Warning(
            "No keys of object storage are set: boto3 will look for a role, which only AWS has.",
            hint="Set S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY.",
            id="webprofile.W002",
        )
    if settings.S3_ADDRESSING not in {"path", "virtual"}:
        yield Error(
            f"S3_ADDRESSING must be path or virtual, not {settings.S3_ADDRESSING!r}.",
            hint="Set path for SeaweedFS and MinIO, virtual for AWS.",
            id="webprofile.E006",
        )
    if settings.S3_ENCRYPTION not in {"", "AES256", "aws:kms", "aws:kms:dsse"}:
        yield Error(
            f"S3_ENCRYPTION has an unknown method: {settings.S3_ENCRYPTION!r}.",
            hint="Set aws:kms or AES256, or leave it empty to use the default of the bucket.",
            id="webprofile.E007",
        )
    elif settings.S3_KMS_KEY_ID and not settings.S3_ENCRYPTION.startswith("aws:kms"):
        yield Error(
            "S3_KMS_KEY_ID is set, but S3_ENCRYPTION does not use KMS.",
            hint="Set S3_ENCRYPTION=aws:kms, or leave S3_KMS_KEY_ID empty.",
            id="webprofile.E008",
        )
    if _stored_as_the_sites_own():
        yield Error(
            "Object storage has the same origin as the site: users' files could act as pages.",
            hint="Use another host or port for storage, and set S3_PUBLIC_ENDPOINT_URL to it.",
            id="webprofile.E014",
        )
    if settings.S3_CA_BUNDLE and not Path(settings.S3_CA_BUNDLE).is_file():
        yield Error(
            f"S3_CA_BUNDLE is not a file: {settings.S3_CA_BUNDLE}.",
            hint="Set it to a file of CA certificates that this process can read.",
            id="webprofile.E009",
        )


def _stored_as_the_sites_own() -> bool:
    """Return whether storage shares an origin with the site; virtual hosts of buckets never do."""
    if settings.S3_ADDRESSING == "virtual":
        return False
    own = {settings.SITE_URL, settings.NETRON_ORIGIN, *settings.CSRF_TRUSTED_ORIGINS} - {""}
    return origin_of(settings.S3_PUBLIC_ENDPOINT_URL) in {origin_of(url) for url in own}


def _broker() -> Iterator[CheckMessage]:
    scheme = urlsplit(settings.BROKER_URL).scheme
    if scheme in AMQP and importlib.util.find_spec("pika") is None:
        yield Error(
            "BROKER_URL is an address of RabbitMQ, but the package pika is not installed.",
            hint="Install requirements/production.txt, or set BROKER_URL to Redis.",
            id="webprofile.E010",
        )
    elif scheme not in {*AMQP, "redis", "rediss", "unix"}:
        yield Error(
            f"BROKER_URL has an unsupported scheme: {scheme or 'none'}.",
            hint="Use redis://, rediss://, unix://, amqp:// or amqps://.",
            id="webprofile.E011",
        )


def _one_machine() -> Iterator[CheckMessage]:
    if settings.DATABASES["default"]["ENGINE"].endswith("sqlite3"):
        yield Warning(
            "The database is SQLite, which supports one machine and one writer at a time.",
            hint="Set DATABASE_URL=postgres://user:password@host/name.",
            id="webprofile.W003",
        )
    if not settings.HAS_MAIL_SERVER:
        yield Warning(
            "No mail server is set: users cannot confirm an e-mail address or reset a password.",
            hint="Set EMAIL_URL to a mail server: smtp+tls://user:password@host:587",
            id="webprofile.W004",
        )
    host = urlsplit(settings.S3_PUBLIC_ENDPOINT_URL).hostname
    if host in _HERE and urlsplit(settings.SITE_URL).hostname not in _HERE:
        yield Error(
            f"S3_PUBLIC_ENDPOINT_URL has the host {host}, on which browsers and devices would"
            " reach their own machine.",
            hint="Set S3_PUBLIC_ENDPOINT_URL to the address at which they reach the storage.",
            id="webprofile.E012",
        )


def _plain_http() -> Iterator[CheckMessage]:
    if urlsplit(settings.SITE_URL).scheme != "https":
        yield Warning(
            "SITE_URL is plain HTTP: passwords and tokens of devices are sent unencrypted.",
            hint="Use a proxy with TLS and set SITE_URL=https://...",
            id="webprofile.W005",
        )
    elif urlsplit(settings.S3_PUBLIC_ENDPOINT_URL).scheme == "http":
        yield Error(
            "The site is HTTPS, but object storage is plain HTTP, so browsers block uploads.",
            hint="Serve the storage over HTTPS too, and set S3_PUBLIC_ENDPOINT_URL=https://...",
            id="webprofile.E013",
        )


def _mail() -> Iterator[CheckMessage]:
    if settings.ACCOUNT_EMAIL_VERIFICATION == "mandatory" and not settings.HAS_MAIL_SERVER:
        yield Warning(
            "Users must verify their e-mail address, but no mail server is set to send the link.",
            hint="Set EMAIL_URL to a mail server, or ACCOUNT_EMAIL_VERIFICATION to none.",
            id="webprofile.W001",
        )


def _viewer() -> Iterator[CheckMessage]:
    origin = settings.NETRON_ORIGIN
    if not origin:
        return
    if urlsplit(origin).scheme not in {"http", "https"} or origin_of(origin) != origin:
        yield Error(
            f"NETRON_ORIGIN is not an origin: {origin!r}.",
            hint="Set it to a scheme and a host without a path: https://viewer.example.org",
            id="webprofile.E003",
        )
    elif urlsplit(origin).hostname == urlsplit(settings.SITE_URL).hostname:
        yield Error(
            "NETRON_ORIGIN has the same host as SITE_URL, so browsers send it the same cookies.",
            hint="Use another host for the viewer, or leave NETRON_ORIGIN empty.",
            id="webprofile.E004",
        )
    elif urlsplit(settings.SITE_URL).scheme == "https" and not origin.startswith("https:"):
        yield Error(
            "NETRON_ORIGIN is plain HTTP, but the site is HTTPS, so browsers block the viewer.",
            hint="Serve the viewer's host over HTTPS too, and set NETRON_ORIGIN=https://...",
            id="webprofile.E005",
        )


def _tracing() -> Iterator[CheckMessage]:
    if settings.TRACING and not trace_context.is_installed():
        yield Warning(
            "Traces are enabled (OTEL_EXPORTER_OTLP_ENDPOINT), but OpenTelemetry is not installed.",
            hint="Install requirements/tracing.txt, or set OTEL_SDK_DISABLED=true.",
            id="webprofile.W006",
        )


def _times() -> Iterator[CheckMessage]:
    if settings.LEASE_S < 3 * settings.HEARTBEAT_S:
        yield Error(
            "LEASE_S is less than 3 * HEARTBEAT_S: one lost heartbeat would end running attempts.",
            hint="Raise LEASE_S or lower HEARTBEAT_S.",
            id="webprofile.E002",
        )
    shortest_s, longest_s = BUDGET_S
    if settings.AA_RUN_S and not shortest_s <= settings.AA_RUN_S <= longest_s:
        yield Error(
            f"AA_RUN_S is not a valid measuring time: {settings.AA_RUN_S} s.",
            hint=f"Set a value from {shortest_s} to {longest_s}, or 0 to disable A/A runs.",
            id="webprofile.E016",
        )
