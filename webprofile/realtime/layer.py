"""The channel layer: wake-ups over Redis, which may be away for a while."""

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
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

log = structlog.get_logger()

#: who sends has a request or a device waiting
SEND_S = 2.0
#: how long nobody tries after a failure
REST_S = 2.0
SUBSCRIBE_AGAIN_S = 1.0
_SEND_AGAIN_S = 0.2
#: the group of channels_redis to which all messages go
_ALL = "all"


def tell(groups: Iterable[str], message: dict[str, Any]) -> None:
    """Send a message to groups, from a thread without a running event loop."""
    layer = get_channel_layer()
    if isinstance(layer, PatientLayer):
        layer.tell(groups, message)
    else:
        async_to_sync(_send_all)(layer, groups, message)


async def _send_all(layer: Any, groups: Iterable[str], message: dict[str, Any]) -> None:
    for group in groups:
        await layer.group_send(group, message)


async def round_trip(layer: Any, within_s: float) -> bool:
    """Send to a group of one's own and hear it, as a wake-up does; whether it came as it was sent.

    Sent again until it is heard: listening and sending go over two connections, of which Redis may
    read the second one first. Raises TimeoutError if nothing came `within_s`.
    """
    group = f"trip.{secrets.token_hex(8)}"
    message = {"type": "trip.mark", "mark": secrets.token_hex(8)}
    async with asyncio.timeout(within_s):
        channel = await layer.new_channel()
        await layer.group_add(group, channel)
        hearing = asyncio.create_task(layer.receive(channel))
        try:
            while not hearing.done():
                await layer.group_send(group, message)
                await asyncio.wait({hearing}, timeout=_SEND_AGAIN_S)
            heard: object = hearing.result()
        finally:
            hearing.cancel()
            await layer.group_discard(group, channel)
    return heard == message


@dataclass
class _Listeners:
    """Who listens in one event loop: queues by channel, and channels by group."""

    queues: dict[str, asyncio.Queue[dict[str, Any]]] = field(default_factory=dict)
    groups: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    is_subscribed: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[None] | None" = None


class PatientLayer:
    """Loses messages while Redis is away, and nothing else.

    Wake-ups carry nothing and may be lost: rows and heartbeats say the same. So a Redis that is
    away must neither end or refuse the sockets of agents and pages, which wait for them, nor hold
    up who sends one.

    All messages go to one group of channels_redis, each with the groups that it is for; every event
    loop listens to that group and hands on what is for its own channels. So a message to thousands
    of groups is one PUBLISH, and to join a group needs no Redis. There is no `send`: all messages
    go to groups.
    """

    extensions = ("groups", "flush")

    def __init__(self, hosts: Iterable[dict[str, Any]], **options: Any) -> None:
        # a connection that was closed meanwhile is opened again, once
        again = {"retry": Retry(NoBackoff(), 1, (RedisConnectionError,))}
        self._redis: Any = RedisPubSubChannelLayer(hosts=[h | again for h in hosts], **options)
        #: of all event loops and threads
        self.rests_until = 0.0
        self._listeners: WeakKeyDictionary[asyncio.AbstractEventLoop, _Listeners] = (
            WeakKeyDictionary()
        )

    def tell(self, groups: Iterable[str], message: dict[str, Any]) -> None:
        """As `group_send` to all of these groups.

        For threads: an event loop for each message, with a connection of its own, costs ten times
        as much as the one that all threads of the process share.
        """
        if time.monotonic() >= self.rests_until:
            sending = self._send(groups, message)
            asyncio.run_coroutine_threadsafe(sending, _loop_of_threads(os.getpid())).result()

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        if time.monotonic() >= self.rests_until:
            await self._send([group], message)

    async def _send(self, groups: Iterable[str], message: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(SEND_S):
                await self._redis.group_send(_ALL, {"groups": list(groups), "message": message})
        except (RedisError, OSError) as error:  # TimeoutError is an OSError
            self._away(error)

    async def new_channel(self, prefix: str = "specific.") -> str:
        """Return a new channel. It receives messages from now on, or as soon as Redis is back."""
        here = self._here()
        if here.task is None or here.task.done():
            here.task = asyncio.create_task(self._listen(here))
        if not here.is_subscribed.is_set() and time.monotonic() >= self.rests_until:
            with suppress(TimeoutError):
                await asyncio.wait_for(here.is_subscribed.wait(), SEND_S)
        channel = f"{prefix}{secrets.token_hex(16)}"
        here.queues[channel] = asyncio.Queue()
        return channel

    async def receive(self, channel: str) -> dict[str, Any]:
        """Return the next message. A cancelled call removes the channel: its consumer ended."""
        queues = self._here().queues
        try:
            return await queues[channel].get()
        except asyncio.CancelledError:
            queues.pop(channel, None)
            raise

    async def group_add(self, group: str, channel: str) -> None:
        self._here().groups[group].add(channel)

    async def group_discard(self, group: str, channel: str) -> None:
        groups = self._here().groups
        groups[group].discard(channel)
        if not groups[group]:
            del groups[group]

    async def flush(self) -> None:
        """Forget the channels of this event loop; close its connections and those of threads."""
        here = self._listeners.pop(asyncio.get_running_loop(), None)
        if here is not None and here.task is not None:
            here.task.cancel()
            await asyncio.wait({here.task})
        await self._redis.flush()
        loop = _loop_of_threads(os.getpid())
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._redis.flush(), loop))

    def _here(self) -> _Listeners:
        return self._listeners.setdefault(asyncio.get_running_loop(), _Listeners())

    async def _listen(self, here: _Listeners) -> None:
        while True:
            try:
                channel = await self._redis.new_channel()
                await self._redis.group_add(_ALL, channel)
                break
            except (RedisError, OSError) as error:
                self._away(error)
                # drops what was half made
                await self._redis.flush()
                await asyncio.sleep(SUBSCRIBE_AGAIN_S)
        here.is_subscribed.set()
        # from here on channels_redis subscribes again by itself
        while True:
            told = await self._redis.receive(channel)
            for group in told["groups"]:
                for listener in here.groups.get(group, ()):
                    if queue := here.queues.get(listener):
                        queue.put_nowait(told["message"])

    def _away(self, error: Exception) -> None:
        """Log the error and let no sender try for `REST_S`."""
        log.warning("redis_away", cause=type(error).__name__)
        self.rests_until = time.monotonic() + REST_S


@cache
def _loop_of_threads(process: int) -> asyncio.AbstractEventLoop:
    """The event loop in which threads of this process send."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="layer", daemon=True).start()
    return loop
