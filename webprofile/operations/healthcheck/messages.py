"""Checks of broker, actors, channel layer, cache and mail server."""

import asyncio
import secrets
import smtplib
import time

import dramatiq
from channels.layers import get_channel_layer
from django.conf import settings
from django.core.cache import cache
from django.core.mail.backends.smtp import EmailBackend

from webprofile.actors import ANSWERS, answer_doctor
from webprofile.operations.healthcheck.finding import (
    Finding,
    broken,
    good,
    patience_s,
    reason,
    warning,
)
from webprofile.realtime.layer import round_trip

#: queue for the check of the broker, which empties it
QUEUE = "doctor"
BROKER_STEP = "Start the broker, or correct BROKER_URL. Until then, tasks do not start."
ACTORS_STEP = "Start `manage.py rundramatiq --queues profiles webhooks`; if it runs, see its log."
DISPATCH_STEP = "Start `manage.py rundramatiq --queues dispatch`; if it runs, see its log."
LAYER_STEP = "Start Redis, or correct REDIS_URL. Until then, pages and devices get no wake-ups."
CACHE_STEP = "Start Redis, or correct REDIS_URL. Until then, logins and the API fail."
MAIL_STEP = "Start the mail server, or correct EMAIL_URL."


def broker() -> Finding:
    """Send a message to the broker and receive it again."""
    current = dramatiq.get_broker()
    current.declare_queue(QUEUE)
    mark = secrets.token_hex(8)
    current.enqueue(dramatiq.Message(QUEUE, "doctor", (), {"mark": mark}, {}))
    if not _receive(current, mark):
        return broken("A message was accepted, but not delivered.", BROKER_STEP)
    name = "RabbitMQ" if "rabbit" in settings.DRAMATIQ_BROKER["BROKER"] else "Redis"
    return good(f"{name} accepts and delivers messages.")


def actors() -> Finding:
    """Send a message to the processes that read results; they answer through the cache."""
    return _listening("profiles", "Results are not read.", ACTORS_STEP)


def dispatch() -> Finding:
    """Send a message to the dispatcher's process, as in `actors`."""
    return _listening("dispatch", "Tasks do not start.", DISPATCH_STEP)


def _listening(queue: str, effect: str, step: str) -> Finding:
    mark = secrets.token_hex(8)
    dramatiq.get_broker().enqueue(answer_doctor.message(mark).copy(queue_name=queue))
    until = time.monotonic() + patience_s()
    while time.monotonic() < until:
        if cache.delete(ANSWERS + mark):
            return good("A test message was answered.")
        time.sleep(0.02)
    text = f"No answer in {patience_s():g} s: no process runs, or all are busy. {effect}"
    return broken(text, step)


def channel_layer() -> Finding:
    """Send a message to a group and receive it, as wake-ups do."""
    try:
        is_same = asyncio.run(round_trip(get_channel_layer(), patience_s()))
    except TimeoutError:
        return broken(f"No wake-up arrived in {patience_s():g} s.", LAYER_STEP)
    if not is_same:
        return broken("Another message arrived instead of the wake-up.", LAYER_STEP)
    return good("A wake-up was sent to a group and arrived.")


def cache_server() -> Finding:
    """Write, read and delete a value in the cache."""
    name, value = f"doctor:{secrets.token_hex(8)}", secrets.token_hex(8)
    cache.set(name, value, 60)
    cached = cache.get(name)
    cache.delete(name)
    if cached != value:
        return broken("A written value cannot be read: the cache may be full.", CACHE_STEP)
    return good("A value can be written and read.")


def mail() -> Finding:
    """Connect to the mail server, log in and send the sender's address, but no message."""
    if not settings.HAS_MAIL_SERVER:
        text = "No mail server is set: users cannot verify their address or reset their password."
        return warning(text, "Set EMAIL_URL to a mail server: smtp+tls://user:password@host:587")
    server = EmailBackend(timeout=max(1, round(patience_s())))
    try:
        server.open()
        assert server.connection is not None
        code, answer = server.connection.mail(settings.DEFAULT_FROM_EMAIL)
    except smtplib.SMTPAuthenticationError as error:
        text = f"The login was rejected ({error.smtp_code})."
        return broken(text, "Correct the user and the password in EMAIL_URL.")
    except smtplib.SMTPNotSupportedError as error:
        step = "Use smtp:// for a server without encryption, else smtp+tls:// or smtp+ssl://."
        return broken(reason(error), step)
    finally:
        server.close()
    if code != 250:
        text = f"The server does not accept mail from {settings.DEFAULT_FROM_EMAIL} ({code})."
        details = answer.decode(errors="replace").splitlines()[0][:100] if answer else ""
        step = "Set DEFAULT_FROM_EMAIL to an address that the server accepts."
        return broken(f"{text} {details}".strip(), step)
    address = f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT}"
    return good(f"{address} accepts mail from {settings.DEFAULT_FROM_EMAIL}.")


def _receive(current: dramatiq.Broker, mark: str) -> bool:
    """Return whether the message arrives; discard messages of earlier checks."""
    consumer = current.consume(QUEUE, prefetch=1, timeout=200)
    until = time.monotonic() + patience_s()
    try:
        while time.monotonic() < until:
            message = next(consumer)
            if message is None:
                continue
            consumer.ack(message)
            if message.kwargs.get("mark") == mark:
                return True
        return False
    finally:
        consumer.close()
