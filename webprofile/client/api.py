"""HTTP client of the site's API, with retries.

Temporary failures (no connection, 429, 502 to 504) are retried after the response's `Retry-After`
or with exponential backoff. Only idempotent requests are retried: a POST that creates something has
an `Idempotency-Key`.
"""

import os
import random
import re
import ssl
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, BinaryIO, Self, TextIO

import httpx2

from webprofile.client.batchfile.local_files import LocalFile
from webprofile.client.errors import ClientError, ProblemError, UnreachableError
from webprofile.client.login_file import Login
from webprofile.client.version import __version__

ATTEMPTS = 6
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 120.0
_TEMPORARY = frozenset({429, 502, 503, 504})
_TIMEOUT = httpx2.Timeout(30.0, read=120.0)
_PIECE_BYTES = 1 << 20
#: variables of the terminal's language, in gettext's order; the first non-empty one wins
_LANGUAGE_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")
_LOCALE = re.compile(r"([a-z]{2,3})(?:[_-]([A-Za-z]{2,4}))?(?:[.@].*)?", re.ASCII)

Query = list[tuple[str, str | int | float | bool | None]]


class Api:
    """Requests below `/api/v1/` of one site.

    log: stream to which long operations write their progress; by default stderr
    """

    def __init__(self, login: Login, log: TextIO | None = None) -> None:
        self.site = login.site
        self.log = log or sys.stderr
        headers = {
            "User-Agent": f"webprofile/{__version__}",
            "Accept-Language": accept_language(os.environ),
        }
        # the API responds with JSON only; a proxy's error page is not a response of the API
        self._http = httpx2.Client(timeout=_TIMEOUT, headers=headers, verify=_ssl_context())
        self._token = login.token

    def get(self, path: str, query: Query | None = None) -> Any:
        return self._decoded(self._send("GET", path, query=query))

    def fetch(self, path: str, query: Query | None = None) -> bytes:
        """Return the content of a response that is not JSON."""
        return self._answer(self._send("GET", path, query=query, accept="*/*")).content

    def download(self, path: str) -> Iterator[bytes]:
        """Yield the content of a file, to whose presigned URL the site redirects.

        The token is not sent there. Raises UnreachableError.
        """
        answer = self._send("GET", path, accept="*/*")
        if not answer.has_redirect_location:
            yield self._answer(answer).content
            return
        try:
            with self._http.stream("GET", answer.headers["Location"]) as stored:
                if not stored.is_success:
                    raise UnreachableError(f"The storage answered {stored.status_code}")
                yield from stored.iter_bytes(_PIECE_BYTES)
        except httpx2.TransportError as error:
            raise UnreachableError(f"The storage does not answer: {error}") from error

    def post(self, path: str, body: Any = None, *, key: str = "", repeatable: bool = False) -> Any:
        """Send a POST and return the decoded response, None for 204.

        key: an Idempotency-Key
        repeatable: whether the request is idempotent without a key, so that it may be retried
        """
        headers = {"Idempotency-Key": key} if key else {}
        answer = self._send(
            "POST", path, body=body, headers=headers, repeatable=repeatable or bool(key)
        )
        return self._decoded(answer) if answer.status_code != 204 else None

    def delete(self, path: str) -> None:
        self._answer(self._send("DELETE", path))

    def pages(self, path: str, query: Query | None = None) -> Iterator[dict[str, Any]]:
        """Yield all rows of a list and fetch its pages as needed."""
        page = self.get(path, [*(query or []), ("limit", 200)])
        while True:
            yield from page["results"]
            if not page["next"]:
                return
            cursor = httpx2.URL(page["next"]).params["cursor"]
            page = self.get(path, [*(query or []), ("limit", 200), ("cursor", cursor)])

    def put_file(
        self,
        url: str,
        headers: Mapping[str, str],
        file: LocalFile,
        sent: Callable[[int], object] = lambda size_bytes: None,
        renew: Callable[[], Mapping[str, Any] | None] | None = None,
    ) -> None:
        """Upload a file to a presigned URL, without the token, which only the site may receive.

        sent: called with the number of bytes sent so far, which restarts at zero in a retry
        renew: returns the upload with another URL if this one has expired; None if the file has
            been uploaded meanwhile

        Raises UnreachableError; ClientError if the file cannot be read any more.
        """
        length = {"Content-Length": str(file.size_bytes)}
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with file.path.open("rb") as opened:
                    content = _pieces(opened, sent)
                    answer = self._http.put(url, headers={**headers, **length}, content=content)
            except OSError as error:
                raise ClientError(f"{file.path}: {error.strerror or error}") from error
            except httpx2.LocalProtocolError as error:
                # the file is longer or shorter than its Content-Length
                raise ClientError(f"{file.path} changed while it was sent") from error
            except httpx2.TransportError as error:
                if attempt == ATTEMPTS:
                    raise UnreachableError(f"The storage does not answer: {error}") from error
                time.sleep(pause_s(attempt))
                continue
            if answer.is_success:
                return
            renews = renew if answer.status_code == 403 else None
            may_pass = renews or answer.status_code == 429 or answer.status_code >= 500
            if not may_pass or attempt == ATTEMPTS:
                raise UnreachableError(
                    f"Uploading {file.name} failed: the storage answered {answer.status_code}"
                )
            time.sleep(pause_s(attempt))
            if renews:
                target = renews()
                if target is None:
                    return
                url, headers = target["url"], target["headers"]

    def put(self, url: str, headers: Mapping[str, str], data: bytes) -> httpx2.Response:
        """Upload a part of a file once, without the token. Raises httpx2.TransportError."""
        return self._http.put(url, headers=dict(headers), content=data)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        accept: str = "application/json",
        repeatable: bool = False,
    ) -> httpx2.Response:
        """Send a request with retries; return the last response. Raises UnreachableError."""
        may_repeat = repeatable or method in {"GET", "DELETE"}
        all_headers = {"Accept": accept, **(headers or {})}
        if self._token:
            all_headers["Authorization"] = f"Bearer {self._token}"
        address = f"{self.site}/api/v1/{path}"
        for attempt in range(1, ATTEMPTS + 1):
            try:
                answer = self._http.request(
                    method, address, params=query, json=body, headers=all_headers
                )
            except httpx2.TransportError as error:
                if not may_repeat or attempt == ATTEMPTS:
                    why = str(error) or type(error).__name__
                    raise UnreachableError(f"{self.site} does not answer: {why}") from error
                time.sleep(pause_s(attempt))
                continue
            is_temporary = answer.status_code in _TEMPORARY or _is_in_progress(answer)
            # a request that was refused with 429 was not processed, so any may be repeated
            may_retry = may_repeat or answer.status_code == 429
            if not is_temporary or not may_retry or attempt == ATTEMPTS:
                return answer
            time.sleep(pause_s(attempt, answer.headers.get("Retry-After", "")))
        raise AssertionError  # the loop returns or raises

    def _decoded(self, answer: httpx2.Response) -> Any:
        """Return the content of a successful response; raise as `_answer`."""
        try:
            return self._answer(answer).json()
        except ValueError as error:
            raise ClientError(
                f"{self.site} did not answer with JSON at {answer.url.path}. Check the URL of the "
                "site."
            ) from error

    def _answer(self, answer: httpx2.Response) -> httpx2.Response:
        """Return a successful response; raise ProblemError, or ClientError for other failures."""
        if answer.is_success:
            return answer
        try:
            body = answer.json()
        except ValueError:
            body = None
        if isinstance(body, dict) and "code" in body:
            raise ProblemError(answer.status_code, body)
        if answer.status_code >= 500:
            raise UnreachableError(f"{self.site} answered {answer.status_code}")
        # following a redirect would send the token to another site
        to = f" (go to {answer.headers['Location']})" if answer.has_redirect_location else ""
        raise ClientError(
            f"{self.site} answered {answer.status_code} at {answer.url.path}{to}. Check the URL of "
            "the site."
        )


