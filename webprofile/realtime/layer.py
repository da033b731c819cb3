"""Channel layer over Redis with time limits, which drops messages while Redis is unavailable."""

import asyncio
import os
import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import structlog
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from channels_redis.pubsub import RedisPubSubChannelLayer
from redis.asyncio.connection import Connection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from webprofile.observability.counters import MESSAGES_LOST

log = structlog.get_logger()

#: time limit of sending a message, since a request or a device waits for the sender
SEND_S = 2.0
#: pause of all senders after a failure
REST_S = 2.0
SUBSCRIBE_AGAIN_S = 1.0
#: how long a subscriber waits for a message before it checks the connection
READ_S = 1.0
_SEND_AGAIN_S = 0.2
#: the group of channels_redis to which all messages go
_ALL = "all"


def send_to_groups(groups: Iterable[str], message: dict[str, Any]) -> None:
    """Send a message to groups, from a thread without a running event loop."""
    layer = get_channel_layer()
    if isinstance(layer, PatientLayer):
        layer.send_to_groups(groups, message)
    else:
        async_to_sync(_send_all)(layer, groups, message)


async def _send_all(layer: Any, groups: Iterable[str], message: dict[str, Any]) -> None:
    for group in groups:
        await layer.group_send(group, message)


async def round_trip(layer: Any, within_s: float) -> bool:
    """Send a message to a new group, receive it, and return whether it is unchanged.

    The message is repeated until it arrives: subscribing and sending use two connections, and Redis
    may read the second one first. Raises TimeoutError if nothing arrives in `within_s` seconds.
    """
    group = f"trip.{secrets.token_hex(8)}"
    message = {"type": "trip.mark", "mark": secrets.token_hex(8)}
    async with asyncio.timeout(within_s):
        channel = await layer.new_channel()
        await layer.group_add(group, channel)
        receiver = asyncio.create_task(layer.receive(channel))
        try:
            while not receiver.done():
                await layer.group_send(group, message)
                await asyncio.wait({receiver}, timeout=_SEND_AGAIN_S)
            received: object = receiver.result()
        finally:
            receiver.cancel()
            await layer.group_discard(group, channel)
    return received == message


@dataclass
class _Listeners:
    """The channels of one event loop: queues by channel, and channels by group."""

    queues: dict[str, asyncio.Queue[dict[str, Any]]] = field(default_factory=dict)
    groups: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    is_subscribed: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[None] | None" = None


def _waiting(base: Any) -> Any:
    """Return a class of connections that wait for a message instead of polling for it.

    channels_redis looks for messages ten times a second. On a machine that also measures, each
    wake-up takes up to half a millisecond of an iteration.
    """

    class Waiting(base):
        async def read_response(self, *args: Any, **options: Any) -> Any:
            if options.get("timeout"):
                options["timeout"] = max(options["timeout"], READ_S)
            return await super().read_response(*args, **options)

    return Waiting


def _host(address: str) -> dict[str, Any]:
    """Return the options of channels_redis for a Redis server."""
    options = dict(parse_url(address))
    return {
        **options,
        "connection_class": _waiting(options.get("connection_class", Connection)),
        # reopens a closed connection once
        "retry": Retry(NoBackoff(), 1, (RedisConnectionError,)),
    }


