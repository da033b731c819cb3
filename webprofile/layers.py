"""The channel layer: wake-ups over Redis, which may be away for a while."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import structlog
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from channels_redis.pubsub import (
    RedisPubSubChannelLayer,
    RedisPubSubLoopLayer,
    RedisSingleShardConnection,
)
from redis import ConnectionPool, Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.retry import Retry

log = structlog.get_logger()

#: who sends has a request or a device waiting
SEND_S = 2.0
#: how long nobody tries after a failure
REST_S = 2.0
SUBSCRIBE_AGAIN_S = 1.0
_SEND_AGAIN_S = 0.2


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


class PatientLayer(RedisPubSubChannelLayer):
    """Loses messages while Redis is away, and nothing else.

    Wake-ups carry nothing and may be lost: rows and heartbeats say the same. So a Redis that is
    away must neither end or refuse the sockets of agents and pages, which wait for them, nor hold
    up who sends one.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        #: of all event loops and threads
        self.rests_until = 0.0
        # never subscribes: it knows how groups are called, and which Redis has which
        self._names = RedisPubSubLoopLayer(*args, **options, channel_layer=self)
        self._told = {shard: _told_by(shard.host) for shard in self._names._shards}

    def tell(self, groups: Iterable[str], message: dict[str, Any]) -> None:
        """As `group_send` to each group, in one round trip for each Redis.

        For threads: an event loop for each message, with connections of its own, costs ten times
        as much.
        """
        if time.monotonic() < self.rests_until:
            return
        channels: dict[RedisSingleShardConnection, list[str]] = {}
        for group in groups:
            name = self._names._get_group_channel_name(group)
            channels.setdefault(self._names._get_shard(name), []).append(name)
        written = self.serialize(message)
        try:
            for shard, names in channels.items():
                with self._told[shard].pipeline(transaction=False) as pipe:
                    for name in names:
                        pipe.publish(name, written)
                    pipe.execute()
        except (RedisError, OSError) as error:
            self.away(error)

    def away(self, error: Exception) -> None:
        """Let nobody try for a moment."""
        log.warning("redis_away", cause=type(error).__name__)
        self.rests_until = time.monotonic() + REST_S

    def _get_layer(self) -> RedisPubSubLoopLayer:
        layer: RedisPubSubLoopLayer = super()._get_layer()
        if not all(isinstance(shard, PatientShard) for shard in layer._shards):
            layer._shards = [PatientShard(shard.host, layer) for shard in layer._shards]
        return layer


def _told_by(host: dict[str, Any]) -> Redis:
    """A client of threads for one of the layer's hosts; connects when it is first asked."""
    rest = {key: value for key, value in host.items() if key != "address"}
    pool = ConnectionPool.from_url(host["address"], **rest)
    # one that was closed meanwhile is opened again, once; nobody waits twice for one that is silent
    pool.connection_kwargs |= {
        "socket_timeout": SEND_S,
        "retry": Retry(NoBackoff(), 1, (RedisConnectionError,)),
        "health_check_interval": 0,
    }
    if "path" not in pool.connection_kwargs:
        pool.connection_kwargs["socket_connect_timeout"] = SEND_S
    return Redis(connection_pool=pool)


class PatientShard(RedisSingleShardConnection):
    """The connection to one Redis. What it could not subscribe to it tries again."""

    def __init__(self, host: dict[str, Any], channel_layer: RedisPubSubLoopLayer) -> None:
        super().__init__(host, channel_layer)
        self._layer: PatientLayer = channel_layer.channel_layer
        self._owed: set[str] = set()
        self._paying: asyncio.Task[None] | None = None

    async def publish(self, channel: str, message: bytes) -> None:
        await self._try(super().publish, channel, message)

    async def subscribe(self, channel: str) -> None:
        if await self._try(super().subscribe, channel):
            return
        self._owed.add(channel)
        if self._paying is None or self._paying.done():
            self._paying = asyncio.create_task(self._pay())

    async def unsubscribe(self, channel: str) -> None:
        self._owed.discard(channel)
        await self._try(super().unsubscribe, channel)

    async def flush(self) -> None:
        self._owed.clear()
        if self._paying is not None:
            self._paying.cancel()
        await super().flush()

    async def _pay(self) -> None:
        while self._owed:
            await asyncio.sleep(SUBSCRIBE_AGAIN_S)
            for channel in list(self._owed):
                if await self._try(super().subscribe, channel):
                    self._owed.discard(channel)

    async def _try(self, act: Callable[..., Awaitable[None]], *arguments: Any) -> bool:
        """Do something unless Redis was away a moment ago. Whether it was done."""
        if time.monotonic() < self._layer.rests_until:
            return False
        try:
            async with asyncio.timeout(SEND_S):
                await act(*arguments)
        except (RedisError, OSError) as error:  # TimeoutError is an OSError
            self._layer.away(error)
            return False
        return True
