"""A separate small process that sends HTTP heartbeats to renew the leases of running attempts.

While a model is measured the agent sends nothing itself, and it may be blocked. This process needs
half a millisecond of CPU time per heartbeat and sleeps in between. `agent.link.heartbeat` controls
it by JSON lines on its stdin:

    {"server": "https://...", "token": "...", "cores": [3]}    configuration, sent once
    {"running": ["<uuid>", ...], "every_s": 10}                send heartbeats, the first at once
    {"rest": true}                                             pause

It prints its status to stdout whenever it changes: `well` while heartbeats arrive, `orders` if they
arrive and the server has orders for this device, `unwell` while they fail. Unless it is well, the
agent sends heartbeats on its socket, whose replies contain the orders. The process exits when its
stdin is closed, i.e. when the agent ends. It imports few modules, so that it stays small, and the
standard library only.
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
    """The server rejects the token permanently."""


class HeartbeatConnection:
    """A persistent HTTP connection to the server, opened on first use."""

    def __init__(self, server: str, token: str) -> None:
        self._url, self._token = urlsplit(server), token
        self._connection: http.client.HTTPConnection | None = None

    def send(self, running: list[str], timeout_s: float) -> bool:
        """Send one heartbeat, and return whether the server has orders for this device.

        Raises OSError, http.client.HTTPException, Refused.
        """
        body = json.dumps({"running": running, "sent_at": time.time()})
        is_reused = self._connection is not None
        try:
            status, answer = self._post(body, timeout_s)
        except (OSError, http.client.HTTPException):
            self.close()
            if not is_reused:
                raise
            # the server may have closed the idle connection, so try once with a new one
            status, answer = self._post(body, timeout_s)
        if status in (401, 403):
            raise Refused(f"the server answered {status}")
        if status != 200:
            raise http.client.HTTPException(f"the server answered {status}")
        return _has_orders(answer)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _post(self, body: str, timeout_s: float) -> tuple[int, bytes]:
        if self._connection is None:
            self._connection = _connect(self._url.scheme, self._url.netloc, timeout_s)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        # a proxy without a tunnel needs the absolute URL in the request line
        absolute = self._url.scheme == "http" and self._connection.host != self._url.hostname
        target = f"http://{self._url.netloc}" if absolute else ""
        path = self._url.path.rstrip("/") + PATH
        self._connection.request("POST", target + path, body, headers)
        response = self._connection.getresponse()
        return response.status, response.read()


def _has_orders(answer: bytes) -> bool:
    """Return whether the server has orders; false for an unreadable answer."""
    try:
        fields = json.loads(answer)
    except ValueError:
        return False
    return isinstance(fields, dict) and fields.get("has_orders") is True


def _connect(scheme: str, netloc: str, timeout_s: float) -> http.client.HTTPConnection:
    """Open a connection, through the proxy that the environment configures, if any."""
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
    from urllib.request import getproxies_environment, proxy_bypass  # large, rarely needed

    address = getproxies_environment().get(scheme, "")
    host = urlsplit(f"//{netloc}").hostname or ""
    if not address or proxy_bypass(host):
        return ""
    return urlsplit(address if "//" in address else f"//{address}").netloc.rpartition("@")[2]


class HeartbeatSchedule:
    """Keeps the current order and sends heartbeats on time. All times are monotonic."""

    def __init__(self) -> None:
        self._connection: HeartbeatConnection | None = None
        self._running: list[str] = []
        self._every_s = 0.0
        self._next_s: float | None = None
        self._status = ""

    def wait_s(self) -> float | None:
        """Seconds until the next heartbeat, None to wait for an order."""
        return None if self._next_s is None else max(0.0, self._next_s - time.monotonic())

    def apply_order(self, order: dict[str, object]) -> None:
        """Apply an order. Repeating an order changes nothing, not even the time of the next one."""
        if "server" in order:
            self._connection = HeartbeatConnection(str(order["server"]), str(order["token"]))
            _set_priority_and_cores(order.get("cores"))
        elif "running" in order:
            running, every_s = list(order["running"]), float(order["every_s"])  # type: ignore[call-overload,arg-type]
            if (running, every_s) != (self._running, self._every_s) or self._next_s is None:
                self._running, self._every_s = running, every_s
                self._next_s = time.monotonic()
        else:
            self._next_s = None

    def send_if_due(self) -> None:
        """Send a heartbeat if one is due. Raises Refused."""
        if self._next_s is None or self._connection is None or time.monotonic() < self._next_s:
            return
        try:
            has_orders = self._connection.send(self._running, min(self._every_s, _MOST_WAIT_S))
            self._report("orders" if has_orders else "well")
        except (OSError, http.client.HTTPException) as exc:
            self._connection.close()
            self._report("unwell", cause=f"{type(exc).__name__}: {exc}")
        # keep the interval; heartbeats missed because of a slow server are skipped
        now = time.monotonic()
        missed = int((now - self._next_s) / self._every_s)
        self._next_s += self._every_s * (missed + 1)

    def _report(self, status: str, cause: str = "") -> None:
        """Print the status to stdout if it has changed."""
        if status == self._status:
            return
        self._status = status
        if status == "unwell":
            _log(f"heartbeat_failed cause={cause!r}")
        sys.stdout.write(f"{status}\n")
        sys.stdout.flush()


def main() -> int:
    """Read orders and send heartbeats until stdin is closed; return the exit status."""
    schedule, rest = HeartbeatSchedule(), b""
    try:
        while True:
            ready, _, _ = select.select([0], [], [], schedule.wait_s())
            if ready:
                piece = os.read(0, 1 << 16)
                if not piece:
                    return 0
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    schedule.apply_order(json.loads(line))
            schedule.send_if_due()
    except Refused as exc:
        _log(f"heartbeat_refused text={str(exc)!r}")
        return REFUSED
    except KeyboardInterrupt:
        # Ctrl-C reaches the whole process group
        return 0


def _set_priority_and_cores(cores: object) -> None:
    """Raise the priority of this process and bind it to cores that are not measured."""
    # only root may raise the priority; heartbeats work without
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, _PRIORITY)
    if isinstance(cores, list) and cores:
        try:
            os.sched_setaffinity(0, cores)
        except OSError as exc:
            _log(f"heartbeat_process_not_bound text={str(exc)!r}")


def _log(text: str) -> None:
    sys.stderr.write(f"agent.link.heartbeat_process {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
