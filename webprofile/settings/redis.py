"""Address of Redis, with time limits."""

from urllib.parse import parse_qsl, urlencode

SOCKET_TIMEOUT_S = 10
CONNECT_TIMEOUT_S = 5
#: interval of pings by which a connection that only listens notices a failure
ASKED_EVERY_S = 10


def patient(url: str) -> str:
    """Return the address with limits on waiting, unless it has its own.

    redis-py waits for ever by itself: a Redis whose machine is gone, or a firewall that forgot the
    connection, would hold each thread that asks it.
    """
    place, _, query = url.partition("?")
    limits = {
        "socket_timeout": str(SOCKET_TIMEOUT_S),
        "health_check_interval": str(ASKED_EVERY_S),
    }
    if not place.startswith("unix:"):
        limits["socket_connect_timeout"] = str(CONNECT_TIMEOUT_S)
    return f"{place}?{urlencode(limits | dict(parse_qsl(query)))}"
