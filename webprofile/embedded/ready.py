"""How to see that a part answers. While it does not, a check is False or raises OSError."""

import http.client
import socket
from collections.abc import Callable
from pathlib import Path

Check = Callable[[], bool]
TIMEOUT_S = 2.0


def redis_answers(path: Path) -> Check:
    def check() -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(TIMEOUT_S)
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")

    return check


def http_answers(port: int, path: str = "/", status: int | None = None) -> Check:
    """`status` None: any answer will do. http.client knows no proxies from the environment."""

    def check() -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
        try:
            connection.request("GET", path)
            found = connection.getresponse().status
        except http.client.HTTPException:
            return False
        finally:
            connection.close()
        return status in (None, found)

    return check
