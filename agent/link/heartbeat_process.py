"""A small process that renews the leases of running attempts: `agent.link.heartbeat_process`.

While a model is measured the agent itself stays quiet, and it may be blocked; this process sleeps
in between and needs half a millisecond a beat. It is told what to do by JSON lines on its stdin,
`agent.link.heartbeat` writes them:

    {"server": "https://...", "token": "...", "cores": [3]}    first, once
    {"running": ["<uuid>", ...], "every_s": 10}                beat, the first time at once
    {"rest": true}                                             stop beating

On its stdout it says `well` when beats begin to arrive and `unwell` when they do not any more, so
that the agent can beat by itself. The end of stdin is the agent's end, and its own. It imports
little on purpose: it must be small and must not depend on the packages that the agent needs.
"""

import contextlib
import http.client
import json
import os
import select
import sys
import time
from urllib.parse import urlsplit

PATH = "/api/agent/heartbeat/"
#: exit status after the server refused the token
REFUSED = 3
_PRIORITY = -5
_MOST_WAIT_S = 10.0


class Refused(Exception):
    """The server does not accept the token, now or later."""


class Line:
    """One kept connection to the server; opened when it is needed."""

    def __init__(self, server: str, token: str) -> None:
        self._url, self._token = urlsplit(server), token
        self._connection: http.client.HTTPConnection | None = None

    def send(self, running: list[str], timeout_s: float) -> None:
        """Beat once. Raises OSError, http.client.HTTPException, Refused."""
        body = json.dumps({"running": running, "sent_at": time.time()})
        kept = self._connection is not None
        try:
            status = self._post(body, timeout_s)
        except (OSError, http.client.HTTPException):
            self.close()
            if not kept:
                raise
            # the server may have closed a connection that was idle: that is no failure yet
            status = self._post(body, timeout_s)
        if status in (401, 403):
            raise Refused(f"the server answered {status}")
        if status != 200:
            raise http.client.HTTPException(f"the server answered {status}")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _post(self, body: str, timeout_s: float) -> int:
        if self._connection is None:
            self._connection = _connect(self._url.scheme, self._url.netloc, timeout_s)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        # through a proxy that makes no tunnel, the whole address is asked for
        absolute = self._url.scheme == "http" and self._connection.host != self._url.hostname
        target = f"http://{self._url.netloc}" if absolute else ""
        path = self._url.path.rstrip("/") + PATH
        self._connection.request("POST", target + path, body, headers)
        response = self._connection.getresponse()
        response.read()
        return response.status


def _connect(scheme: str, netloc: str, timeout_s: float) -> http.client.HTTPConnection:
    """A connection, through the proxy that the environment names if it names one."""
    proxy = _proxy(scheme, netloc)
    if scheme == "http":
        return http.client.HTTPConnection(proxy or netloc, timeout=timeout_s)
    connection = http.client.HTTPSConnection(proxy or netloc, timeout=timeout_s)
    if proxy:
        connection.set_tunnel(netloc)
    return connection


def _proxy(scheme: str, netloc: str) -> str:
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return ""
    from urllib.request import getproxies_environment, proxy_bypass  # large, and rare

    address = getproxies_environment().get(scheme, "")
    host = urlsplit(f"//{netloc}").hostname or ""
    if not address or proxy_bypass(host):
        return ""
    return urlsplit(address if "//" in address else f"//{address}").netloc.rpartition("@")[2]


class Heart:
    """What is to be done next, and when. All times are monotonic."""

    def __init__(self) -> None:
        self._line: Line | None = None
        self._running: list[str] = []
        self._every_s = 0.0
        self._next_s: float | None = None
        self._well: bool | None = None

    def wait_s(self) -> float | None:
        """How long to sleep; None: until there is an order."""
        return None if self._next_s is None else max(0.0, self._next_s - time.monotonic())

    def obey(self, order: dict[str, object]) -> None:
        """Take one line in. An order repeated changes nothing, not even the rhythm."""
        if "server" in order:
            self._line = Line(str(order["server"]), str(order["token"]))
            _settle(order.get("cores"))
        elif "running" in order:
            running, every_s = list(order["running"]), float(order["every_s"])  # type: ignore[call-overload,arg-type]
            if (running, every_s) != (self._running, self._every_s) or self._next_s is None:
                self._running, self._every_s = running, every_s
                self._next_s = time.monotonic()
        else:
            self._next_s = None

    def beat(self) -> None:
        """Beat if it is time. Raises Refused."""
        if self._next_s is None or self._line is None or time.monotonic() < self._next_s:
            return
        try:
            self._line.send(self._running, min(self._every_s, _MOST_WAIT_S))
            self._report(well=True)
        except (OSError, http.client.HTTPException) as exc:
            self._line.close()
            self._report(well=False, cause=f"{type(exc).__name__}: {exc}")
        # the rhythm is kept; beats that a slow server has cost are not made up for
        now = time.monotonic()
        missed = int((now - self._next_s) / self._every_s)
        self._next_s += self._every_s * (missed + 1)

    def _report(self, *, well: bool, cause: str = "") -> None:
        """Say what has changed, and nothing as long as nothing has."""
        if well is self._well:
            return
        self._well = well
        if not well:
            _tell(f"heartbeat_failed cause={cause!r}")
        sys.stdout.write("well\n" if well else "unwell\n")
        sys.stdout.flush()


def main() -> int:
    """Obey and beat until stdin ends."""
    heart, rest = Heart(), b""
    try:
        while True:
            ready, _, _ = select.select([0], [], [], heart.wait_s())
            if ready:
                piece = os.read(0, 1 << 16)
                if not piece:
                    return 0
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    heart.obey(json.loads(line))
            heart.beat()
    except Refused as exc:
        _tell(f"heartbeat_refused text={str(exc)!r}")
        return REFUSED
    except KeyboardInterrupt:
        # Ctrl-C reaches the whole group; the agent decides when this ends, by closing stdin
        return 0


def _settle(cores: object) -> None:
    """A core that is not measured, and precedence over what is, as far as we may."""
    # an ordinary user may not; nothing depends on it
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, _PRIORITY)
    if isinstance(cores, list) and cores and hasattr(os, "sched_setaffinity"):
        try:
            os.sched_setaffinity(0, cores)
        except OSError as exc:
            _tell(f"heart_not_bound text={str(exc)!r}")


def _tell(text: str) -> None:
    sys.stderr.write(f"agent.link.heartbeat_process {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
