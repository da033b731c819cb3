"""RabbitMQ broker for a server that handles each request in a new thread."""

import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

#: longer than pika's time limit of a connection (settings/environment.py), so that pika fails first
ENQUEUE_WITHIN_S = 5.0


class OneConnectionBroker(RabbitmqBroker):
    """Send all messages of the process from one thread.

    Dramatiq keeps a connection for each sending thread. An ASGI server handles each request in a
    thread of its own, so connections would accumulate until RabbitMQ accepts no more.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._lock = threading.Lock()
        self._sender: ThreadPoolExecutor | None = None

    def enqueue(self, message: dramatiq.Message, *, delay: int | None = None) -> dramatiq.Message:
        """Send a message with the caller's context variables, which logs and traces use.

        Raises dramatiq's ConnectionClosed, or TimeoutError while RabbitMQ does not respond.
        """
        context = contextvars.copy_context()
        send = super().enqueue
        future = self._thread().submit(context.run, lambda: send(message, delay=delay))
        try:
            return future.result(ENQUEUE_WITHIN_S)
        except TimeoutError:
            # do not delay later messages by one whose caller has given up
            future.cancel()
            raise

    def close(self) -> None:
        with self._lock:
            sender, self._sender = self._sender, None
        if sender is not None:
            sender.shutdown(wait=False)
        super().close()

    def _thread(self) -> ThreadPoolExecutor:
        """Return the sending thread; it is created lazily, since dramatiq forks processes first."""
        with self._lock:
            if self._sender is None:
                self._sender = ThreadPoolExecutor(1, thread_name_prefix="rabbitmq")
            return self._sender
