"""One call of a webhook: to the address that was checked, once, bounded in time and size."""

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
#: of a whole call: a receiver that sends a byte now and then keeps no actor
TOTAL_S = 15.0
#: of the answer nothing is used but its status
ANSWER_BYTES = 16 * 1024


def send(url: str, body: bytes, headers: Mapping[str, str]) -> int:
    """POST to a webhook and return the answer's status; a redirect is an answer, never followed.

    Proxies of the environment are not asked: they would resolve the name once more.
    Raises DomainError: those of `endpoint_of`; webhook_tls, webhook_timeout, webhook_unreachable.
    """
    endpoint = endpoint_of(url)
    pool = urllib3.HTTPSConnectionPool(
        endpoint.address,
        port=endpoint.port,
        timeout=urllib3.Timeout(connect=CONNECT_S, read=READ_S),
        retries=False,
        maxsize=1,
        ssl_context=_trust(),
        server_hostname=endpoint.host,
        assert_hostname=endpoint.host,
    )
    try:
        with _deadline(pool) as ended:
            status = _post(pool, endpoint, body, headers)
        if ended.is_set():  # to what parses headers, a cut connection is their end
            raise DomainError("webhook_timeout")
    except urllib3.exceptions.HTTPError as error:
        raise _told(error, is_late=ended.is_set()) from error
    finally:
        pool.close()
    return status


def _post(
    pool: urllib3.HTTPSConnectionPool, endpoint: Endpoint, body: bytes, headers: Mapping[str, str]
) -> int:
    at = "" if endpoint.port == 443 else f":{endpoint.port}"
    name = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    given = {"Host": name + at, "Content-Type": "application/json", "User-Agent": "webprofile"}
    answer = pool.urlopen(
        "POST",
        endpoint.target,
        body=body,
        headers={**given, **headers, "Connection": "close"},
        redirect=False,
        retries=False,
        preload_content=False,
        decode_content=False,  # what is packed stays packed
    )
    try:
        with suppress(urllib3.exceptions.HTTPError):
            answer.read(ANSWER_BYTES)
        return int(answer.status)
    finally:
        answer.close()


@contextmanager
def _deadline(pool: urllib3.HTTPSConnectionPool) -> Iterator[threading.Event]:
    """Shut the connection when the time is over; timeouts of sockets begin anew with each byte."""
    ended = threading.Event()
    made: list[urllib3.connection.HTTPSConnection] = []
    connect = pool.ConnectionCls

    class Watched(connect):  # type: ignore[misc, valid-type]
        def connect(self) -> None:
            made.append(self)
            super().connect()

    pool.ConnectionCls = Watched

    def end() -> None:
        ended.set()
        for each in made:
            if each.sock is not None:
                with suppress(OSError):
                    each.sock.shutdown(2)

    timer = threading.Timer(TOTAL_S, end)
    timer.daemon = True
    timer.start()
    try:
        yield ended
    finally:
        timer.cancel()


def _trust() -> ssl.SSLContext:
    context = ssl.create_default_context()
    if settings.WEBHOOK_CA_FILE:
        context.load_verify_locations(settings.WEBHOOK_CA_FILE)
    return context


def _told(error: urllib3.exceptions.HTTPError, *, is_late: bool) -> DomainError:
    if is_late or isinstance(error, urllib3.exceptions.TimeoutError):
        return DomainError("webhook_timeout")
    if isinstance(error, urllib3.exceptions.SSLError):
        return DomainError("webhook_tls")
    return DomainError("webhook_unreachable")
