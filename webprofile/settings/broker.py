"""Settings of the message broker: Redis or RabbitMQ."""

from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from webprofile.settings.redis import patient

AMQP = ("amqp", "amqps")
#: of pika; whoever commits waits for the message to be taken, and the sweep would do without it
_PATIENCE = {"connection_attempts": "1", "socket_timeout": "3", "blocked_connection_timeout": "5"}


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
