"""HTTP client of webhooks: one POST to a checked address, limited in time and response size."""

import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import structlog
import urllib3
from django.conf import settings

from accounts.webhooks.addresses import Endpoint, endpoint_of
from webprofile.errors import DomainError

log = structlog.get_logger()

CONNECT_S = 5.0
READ_S = 10.0
#: time limit of a whole call, so that a receiver that sends a byte now and then does not block the
#: actor
TOTAL_S = 15.0
#: number of bytes of the response that are read; only its status is used
ANSWER_BYTES = 16 * 1024


def send(url: str, body: bytes, headers: Mapping[str, str]) -> int:
    """Send a POST request to a webhook and return the status code; redirects are not followed.

    Proxies of the environment are ignored, because they would resolve the host name again.
    Raises DomainError: those of `endpoint_of`; webhook_tls, webhook_timeout, webhook_unreachable.
    """
    endpoint = endpoint_of(url)
    pool = urllib3.HTTPSConnectionPool(
        endpoint.address,
        port=endpoint.port,
        timeout=urllib3.Timeout(connect=CONNECT_S, read=READ_S),
        retries=False,
        maxsize=1,
        ssl_context=_ssl_context(),
        server_hostname=endpoint.host,
        assert_hostname=endpoint.host,
    )
    try:
        with _deadline(pool) as ended:
            status = _post(pool, endpoint, body, headers)
        # the parser of headers takes a closed connection for their end and reports no error
        if ended.is_set():
            raise DomainError("webhook_timeout")
    except urllib3.exceptions.HTTPError as error:
        raise _domain_error(error, is_late=ended.is_set()) from error
    finally:
        pool.close()
    return status


def _post(
    pool: urllib3.HTTPSConnectionPool, endpoint: Endpoint, body: bytes, headers: Mapping[str, str]
) -> int:
    port = "" if endpoint.port == 443 else f":{endpoint.port}"
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    response = pool.urlopen(
        "POST",
        endpoint.target,
        body=body,
        headers={
            "Host": host + port,
            "Content-Type": "application/json",
            "User-Agent": "webprofile",
            **headers,
            "Connection": "close",
        },
        redirect=False,
        retries=False,
        preload_content=False,
        decode_content=False,  # do not decompress what is thrown away
    )
    try:
        with suppress(urllib3.exceptions.HTTPError):
            response.read(ANSWER_BYTES)
        return int(response.status)
    finally:
        response.close()


@contextmanager
def _deadline(pool: urllib3.HTTPSConnectionPool) -> Iterator[threading.Event]:
    """Shut down the connection after `TOTAL_S`; the event tells whether that happened.

    Timeouts of sockets are not enough, because they restart with each byte.
    """
    ended = threading.Event()
    connections: list[urllib3.connection.HTTPSConnection] = []
    connection_class = pool.ConnectionCls

    class RecordedConnection(connection_class):  # type: ignore[misc, valid-type]
        def connect(self) -> None:
            connections.append(self)
            super().connect()

    pool.ConnectionCls = RecordedConnection

    def end() -> None:
        ended.set()
        for connection in connections:
            if connection.sock is not None:
                with suppress(OSError):
                    connection.sock.shutdown(2)

    timer = threading.Timer(TOTAL_S, end)
    timer.daemon = True
    timer.start()
    try:
        yield ended
    finally:
        timer.cancel()


def _ssl_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    if settings.WEBHOOK_CA_FILE:
        context.load_verify_locations(settings.WEBHOOK_CA_FILE)
    return context


def _domain_error(error: urllib3.exceptions.HTTPError, *, is_late: bool) -> DomainError:
    if is_late or isinstance(error, urllib3.exceptions.TimeoutError):
        return DomainError("webhook_timeout")
    if isinstance(error, urllib3.exceptions.SSLError):
        return DomainError("webhook_tls")
    return DomainError("webhook_unreachable")
