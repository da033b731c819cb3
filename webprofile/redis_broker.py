"""Redis broker whose consumers are woken by a message instead of polling for it."""

import contextlib
import threading
import time
from typing import Any

import dramatiq
import redis
from dramatiq.broker import MessageProxy
from dramatiq.brokers.redis import RedisBroker, _RedisConsumer
from dramatiq.common import dq_name
from dramatiq.errors import ConnectionClosed

#: Commands in a million that return messages of dead processes to their queues. An idle consumer
#: sends one command a second, so that this happens every 20 s.
MAINTENANCE_CHANCE = 50_000


class WakingBroker(RedisBroker):
    """Publish a wake-up for each message, for the consumers of its queue.

    A wake-up that is lost delays a message by at most the worker timeout of Dramatiq (1 s), after
    which a consumer looks for messages by itself.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"maintenance_chance": MAINTENANCE_CHANCE} | options)

    @property
    def consumer_class(self) -> type["_WokenConsumer"]:
        return _WokenConsumer

    def enqueue(self, message: dramatiq.Message, *, delay: int | None = None) -> dramatiq.Message:
        queue = message.queue_name if delay is None else dq_name(message.queue_name)
        enqueued = super().enqueue(message, delay=delay)
        with contextlib.suppress(redis.RedisError):  # the message itself was accepted
            self.client.publish(self.channel(queue), b"")
        return enqueued

    def channel(self, queue: str) -> str:
        """Return the name of the channel for wake-ups of a queue's consumers."""
        return f"{self.namespace}:wakeups:{queue}"


class _WokenConsumer(_RedisConsumer):
    """After an empty fetch, wait for a wake-up, for the next delayed message or for the timeout.

    A subscription keeps the wake-ups that arrive while the consumer does something else, so that
    none is missed between a fetch and the wait.
    """

    def __init__(self, broker: WakingBroker, queue_name: str, prefetch: int, timeout: int) -> None:
        """Subscribe to wake-ups. Raises ConnectionClosed.

        timeout: longest wait in ms
        """
        super().__init__(broker, queue_name, prefetch, timeout=0)  # does not sleep
        self._longest_s = timeout / 1000
        #: when delayed messages are due, s since the epoch
        self._due_at: dict[str, float] = {}
        #: set when a message was processed, so that another one may be fetched
        self._has_room = threading.Event()
        self._wakeups = broker.client.pubsub()
        try:
            self._wakeups.subscribe(broker.channel(queue_name))
        except (redis.ConnectionError, redis.TimeoutError) as error:
            self._wakeups.close()
            raise ConnectionClosed(error) from None

    def __next__(self) -> MessageProxy | None:
        self._has_room.clear()
        is_full = self.outstanding_message_count >= self.prefetch
        message: MessageProxy | None = super().__next__()
        if message is None:
            self._wait(is_full=is_full)
        elif (eta_ms := message.options.get("eta")) is not None:
            self._due_at[message.options["redis_message_id"]] = eta_ms / 1000
        return message

    def ack(self, message: MessageProxy) -> None:
        try:
            super().ack(message)
        finally:
            self._forget(message)

    def nack(self, message: MessageProxy) -> None:
        try:
            super().nack(message)
        finally:
            self._forget(message)

    def close(self) -> None:
        self._wakeups.close()

    def _forget(self, message: MessageProxy) -> None:
        self._due_at.pop(message.options["redis_message_id"], None)
        self._has_room.set()

    def _wait(self, *, is_full: bool) -> None:
        """Wait for a message, or for room for one while as many are processed as may be."""
        seconds = self._longest_s
        if due_at := list(self._due_at.values()):
            seconds = min(seconds, max(0.0, min(due_at) - time.time()))
        if is_full:
            self._has_room.wait(seconds)
            return
        try:
            if self._wakeups.get_message(timeout=seconds) is not None:
                # the next fetch finds the messages of all wake-ups that have arrived
                while self._wakeups.get_message(timeout=0.0) is not None:
                    pass
        except (redis.ConnectionError, redis.TimeoutError) as error:
            raise ConnectionClosed(error) from None
