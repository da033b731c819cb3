"""The agent's WebSocket: connect, send hello and heartbeats, receive orders, and reconnect."""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable

from pydantic import ValidationError
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    ConnectionClosedOK,
    InvalidStatus,
    WebSocketException,
)

from agent import __version__
from agent.config import Config
from agent.execution.attempt import Tools
from agent.execution.manager import AttemptManager
from agent.protocol.messages import (
    CloseCode,
    Heartbeat,
    Hello,
    ServerMessage,
    Welcome,
    decode_server,
    encode,
)

log = logging.getLogger(__name__)

#: largest frame that is read; a Start with 65 presigned URLs and a script's arguments is larger
#: than the frames that an agent may send
_MOST_BYTES = 1 << 20
_WELCOME_S = 20.0
#: frames that are sent at once and per second after that; fewer than the server accepts by default
#: (`AGENT_FRAMES_BURST`, `AGENT_FRAMES_PER_S`)
_FRAMES_AT_ONCE = 800
_FRAMES_PER_S = 40.0
#: a larger difference of the clocks is logged, since timestamps can then not be compared
CLOCK_SLACK_S = 5.0

ENROL_AGAIN = (
    "create a new enrolment code on the device's page and run `python -m agent enrol` again"
)
_STOPS = {
    CloseCode.UNKNOWN_TOKEN: f"the server does not know this agent's token: {ENROL_AGAIN}",
    CloseCode.REVOKED_TOKEN: f"this agent's token was revoked: {ENROL_AGAIN}",
    CloseCode.REPLACED: "another agent has connected with the same token: stop one of the two, or "
    "enrol each as a separate device",
    CloseCode.TOO_OLD: f"this agent ({__version__}) is too old for the server: update it",
}


class SessionRefused(RuntimeError):
    """The server rejects this agent permanently; the text contains the cause and what to do."""


class AgentTooOld(SessionRefused):
    """The server requires a newer protocol version."""


