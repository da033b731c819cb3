"""Retry policies: which operations are retried, how often, and after which delays."""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

import httpx2


@dataclass(frozen=True)
class Policy:
    """At most `tries` tries; random delays in windows that double from `first_s` to `most_s`.

    If `tries` is None, their number is not limited.
    """

    tries: int | None
    first_s: float
    most_s: float

    def delays(self) -> Iterator[float]:
        """Yield the delay before each further try."""
        window = self.first_s
        for _ in itertools.count() if self.tries is None else range(self.tries - 1):
            yield random.uniform(0, window)
            window = min(2 * window, self.most_s)


@dataclass(frozen=True)
class Policies:
    """The retry policies and intervals of the agent.

    download: the device is occupied during a download. A storage server that restarts is back
        within a minute; during a longer outage the device should be free for other tasks.
    upload: the run has already been done, so retries continue for up to eight minutes before its
        result is lost. Single delays are short, so that the end of an outage is noticed soon.
    reconnect: when a server restarts, all agents reconnect at once, so each one picks a random
        moment in a window that doubles. The first window is short because most outages are. The
        last window is as long as a lease: an agent that waits longer loses its running attempts and
        delays finished results.
    ping_s: the interval of WebSocket pings; a pong may take 1.5 times as long. A connection that a
        firewall dropped silently is thus detected before the lease expires (30 s).
    settled_s: the time after a welcome from which the reconnect windows start from the first one
        again. A server that accepts connections but answers none must not get them faster.
    repeat_s: an unacknowledged frame is repeated after this time; the server drops repetitions.
    unanswered: a request is given up after this many repetitions to a connected server.
    watch_s: the interval of checks for changes of the configuration.
    """

    download: Policy = Policy(tries=8, first_s=0.5, most_s=16)
    upload: Policy = Policy(tries=30, first_s=1, most_s=20)
    reconnect: Policy = Policy(tries=None, first_s=1, most_s=30)
    ping_s: float = 10
    settled_s: float = 10
    repeat_s: float = 5
    unanswered: int = 12
    watch_s: float = 5


def may_pass(status: int) -> bool:
    """Return whether a request with this response status is worth a retry; other 4xx are not."""
    return status in (408, 425, 429) or status >= 500


def is_transport(error: Exception) -> bool:
    """Return whether the network failed rather than the request (DNS, refused, reset, timeout)."""
    return isinstance(error, httpx2.TransportError) and not isinstance(
        error, httpx2.UnsupportedProtocol | httpx2.LocalProtocolError
    )
