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


def http_answers(port: int, path: str = "/", header: tuple[str, str] | None = None) -> Check:
    """Any answer will do, or one that is 200 and has `header`, which a stranger's has not.

    Such a stranger may have taken the port after it was found to be free. http.client knows no
    proxies from the environment.
    """

    def check() -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
        except http.client.HTTPException:
            return False
        finally:
            connection.close()
        return header is None or (answer.status, answer.getheader(header[0])) == (200, header[1])

    return check
