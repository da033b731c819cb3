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
from dramatiq.middleware import Middleware

#: longest wait of a consumer in worker timeouts of Dramatiq (1 s), in case a wake-up was lost
TIMEOUTS = 5
#: longest wait while the process is being stopped
STOPPING_S = 0.1
#: Commands in a million that return messages of dead processes to their queues. An idle consumer
#: sends a command every 5 s, so that this happens every 20 s.
MAINTENANCE_CHANCE = 250_000


class WakingBroker(RedisBroker):
    """Publish a wake-up for each message, for the consumers of its queue.

    A wake-up that is lost delays a message by 5 s at most (`TIMEOUTS`), after which a consumer
    looks for messages by itself.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"maintenance_chance": MAINTENANCE_CHANCE} | options)
        self.is_stopping = False
        self.add_middleware(_EndWaits())

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 5000) -> "_WokenConsumer":
        """Return a consumer that waits at most `TIMEOUTS` times `timeout` ms.

        Raises ConnectionClosed.
        """
        # does not sleep
        consumer = super().consume(queue_name, prefetch, timeout=0)
        wakeups = self.client.pubsub()
        try:
            wakeups.subscribe(self.channel(queue_name))
        except (redis.ConnectionError, redis.TimeoutError) as error:
            wakeups.close()
            raise ConnectionClosed(error) from None
        return _WokenConsumer(self, consumer, wakeups, prefetch, TIMEOUTS * timeout / 1000)

    def enqueue(self, message: dramatiq.Message, *, delay: int | None = None) -> dramatiq.Message:
        queue = message.queue_name if delay is None else dq_name(message.queue_name)
        enqueued = super().enqueue(message, delay=delay)
        self.wake(queue)
        return enqueued

    def wake(self, queue: str) -> None:
        """Wake the consumers of a queue, unless Redis is unavailable."""
        with contextlib.suppress(redis.RedisError):
            self.client.publish(self.channel(queue), b"")

    def channel(self, queue: str) -> str:
        """Return the name of the channel for wake-ups of a queue's consumers."""
        return f"{self.namespace}:wakeups:{queue}"


class _EndWaits(Middleware):
    """End the waits of consumers when their process is being stopped."""

    def before_worker_shutdown(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:
        assert isinstance(broker, WakingBroker)
        broker.is_stopping = True
        for queue in list(worker.consumers):
            broker.wake(queue)


class _WokenConsumer(Consumer):
    """After an empty fetch, wait for a wake-up, for the next delayed message or for the timeout.

    A subscription keeps the wake-ups that arrive while the consumer does something else, so that
    none is missed between a fetch and the wait.
    """

    def __init__(
        self,
        broker: WakingBroker,
        consumer: Any,
        wakeups: redis.client.PubSub,
        prefetch: int,
        longest_s: float,
    ) -> None:
        """Create a consumer.

        consumer: Dramatiq's consumer, which fetches the messages
        """
        self._broker = broker
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
        messages = list(messages)
        self._consumer.requeue(messages)
        if messages:
            self._broker.wake(self._consumer.queue_name)

    def close(self) -> None:
        self._wakeups.close()

    def _forget(self, message: MessageProxy) -> None:
        self._due_at.pop(message.options["redis_message_id"], None)
        self._has_room.set()

    def _wait(self, *, is_full: bool) -> None:
        """Wait for a message, or for room for one while as many are processed as may be."""
        seconds = STOPPING_S if self._broker.is_stopping else self._longest_s
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
