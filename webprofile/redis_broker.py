"""Redis broker whose consumers are woken by a message instead of polling for it."""

import contextlib
import threading
import time
from collections.abc import Iterable
from typing import Any

import dramatiq
import redis
from dramatiq.broker import Consumer, MessageProxy
from dramatiq.brokers.redis import RedisBroker
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

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 5000) -> "_WokenConsumer":
        """Return a consumer that waits at most `timeout` ms. Raises ConnectionClosed."""
        # does not sleep
        consumer = super().consume(queue_name, prefetch, timeout=0)
        wakeups = self.client.pubsub()
        try:
            wakeups.subscribe(self.channel(queue_name))
        except (redis.ConnectionError, redis.TimeoutError) as error:
            wakeups.close()
            raise ConnectionClosed(error) from None
        return _WokenConsumer(consumer, wakeups, prefetch, timeout / 1000)

    def enqueue(self, message: dramatiq.Message, *, delay: int | None = None) -> dramatiq.Message:
        queue = message.queue_name if delay is None else dq_name(message.queue_name)
        enqueued = super().enqueue(message, delay=delay)
        with contextlib.suppress(redis.RedisError):  # the message itself was accepted
            self.client.publish(self.channel(queue), b"")
        return enqueued

    def channel(self, queue: str) -> str:
        """Return the name of the channel for wake-ups of a queue's consumers."""
        return f"{self.namespace}:wakeups:{queue}"


class _WokenConsumer(Consumer):
    """After an empty fetch, wait for a wake-up, for the next delayed message or for the timeout.

    A subscription keeps the wake-ups that arrive while the consumer does something else, so that
    none is missed between a fetch and the wait.
    """

    def __init__(
        self, consumer: Any, wakeups: redis.client.PubSub, prefetch: int, longest_s: float
    ) -> None:
        """Create a consumer.

        consumer: Dramatiq's consumer, which fetches the messages
        """
        self._consumer = consumer
        self._wakeups = wakeups
        self._prefetch = prefetch
        self._longest_s = longest_s
        #: when delayed messages are due, s since the epoch
        self._due_at: dict[str, float] = {}
        #: set when a message was processed, so that another one may be fetched
        self._has_room = threading.Event()

    def __next__(self) -> MessageProxy | None:
        self._has_room.clear()
        is_full = self._consumer.outstanding_message_count >= self._prefetch
        message: MessageProxy | None = next(self._consumer)
        if message is None:
            self._wait(is_full=is_full)
        elif (eta_ms := message.options.get("eta")) is not None:
            self._due_at[message.options["redis_message_id"]] = eta_ms / 1000
        return message

    def ack(self, message: MessageProxy) -> None:
        try:
            self._consumer.ack(message)
        finally:
            self._forget(message)

    def nack(self, message: MessageProxy) -> None:
        try:
            self._consumer.nack(message)
        finally:
            self._forget(message)

    def requeue(self, messages: Iterable[MessageProxy]) -> None:
        self._consumer.requeue(messages)

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
