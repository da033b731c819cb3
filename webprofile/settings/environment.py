"""Read settings from the environment: secrets, addresses, retention rules, identity providers."""

import ipaddress
import json
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

SOCKET_TIMEOUT_S = 10
CONNECT_TIMEOUT_S = 5
#: interval of pings with which a connection that only listens detects a failure
ASKED_EVERY_S = 10
AMQP = ("amqp", "amqps")
#: settings of pika: short, since the sender waits; the sweep compensates for lost messages
_PATIENCE = {"connection_attempts": "1", "socket_timeout": "3", "blocked_connection_timeout": "5"}
#: largest number of days in a setting, as many seconds, and the largest number of bytes
MOST_DAYS = 3650
MOST_S = MOST_DAYS * 24 * 3600
MOST_BYTES = 1024**5
#: largest number without a unit
_MOST = 2**31 - 1
#: kinds of files that a rule of RETENTION can name
RETENTION_KINDS = ("dumps", "caches", "failed", "files", "logs")
_RULE = re.compile(r"(\w+)=(\d{1,5})d")
_RATE = re.compile(r"\d+/[smhd][a-z]*")
_ADDRESS_RATE = re.compile(r"\d+/[\d.]*[smhd](/ip)?(,\d+/[\d.]*[smhd](/ip)?)*")
_OIDC_KEYS = {"id", "name", "issuer", "client_id", "client_secret"}


class Environment(environ.Env):
    """The environment, whose errors name the variable, its value and what is expected."""

    def get_value(self, var: str, cast: Any = None, **kwargs: Any) -> Any:
        """Return a setting; numbers are limited by the unit in its name.

        Raises ImproperlyConfigured if the value cannot be read.
        """
        if cast in (int, float):
            units = {"_DAYS": MOST_DAYS, "_BYTES": MOST_BYTES, "_S": MOST_S}
            limits = (most for unit, most in units.items() if f"{unit}_" in f"{var}_")
            cast = number(next(limits, _MOST), cast)
        try:
            return super().get_value(var, cast, **kwargs)
        except ValueError as error:
            value = os.environ.get(var)
            raise ImproperlyConfigured(f"{var} is {value!r}: {error}.") from None

    @classmethod
    def parse_value(cls, value: str, cast: Any) -> Any:
        if cast is list or isinstance(cast, list):
            parse: Any = str if cast is list else cast[0]
            return [parse(word.strip()) for word in value.split(",") if word.strip()]
        return super().parse_value(value, cast)


