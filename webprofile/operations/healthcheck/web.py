"""HTTP requests of the checks: without redirects and retries, with short time limits."""

from collections.abc import Mapping
from dataclasses import dataclass

import urllib3

from webprofile.operations.healthcheck.finding import patience_s

_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


class Unreachable(Exception):
    """No response; the text has the cause."""


def ask(
    method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes | None = None
) -> Answer:
    """Send a request and return the response, with at most 1 MiB of its body.

    Raises Unreachable if there is no response.
    """
    try:
        with urllib3.PoolManager(timeout=urllib3.Timeout(patience_s()), retries=False) as pool:
            answer = pool.request(
                method, url, headers=dict(headers or {}), body=body,
                redirect=False, preload_content=False,
            )  # fmt: skip
            return Answer(answer.status, answer.headers, answer.read(_MOST_BYTES))
    except urllib3.exceptions.HTTPError as error:
        raise Unreachable(_words(url, error)) from error


def _words(url: str, error: Exception) -> str:
    parts = urllib3.util.parse_url(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    text = str(error)
    if isinstance(error, urllib3.exceptions.NameResolutionError):
        return f"{origin}: the host name cannot be resolved."
    if isinstance(error, urllib3.exceptions.SSLError) or "CERTIFICATE" in text:
        return f"{origin}: the certificate is not accepted ({_tail(text)})."
    if "refused" in text.lower():
        return f"{origin}: the connection was refused."
    if isinstance(error, urllib3.exceptions.TimeoutError):
        return f"{origin} does not answer in time."
    return f"{origin} does not answer ({_tail(text)})."


def _tail(text: str) -> str:
    return text.rpartition(": ")[2].strip("')\"> ")[:120]
