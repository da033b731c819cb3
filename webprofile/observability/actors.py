"""What Dramatiq's processes count, and what their lines and those of who asked have in common.

Dramatiq has a middleware for Prometheus too. It always keeps numbers in a folder that it empties at
the start, shows them from one more process, and knows nothing of our own meters; so this is ours.
"""

import time
import uuid
from typing import Any

import structlog
from dramatiq import Broker, Message
from dramatiq.broker import MessageProxy
from dramatiq.middleware import Middleware

from webprofile.garbage import loaded_spare
from webprofile.observability import counters, exposition

#: options of a message: who asked for it, and when an actor began with it
_REQUEST = "request_id"


class Watching(Middleware):
    """Hands the request's id on to the actor, times each message, shows the process' metrics."""

    def __init__(self) -> None:
        self._began: dict[str, float] = {}

    def after_process_boot(self, broker: Broker) -> None:
        exposition.serve()
        loaded_spare()

    def before_enqueue(self, broker: Broker, message: Message[Any], delay: int | None) -> None:
        asked = structlog.contextvars.get_contextvars().get(_REQUEST)
        if asked is not None:
            message.options.setdefault(_REQUEST, asked)

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
            word = "done" if exception is None else "failed"
            took_s = time.perf_counter() - began
            counters.INGEST_SECONDS.labels(message.actor_name, word).observe(took_s)
        structlog.contextvars.clear_contextvars()

    def after_skip_message(self, broker: Broker, message: MessageProxy) -> None:
        self._began.pop(message.message_id, None)
        structlog.contextvars.clear_contextvars()
