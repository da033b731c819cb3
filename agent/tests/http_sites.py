"""HTTP servers that a test starts in a thread and ends."""

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseServer


class QuietHandler(BaseHTTPRequestHandler):
    """Request handler that writes complete responses and logs nothing."""

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def serving(server: BaseServer) -> Iterator[None]:
    """Run a server; afterwards the port is closed and the thread has ended."""
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class HttpSite:
    """A site that answers requests with the result of `reply` and records their paths."""

    def __init__(self) -> None:
        self.requested_paths: list[str] = []
        site = self

        class SiteHandler(QuietHandler):
            def do_GET(self) -> None:
                self._reply(b"")

            def do_POST(self) -> None:
                self._reply(self.rfile.read(int(self.headers["Content-Length"])))

            def _reply(self, body: bytes) -> None:
                site.requested_paths.append(self.path)
                authorization = self.headers.get("Authorization", "")
                self.answer(*site.reply(self.path, authorization, body))

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), SiteHandler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def reply(self, path: str, authorization: str, body: bytes) -> tuple[int, bytes]:
        raise NotImplementedError
