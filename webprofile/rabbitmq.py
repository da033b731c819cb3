"""RabbitMQ as broker, for a server whose requests come from ever new threads."""

import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

#: longer than pika's own patience with one connection (settings/broker.py), shorter than a reader's
ENQUEUE_WITHIN_S = 5.0


class OneConnectionBroker(RabbitmqBroker):
    """Sends by one thread of the process.

    Dramatiq keeps a connection for each thread that sends. An ASGI server answers each request in a
    thread of its own, so connections would pile up until RabbitMQ takes no more.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._lock = threading.Lock()
        self._sender: ThreadPoolExecutor | None = None

    def enqueue(self, message: dramatiq.Message, *, delay: int | None = None) -> dramatiq.Message:
        """Raises dramatiq's ConnectionClosed, or TimeoutError while RabbitMQ does not answer.

        Middleware sees the caller's context (what a request has bound for logs and traces).
        """
        context = contextvars.copy_context()
        send = super().enqueue
        sent = self._thread().submit(context.run, lambda: send(message, delay=delay))
        try:
            return sent.result(ENQUEUE_WITHIN_S)
        except TimeoutError:
            # what nobody waits for is not sent later, before what somebody waits for then
            sent.cancel()
            raise

    def close(self) -> None:
        with self._lock:
            sender, self._sender = self._sender, None
        if sender is not None:
            sender.shutdown(wait=False)
        super().close()

    def _thread(self) -> ThreadPoolExecutor:
        """Made when it is first needed: dramatiq forks its processes before."""
        with self._lock:
            if self._sender is None:
                self._sender = ThreadPoolExecutor(1, thread_name_prefix="rabbitmq")
            return self._sender
