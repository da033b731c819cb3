"""Responses that are streamed while they are produced, so that they need not fit into memory."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse


def answer_of(
    request: HttpRequest, pieces: Iterable[bytes], content_type: str
) -> HttpResponse | StreamingHttpResponse:
    """Return a streaming response of `pieces`, or a plain response if they are a list."""
    if isinstance(pieces, list):
        return HttpResponse(b"".join(pieces), content_type=content_type)
    return streamed(request, pieces, content_type, close=lambda: None)


class _ClosingResponse(StreamingHttpResponse):
    """Calls `close` when the response has been sent or the client has gone."""

    def __init__(self, content: Any, content_type: str, close: Callable[[], None]) -> None:
        super().__init__(content, content_type=content_type)
        self._close_content = close

    def close(self) -> None:
        super().close()
        self._close_content()


def streamed(
    request: HttpRequest, pieces: Iterable[bytes], content_type: str, *, close: Callable[[], None]
) -> StreamingHttpResponse:
    """Return a streaming response of `pieces`; `close` is called at its end."""
    # Django consumes a synchronous iterator completely before an ASGI server gets the first piece
    is_async = isinstance(request, ASGIRequest)
    content = _in_thread(iter(pieces)) if is_async else pieces
    return _ClosingResponse(content, content_type, close)


async def _in_thread(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Produce each piece in the thread of the request, so that it delays no other request."""
    next_piece = sync_to_async(lambda: next(pieces, None))
    while (piece := await next_piece()) is not None:
        yield piece