@cache
def _ssl_context() -> ssl.SSLContext:
    """Return the context of all connections: reading the certificates takes 20 ms of CPU time."""
    return httpx2.create_ssl_context()


def _pieces(opened: BinaryIO, sent: Callable[[int], object]) -> Iterator[bytes]:
    size_bytes = 0
    while piece := opened.read(_PIECE_BYTES):
        yield piece
        size_bytes += len(piece)
        sent(size_bytes)


def _is_in_progress(answer: httpx2.Response) -> bool:
    """Return whether an earlier request with the same key is still being processed."""
    return answer.status_code == 409 and b"idempotency_in_progress" in answer.content


def pause_s(attempt: int, retry_after: str = "") -> float:
    """Return the pause after attempt number `attempt`, which starts at 1."""
    if retry_after.isascii() and retry_after.isdigit():
        return min(float(retry_after), LONGEST_PAUSE_S)
    # jitter, so that many clients do not retry at the same time
    return FIRST_PAUSE_S * 2.0 ** (attempt - 1) * random.uniform(0.8, 1.2)


def accept_language(environment: Mapping[str, str]) -> str:
    """Return the `Accept-Language` of this terminal, such as `zh-CN, zh` for `zh_CN.UTF-8`.

    The languages of `LANGUAGE` come first, unless the locale is C. Without a language it is `en`.
    """
    locale = next(filter(None, (environment.get(name, "") for name in _LANGUAGE_VARIABLES)), "")
    locales = [locale]
    if _LOCALE.fullmatch(locale):
        locales = [*environment.get("LANGUAGE", "").split(":"), locale]
    tags: list[str] = []
    for name in locales:
        if match := _LOCALE.fullmatch(name):
            language, region = match.groups()
            tags += [f"{language}-{region}", language] if region else [language]
    return ", ".join(dict.fromkeys(tags)) or "en"