def number(most: int, kind: type[int] | type[float] = int) -> Callable[[str], Any]:
    """Return a function that parses a number from 0 to `most`; it raises ValueError.

    environ's own float ignores characters that it does not know: 5m is 5, 1e3 is 13.
    """

    def parse(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not 0 <= value <= most:
            expected = "a whole number" if kind is int else "a number such as 2.5,"
            raise ValueError(f"expected {expected} from 0 to {most}")
        return value

    return parse


def rate(text: str) -> str:
    """Check a rate limit of the API: 60/min; empty for none. Raises ValueError."""
    if text and not _RATE.fullmatch(text):
        raise ValueError("expected a number per s, min, h or d, such as 60/min")
    return text


def address_rate(text: str) -> str:
    """Check rate limits of allauth for addresses: 60/m/ip; empty for none. Raises ValueError."""
    if text and not _ADDRESS_RATE.fullmatch(text):
        raise ValueError("expected a number per s, m, h or d, such as 60/m/ip")
    return text


def address(text: str) -> str:
    """Check the URL of a server: http:// or https://; empty for none. Raises ValueError."""
    parts = urlsplit(text)
    # `port` raises ValueError if it is not a number
    if text and (parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0):
        raise ValueError("expected a URL with http:// or https://")
    return text


def one_of(*values: str) -> Callable[[str], str]:
    """Return a function that checks that a text is one of these values; it raises ValueError."""

    def check(text: str) -> str:
        if text not in values:
            raise ValueError(f"expected one of {', '.join(values)}")
        return text

    return check


def network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """Parse a network; it can be given by any of its addresses: 10.1.2.3/16. Raises ValueError."""
    return ipaddress.ip_network(text, strict=False)


def secret(name: str, default: str | None = None) -> str:
    """Return the secret `name` from the environment or from the file that `NAME_FILE` names.

    Reads os.environ directly, because django-environ interprets a value that starts with `$` as
    the name of another variable. Raises ImproperlyConfigured if neither is set and there is no
    default, or if the file cannot be read.
    """
    if file := os.environ.get(f"{name}_FILE"):
        try:
            return Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ImproperlyConfigured(f"{name}_FILE cannot be read: {error}") from None
    value = os.environ.get(name, default)
    if value is None:
        raise ImproperlyConfigured(f"Set {name} or {name}_FILE in the environment.")
    return value


def secret_url(
    name: str, default: str, parse: Callable[[str], dict[str, Any]], example: str
) -> dict[str, Any]:
    """Parse a secret URL with `parse`. Raises ImproperlyConfigured, whose text omits the URL."""
    url = secret(name, default)
    try:
        if config := parse(url):
            return config
    # the text of these errors can contain a part of the password
    except (ValueError, ImproperlyConfigured):
        pass
    raise ImproperlyConfigured(
        f"{name} is not a valid URL: use {example}; in the password, encode / as %2F, @ as %40."
    )


def secrets(name: str) -> list[str]:
    """Return a list of secrets, separated by newlines or commas; empty if it is not set."""
    return [value.strip() for value in re.split(r"[\n,]", secret(name, "")) if value.strip()]


def patient(url: str) -> str:
    """Return the address with limits on waiting, unless it has its own.

    By default redis-py waits without a limit: if the machine of Redis is gone, or a firewall has
    dropped the connection, each thread that sends a command would hang.
    """
    place, _, query = url.partition("?")
    limits = {
        "socket_timeout": str(SOCKET_TIMEOUT_S),
        "health_check_interval": str(ASKED_EVERY_S),
    }
    if not place.startswith("unix:"):
        limits["socket_connect_timeout"] = str(CONNECT_TIMEOUT_S)
    return f"{place}?{urlencode(limits | dict(parse_qsl(query)))}"


def broker_of(url: str) -> dict[str, Any]:
    """Return DRAMATIQ_BROKER for a URL: redis://, unix:// or amqp://."""
    if urlsplit(url).scheme in AMQP:
        options = {"url": _with_patience(url), "confirm_delivery": True}
        return {"BROKER": "webprofile.rabbitmq.OneConnectionBroker", "OPTIONS": options}
    options = {"url": patient(url), "namespace": "mgw-dramatiq"}
    return {"BROKER": "webprofile.redis_broker.WakingBroker", "OPTIONS": options}


def _with_patience(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(query=urlencode(_PATIENCE | dict(parse_qsl(parts.query)))).geturl()


def aws_endpoint(region: str) -> str:
    """Return the URL of AWS S3 in a region."""
    return f"https://s3.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}"


def retention_rules(text: str) -> dict[str, int]:
    """Parse RETENTION ("dumps=30d failed=30d") into days by kind; other kinds have no limit.

    Raises ImproperlyConfigured.
    """
    rules: dict[str, int] = {}
    for word in text.replace(",", " ").split():
        rule = _RULE.fullmatch(word)
        if rule is None or rule[1] not in RETENTION_KINDS or rule[1] in rules or int(rule[2]) < 1:
            kinds = ", ".join(RETENTION_KINDS)
            raise ImproperlyConfigured(
                f"{word!r} is not a valid rule of RETENTION: use KIND=DAYSd with at least one day, "
                f"each kind at most once. Kinds are {kinds}; results are kept forever."
            )
        rules[rule[1]] = int(rule[2])
    return rules


def oidc_apps() -> list[dict[str, Any]]:
    """Return the providers in the format of allauth's setting `APPS`.

    OIDC_ISSUER, OIDC_CLIENT_ID, OIDC_CLIENT_SECRET and OIDC_NAME name one; OIDC_PROVIDERS names
    several, as a JSON list of objects with id, name, issuer, client_id and client_secret. `secret`
    reads them, also from files. Raises ImproperlyConfigured if something is missing.
    """
    providers = _providers(secret("OIDC_PROVIDERS", ""))
    if issuer := secret("OIDC_ISSUER", ""):
        single = {
            "id": "oidc",
            "name": secret("OIDC_NAME", "OpenID Connect"),
            "issuer": issuer,
            "client_id": secret("OIDC_CLIENT_ID"),
            "client_secret": secret("OIDC_CLIENT_SECRET"),
        }
        providers.append(single)
    return [_oidc_app(provider) for provider in providers]


def oidc_origins(apps: list[dict[str, Any]]) -> list[str]:
    """Return the origins of the providers, which the login form may redirect to (CSP)."""
    parts = (urlsplit(app["settings"]["server_url"]) for app in apps)
    return sorted({f"{part.scheme}://{part.netloc}" for part in parts})


def _providers(text: str) -> list[dict[str, str]]:
    try:
        providers = json.loads(text or "[]")
    except ValueError as error:
        raise ImproperlyConfigured("OIDC_PROVIDERS is not valid JSON.") from error
    if not isinstance(providers, list) or not all(isinstance(item, dict) for item in providers):
        raise ImproperlyConfigured("OIDC_PROVIDERS is not a list of objects.")
    return providers


def _oidc_app(provider: dict[str, str]) -> dict[str, Any]:
    missing = sorted(key for key in _OIDC_KEYS if not provider.get(key))
    if missing or provider.keys() - _OIDC_KEYS:
        raise ImproperlyConfigured(
            f"An OIDC provider must have values for exactly these keys: {sorted(_OIDC_KEYS)}."
        )
    if not re.fullmatch(r"[a-z0-9-]{1,30}", provider["id"]):
        raise ImproperlyConfigured(
            "The id of an OIDC provider must have 1 to 30 characters of a-z, 0-9 and -."
        )
    if urlsplit(provider["issuer"]).scheme not in {"http", "https"}:
        raise ImproperlyConfigured("The issuer of an OIDC provider must be a URL: https://...")
    return {
        "provider_id": provider["id"],
        "name": provider["name"],
        "client_id": provider["client_id"],
        "secret": provider["client_secret"],
        "settings": {"server_url": provider["issuer"].rstrip("/")},
    }
