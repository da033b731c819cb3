"""The retry table: what is tried again, how often, and why so."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import httpx2


@dataclass(frozen=True)
class Policy:
    """`tries` in all, random waits between, in windows that double from `first_s` to `most_s`."""

    tries: int
    first_s: float
    most_s: float

    def delays(self) -> Iterator[float]:
        """Yield the wait before each further try: `tries - 1` values."""
        window = self.first_s
        for _ in range(self.tries - 1):
            yield random.uniform(0, window)
            window = min(2 * window, self.most_s)


@dataclass(frozen=True)
class Policies:
    """The table.

    download: a user waits in front of the queue, and the device is held meanwhile: a storage server
        that restarts is back within a minute, a longer outage should give the device to others.
    upload: the run is paid for already, so we wait longer (up to eight minutes) before it is lost;
        but never long at a time, or a storage that is back is not noticed.
    reconnect_*: a server that restarts meets all agents at once, so each picks a random moment in a
        window that doubles; the first window is short since most breaks are. The last one is a
        lease: who waits longer loses what runs here, and keeps results that users wait for.
    ping_s: how often a connection is tried, and 1.5 times that is how long an answer may take: one
        that a firewall forgot is found out before the server gives up what runs here (30 s).
    settled_s: a connection that lasted this long was a good one: windows start anew.
    repeat_s: a frame without acknowledgement is said again; the server drops what it knows.
    unanswered: after so many repeats, heard by a connected server, a question is given up.
    watch_s: how soon a change of the configuration is noticed.
    """

    download: Policy = Policy(tries=8, first_s=0.5, most_s=16)
    upload: Policy = Policy(tries=30, first_s=1, most_s=20)
    reconnect_first_s: float = 1
    reconnect_most_s: float = 30
    ping_s: float = 10
    settled_s: float = 10
    repeat_s: float = 5
    unanswered: int = 12
    watch_s: float = 5

    def reconnect_delays(self) -> Iterator[float]:
        """Yield waits without end."""
        window = self.reconnect_first_s
        while True:
            yield random.uniform(0, window)
            window = min(2 * window, self.reconnect_most_s)


def may_pass(status: int) -> bool:
    """Whether such a response may be different next time; every other 4xx stays as it is."""
    return status in (408, 425, 429) or status >= 500


def is_transport(error: Exception) -> bool:
    """Whether the network failed, not the request: DNS, refused, reset, timed out, cut short."""
    return isinstance(error, httpx2.TransportError) and not isinstance(
        error, httpx2.UnsupportedProtocol | httpx2.LocalProtocolError
    )
