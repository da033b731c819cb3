"""A proxy that breaks connections after a number of bytes, like a bad network."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


@dataclass
class CuttingProxy:
    """The behaviour of the proxy. `down`, `up`: bytes after which the next connections break.

    request_heads: the head of each request; received: bytes sent to the client, by connection
    """

    address: str
    down: list[int] = field(default_factory=list)
    up: list[int] = field(default_factory=list)
    #: bytes after which the next connections stay open but forward no more responses
    silent: list[int] = field(default_factory=list)
    #: delay before each 64 KiB of a request
    slow_s: float = 0.0
    request_heads: list[str] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    received: list[int] = field(default_factory=list)

    #: connections that are open
    open_now: list[socket.socket] = field(default_factory=list)

    def end_all(self) -> None:
        """Break every connection."""
        for connection in list(self.open_now):
            _end(connection)

    def wait_until_ended(self, timeout_s: float = 30) -> None:
        """Wait until all data has been forwarded, as a killed program may have filled buffers."""
        until = time.monotonic() + timeout_s
        while self.open_now:
            if time.monotonic() > until:
                raise TimeoutError(f"{len(self.open_now)} connections are still open")
            time.sleep(0.05)

    @property
    def ranges(self) -> list[str]:
        """Return the Range header of each GET, empty for the whole file."""
        heads = [head for head in self.request_heads if head.startswith("GET")]
        return [_header(head, "range") for head in heads]


def _header(head: str, name: str) -> str:
    for line in head.splitlines():
        key, _, value = line.partition(":")
        if key.lower() == name:
            return value.strip()
    return ""


@contextlib.contextmanager
def cutting_proxy(target: tuple[str, int]) -> Iterator[CuttingProxy]:
    """Run a proxy to `target` that breaks connections."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = CuttingProxy(f"http://127.0.0.1:{listener.getsockname()[1]}")
        thread = threading.Thread(target=_serve, args=(listener, target, proxy))
        thread.start()
        try:
            yield proxy
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _serve(listener: socket.socket, target: tuple[str, int], proxy: CuttingProxy) -> None:
    threads = []
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            break
        thread = threading.Thread(target=_connect, args=(client, target, proxy))
        thread.start()
        threads.append((client, thread))
    for client, thread in threads:
        _end(client)
        thread.join()


def _connect(client: socket.socket, target: tuple[str, int], proxy: CuttingProxy) -> None:
    index = len(proxy.sent)
    proxy.sent.append(0)
    proxy.received.append(0)
    up = proxy.up.pop(0) if proxy.up else None
    down = proxy.down.pop(0) if proxy.down else None
    silent = proxy.silent.pop(0) if proxy.silent else None
    with client, socket.create_connection(target) as server:
        proxy.open_now += [client, server]

        def forward_response() -> None:
            for data in _until_cut(server, down):
                if silent is None or proxy.received[index] < silent:
                    client.sendall(data)
                    proxy.received[index] += len(data)

        def forward_requests() -> None:
            for data in _until_cut(client, up):
                if data.startswith((b"GET ", b"PUT ", b"POST ")):
                    proxy.request_heads.append(data.partition(b"\r\n\r\n")[0].decode("latin-1"))
                time.sleep(proxy.slow_s)
                server.sendall(data)
                proxy.sent[index] += len(data)

        def run_and_close(act: Callable[[], None]) -> None:
            with contextlib.suppress(OSError):
                act()
            _end(client)
            _end(server)

        back = threading.Thread(target=run_and_close, args=(forward_response,))
        back.start()
        run_and_close(forward_requests)
        back.join()
        proxy.open_now.remove(client)
        proxy.open_now.remove(server)


def _until_cut(source: socket.socket, limit: int | None) -> Iterator[bytes]:
    left = limit
    while left != 0 and (data := source.recv(1 << 16)):
        if left is not None:
            data = data[:left]
            left -= len(data)
        yield data


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
