"""Dramatiq middleware: metrics of actors, and log lines with the id of the enqueuing request.

Dramatiq's own Prometheus middleware always writes to a folder that it empties at the start, serves
the metrics from an additional process and does not include the metrics of this project.
"""

import threading
import time
import uuid
from typing import Any

import structlog
from dramatiq import Broker, Message, Worker
from dramatiq.broker import MessageProxy
from dramatiq.middleware import Middleware

from webprofile import background
from webprofile.garbage import loaded_spare
from webprofile.observability import counters, exposition

#: option of a message with the id of the request that enqueued it
_REQUEST = "request_id"


class ActorMiddleware(Middleware):
    """Pass the request's id on to the actor, time each message and serve the process's metrics."""

    def __init__(self) -> None:
        self._began: dict[str, float] = {}

    def after_process_boot(self, broker: Broker) -> None:
        exposition.serve()
        loaded_spare()

    def before_worker_boot(self, broker: Broker, worker: Worker) -> None:
        background.long_work = threading.Semaphore(max(1, worker.worker_threads - 1))

    def before_enqueue(self, broker: Broker, message: Message[Any], delay: int | None) -> None:
        request_id = structlog.contextvars.get_contextvars().get(_REQUEST)
        if request_id is not None:
            message.options.setdefault(_REQUEST, request_id)

    def before_process_message(self, broker: Broker, message: MessageProxy) -> None:
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(
            request_id=message.options.get(_REQUEST) or uuid.uuid4().hex,
            actor=message.actor_name,
        )
        self._began[message.message_id] = time.perf_counter()

    def after_process_message(
        self,
        broker: Broker,
        message: MessageProxy,
        *,
        result: Any = None,
        exception: BaseException | None = None,
    ) -> None:
        began = self._began.pop(message.message_id, None)
        if began is not None:
            result_label = "done" if exception is None else "failed"
            took_s = time.perf_counter() - began
            counters.ACTOR_SECONDS.labels(message.actor_name, result_label).observe(took_s)
        structlog.contextvars.clear_contextvars()

    def after_skip_message(self, broker: Broker, message: MessageProxy) -> None:
        self._began.pop(message.message_id, None)
        structlog.contextvars.clear_contextvars()