class Session:
    """The connection to the server, one socket at a time; `welcomed` is called for each Welcome."""

    def __init__(
        self,
        config: Config,
        greet: Callable[[], Hello],
        attempts: AttemptManager,
        tools: Tools,
        *,
        welcomed: Callable[[Welcome], None],
    ) -> None:
        self._config, self._greet, self._welcomed = config, greet, welcomed
        self._attempts, self._outbox, self._policies = attempts, tools.outbox, tools.policies
        self._quiet_mode = tools.quiet_mode
        self._socket: ClientConnection | None = None
        #: when the current connection counts as settled; only one that was welcomed does
        self._settled_at = math.inf
        #: frames that were sent beyond `_FRAMES_PER_S`, at the time of the last one (monotonic)
        self._frames, self._sent_at = 0.0, 0.0

    async def run(self) -> None:
        """Stay connected until cancelled. Raises SessionRefused."""
        delays = self._policies.reconnect.delays()
        while True:
            self._settled_at = math.inf
            try:
                await self._connect()
            except InvalidStatus as exc:
                _stop_if_refused(exc.response.status_code)
                log.warning("connect_refused status=%d", exc.response.status_code)
            except ConnectionClosedOK:
                log.info("connection_closed")
            except (OSError, TimeoutError, WebSocketException) as exc:
                log.warning("connection_failed cause=%s text=%r", type(exc).__name__, str(exc))
            if time.monotonic() >= self._settled_at:
                delays = self._policies.reconnect.delays()
            await asyncio.sleep(next(delays))

    async def greet_again(self) -> None:
        """Reconnect because the content of Hello has changed; running attempts continue."""
        if self._socket is not None:
            await self._socket.close()

    async def _connect(self) -> None:
        """Connect and serve until the end. Raises SessionRefused, ConnectionClosed."""
        socket = await connect(
            self._config.socket_url,
            additional_headers={"Authorization": f"Bearer {self._config.token}"},
            user_agent_header=f"web-profile-agent/{__version__}",
            # frames are small, so deflate would only cost time on both sides
            compression=None,
            max_size=_MOST_BYTES,
            ping_interval=self._policies.ping_s,
            ping_timeout=1.5 * self._policies.ping_s,
            close_timeout=2,
        )
        self._socket = socket
        try:
            await self._serve(socket)
        except ConnectionClosed as exc:
            _stop_if_closed(exc)
            raise
        except ValidationError as exc:
            # a frame contains presigned URLs, so only the location of the error is logged
            places = [".".join(map(str, error["loc"])) for error in exc.errors()]
            log.error("frame_not_understood places=%s", places[:5])  # noqa: TRY400
            await socket.close(CloseCode.BAD_FRAME, "frame not understood")
        finally:
            self._socket = None
            self._outbox.detach()
            await socket.close()

    async def _serve(self, socket: ClientConnection) -> None:
        await socket.send(encode(self._greet()))
        async with asyncio.timeout(_WELCOME_S):
            welcome = await _receive(socket)
        if not isinstance(welcome, Welcome):
            log.error("welcome_missing type=%s", welcome.type)
            return
        _compare_clocks(welcome)
        log.info("connected worker=%r", welcome.worker)
        self._welcomed(welcome)
        self._settled_at = time.monotonic() + self._policies.settled_s
        queue: asyncio.Queue[str] = asyncio.Queue()
        self._quiet_mode.heartbeat_s = welcome.heartbeat_s
        self._quiet_mode.renew()
        self._outbox.attach(queue.put_nowait)
        tasks = [
            asyncio.create_task(self._write(socket, queue)),
            asyncio.create_task(self._send_heartbeats(socket, welcome.heartbeat_s)),
            asyncio.create_task(self._repeat()),
        ]
        try:
            while True:
                self._attempts.handle(await _receive(socket))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _write(self, socket: ClientConnection, queue: asyncio.Queue[str]) -> None:
        # the receiving loop handles a closed connection
        with contextlib.suppress(ConnectionClosed):
            while True:
                frame = await queue.get()
                await self._wait_for_room()
                await socket.send(frame)

    async def _wait_for_room(self) -> None:
        """Wait until the server accepts another frame, for example after logs of many long scripts.

        The server counts the frames of all connections of the device.
        """
        now = time.monotonic()
        sent = max(0.0, self._frames - (now - self._sent_at) * _FRAMES_PER_S)
        self._frames, self._sent_at = sent + 1, now
        if self._frames > _FRAMES_AT_ONCE:
            await asyncio.sleep((self._frames - _FRAMES_AT_ONCE) / _FRAMES_PER_S)

    async def _send_heartbeats(self, socket: ClientConnection, interval_s: float) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                await asyncio.sleep(interval_s)
                if not self._quiet_mode.is_quiet:
                    # before the frames that wait, so that leases do not expire meanwhile
                    running = self._attempts.held()
                    await socket.send(encode(Heartbeat(sent_at=time.time(), running=running)))

    async def _repeat(self) -> None:
        while True:
            await asyncio.sleep(self._policies.repeat_s / 2)
            self._outbox.repeat()


async def _receive(socket: ClientConnection) -> ServerMessage:
    return decode_server(await socket.recv(decode=True))


def _compare_clocks(welcome: Welcome) -> None:
    ahead_s = time.time() - welcome.server_time
    if abs(ahead_s) > CLOCK_SLACK_S:
        log.warning("clock_differs ahead_s=%.1f", ahead_s)


def _stop_if_refused(status: int) -> None:
    """Raise SessionRefused if the handshake was answered with 401 or 403.

    401 is an unknown token, 403 a revoked one, or a rejection before the socket is opened.
    """
    if status == 401:
        raise SessionRefused(_STOPS[CloseCode.UNKNOWN_TOKEN])
    if status == 403:
        raise SessionRefused(f"the server refuses this agent's token: {ENROL_AGAIN}")


def _stop_if_closed(closed: ConnectionClosed) -> None:
    code = closed.rcvd.code if closed.rcvd else 0
    if code == CloseCode.TOO_OLD:
        raise AgentTooOld(_STOPS[CloseCode.TOO_OLD]) from closed
    if code in set(_STOPS):
        raise SessionRefused(_STOPS[CloseCode(code)]) from closed
    if code == CloseCode.BAD_FRAME:
        log.error("frame_refused reason=%r", closed.rcvd.reason if closed.rcvd else "")