class PatientLayer:
    """Channel layer that drops messages while Redis is unavailable, and never raises for it.

    Wake-ups carry no data and may be lost, since rows and heartbeats have the same information. An
    outage of Redis therefore must not close or refuse the sockets of agents and pages, nor block
    the senders of messages.

    All messages go to one group of channels_redis, each with the list of its target groups. Every
    event loop subscribes to that group and passes messages on to its own channels. A message to
    thousands of groups is one PUBLISH, and joining a group needs no request to Redis. There is no
    `send` method, since all messages go to groups.
    """

    extensions = ("groups", "flush")

    def __init__(self, address: str, **options: Any) -> None:
        self._redis: Any = RedisPubSubChannelLayer(hosts=[_host(address)], **options)
        #: monotonic time until which no event loop or thread sends
        self.rests_until = 0.0
        self._listeners: WeakKeyDictionary[asyncio.AbstractEventLoop, _Listeners] = (
            WeakKeyDictionary()
        )

    def send_to_groups(self, groups: Iterable[str], message: dict[str, Any]) -> None:
        """Send a message to several groups from a thread without a running event loop.

        All threads of the process share one event loop: a new loop and connection for each message
        would cost ten times as much.
        """
        coroutine = self._send(groups, message)
        asyncio.run_coroutine_threadsafe(coroutine, _loop_of_threads(os.getpid())).result()

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        await self._send([group], message)

    async def _send(self, groups: Iterable[str], message: dict[str, Any]) -> None:
        """Send a message, or drop and count it if Redis does not answer or has not lately."""
        if time.monotonic() < self.rests_until:
            MESSAGES_LOST.labels(message["type"]).inc()
            return
        try:
            async with asyncio.timeout(SEND_S):
                await self._redis.group_send(_ALL, {"groups": list(groups), "message": message})
        except (RedisError, OSError) as error:  # TimeoutError is an OSError
            MESSAGES_LOST.labels(message["type"]).inc()
            self._away(error)

    async def new_channel(self, prefix: str = "specific.") -> str:
        """Return a new channel, which receives messages as soon as Redis is available."""
        listeners = self._loop_listeners()
        if listeners.task is None or listeners.task.done():
            listeners.task = asyncio.create_task(self._listen(listeners))
        if not listeners.is_subscribed.is_set() and time.monotonic() >= self.rests_until:
            with suppress(TimeoutError):
                async with asyncio.timeout(SEND_S):
                    await listeners.is_subscribed.wait()
        channel = f"{prefix}{secrets.token_hex(16)}"
        listeners.queues[channel] = asyncio.Queue()
        return channel

    async def receive(self, channel: str) -> dict[str, Any]:
        """Return the next message; a cancelled call removes the channel, as its consumer ended."""
        queues = self._loop_listeners().queues
        try:
            return await queues[channel].get()
        except asyncio.CancelledError:
            queues.pop(channel, None)
            raise

    async def group_add(self, group: str, channel: str) -> None:
        self._loop_listeners().groups[group].add(channel)

    async def group_discard(self, group: str, channel: str) -> None:
        groups = self._loop_listeners().groups
        groups[group].discard(channel)
        if not groups[group]:
            del groups[group]

    async def flush(self) -> None:
        """Drop the channels of this event loop; close its connections and those of threads."""
        listeners = self._listeners.pop(asyncio.get_running_loop(), None)
        if listeners is not None and listeners.task is not None:
            listeners.task.cancel()
            await asyncio.wait({listeners.task})
        await self._redis.flush()
        loop = _loop_of_threads(os.getpid())
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._redis.flush(), loop))

    def _loop_listeners(self) -> _Listeners:
        return self._listeners.setdefault(asyncio.get_running_loop(), _Listeners())

    async def _listen(self, listeners: _Listeners) -> None:
        """Subscribe, with retries, and pass messages on to the channels of this event loop."""
        while True:
            try:
                channel = await self._redis.new_channel()
                await self._redis.group_add(_ALL, channel)
                break
            except (RedisError, OSError) as error:
                self._away(error)
                # drops a partial subscription
                await self._redis.flush()
                await asyncio.sleep(SUBSCRIBE_AGAIN_S)
            finally:
                # redis-py sends with asyncio.wait_for, which drops a cancellation that arrives with
                # its result, before Python 3.12; this task would then listen for ever
                if listeners.task is not None and listeners.task.cancelling():
                    raise asyncio.CancelledError
        listeners.is_subscribed.set()
        # from here on channels_redis renews the subscription by itself
        while True:
            envelope = await self._redis.receive(channel)
            for group in envelope["groups"]:
                for listener in listeners.groups.get(group, ()):
                    if queue := listeners.queues.get(listener):
                        queue.put_nowait(envelope["message"])

    def _away(self, error: Exception) -> None:
        """Log the error and stop sending for `REST_S` seconds."""
        log.warning("redis_away", cause=type(error).__name__)
        self.rests_until = time.monotonic() + REST_S


@cache
def _loop_of_threads(process: int) -> asyncio.AbstractEventLoop:
    """Start a thread with the event loop in which threads of this process send; return the loop."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="layer", daemon=True).start()
    return loop
