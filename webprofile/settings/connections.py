"""Addresses of Redis and of the message broker, with time limits."""

from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

SOCKET_TIMEOUT_S = 10
CONNECT_TIMEOUT_S = 5
#: interval of pings by which a connection that only listens notices a failure
ASKED_EVERY_S = 10
AMQP = ("amqp", "amqps")
#: settings of pika; the sender waits while a message is sent, and the sweep makes up for lost ones
_PATIENCE = {"connection_attempts": "1", "socket_timeout": "3", "blocked_connection_timeout": "5"}


def patient(url: str) -> str:
    """Return the address with limits on waiting, unless it has its own.

    redis-py waits for ever by itself: a Redis whose machine is gone, or a firewall that forgot the
    connection, would hold each thread that asks it.
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
    return {"BROKER": "dramatiq.brokers.redis.RedisBroker", "OPTIONS": options}


def _with_patience(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(query=urlencode(_PATIENCE | dict(parse_qsl(parts.query)))).geturl()
