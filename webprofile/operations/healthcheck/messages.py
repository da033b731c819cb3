"""What carries messages: broker, its actors, channel layer, cache, and the mail server."""

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
from webprofile.operations.healthcheck.finding import Finding, broken, good, odd, patience_s, reason
from webprofile.realtime.layer import round_trip

#: a queue of the doctor's own, emptied by it
QUEUE = "doctor"
BROKER_STEP = "Start the broker, or correct BROKER_URL. Until then no task starts."
ACTORS_STEP = "Start `manage.py rundramatiq --queues profiles webhooks`; if it runs, read its log."
DISPATCH_STEP = "Start `manage.py rundramatiq --queues dispatch`; if it runs, read its log."
LAYER_STEP = "Start Redis, or correct REDIS_URL. Until then pages and devices hear of nothing."
CACHE_STEP = "Start Redis, or correct REDIS_URL. Until then logins and the API fail."
MAIL_STEP = "Start the mail server, or correct EMAIL_URL."


def broker() -> Finding:
    """Send a message through the broker and take it out again."""
    served = dramatiq.get_broker()
    served.declare_queue(QUEUE)
    mark = secrets.token_hex(8)
    served.enqueue(dramatiq.Message(QUEUE, "doctor", (), {"mark": mark}, {}))
    if not _came_back(served, mark):
        return broken("A message was taken and never came out.", BROKER_STEP)
    name = "RabbitMQ" if "rabbit" in settings.DRAMATIQ_BROKER["BROKER"] else "Redis"
    return good(f"{name} takes messages and hands them out.")


def actors() -> Finding:
    """Ask the processes that read results; they answer by the cache."""
    return _listening("profiles", "No result is read meanwhile.", ACTORS_STEP)


def dispatch() -> Finding:
    """Ask the dispatcher in the same way."""
    return _listening("dispatch", "No task starts meanwhile.", DISPATCH_STEP)


def _listening(queue: str, meanwhile: str, step: str) -> Finding:
    mark = secrets.token_hex(8)
    dramatiq.get_broker().enqueue(answer_doctor.message(mark).copy(queue_name=queue))
    until = time.monotonic() + patience_s()
    while time.monotonic() < until:
        if cache.delete(ANSWERS + mark):
            return good("They listen to the queue and answer.")
        time.sleep(0.02)
    text = f"No answer in {patience_s():g} s: none runs, or all are busy. {meanwhile}"
    return broken(text, step)


def channel_layer() -> Finding:
    """Send to a group and receive, as a wake-up does."""
    try:
        is_same = asyncio.run(round_trip(get_channel_layer(), patience_s()))
    except TimeoutError:
        return broken(f"No wake-up arrived in {patience_s():g} s.", LAYER_STEP)
    if not is_same:
        return broken("A wake-up came out as something else.", LAYER_STEP)
    return good("A wake-up goes to a group and arrives.")


def kept() -> Finding:
    """Write to the cache, read, remove."""
    name, value = f"doctor:{secrets.token_hex(8)}", secrets.token_hex(8)
    cache.set(name, value, 60)
    found = cache.get(name)
    cache.delete(name)
    if found != value:
        return broken("What was written is gone a moment later: the cache may be full.", CACHE_STEP)
    return good("What is written can be read.")


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


def _came_back(served: dramatiq.Broker, mark: str) -> bool:
    """Whether the message comes out; those that other doctors left are put away."""
    consumer = served.consume(QUEUE, prefetch=1, timeout=200)
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
