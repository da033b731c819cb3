"""HTTP servers that a test starts in a thread and ends."""

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from socketserver import BaseServer


class Answering(BaseHTTPRequestHandler):
    """Writes whole answers, and nothing to the terminal."""

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def serving(server: BaseServer) -> Iterator[None]:
    """Afterwards the port is closed and the thread has ended."""
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
