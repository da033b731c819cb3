"""Responses that are streamed while they are produced, so that they need not fit into memory."""

from collections.abc import AsyncIterator, Iterable, Iterator

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse


def answer_of(
    request: HttpRequest, pieces: Iterable[bytes], content_type: str
) -> HttpResponse | StreamingHttpResponse:
    """Return a streaming response of `pieces`, or a plain response if they are a list."""
    if isinstance(pieces, list):
        return HttpResponse(b"".join(pieces), content_type=content_type)
    # Django consumes a synchronous iterator completely before an ASGI server gets the first piece
    is_async = isinstance(request, ASGIRequest)
    content = _in_thread(iter(pieces)) if is_async else pieces
    return StreamingHttpResponse(content, content_type=content_type)


async def _in_thread(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Produce each piece in the thread of the request, so that it delays no other request."""
    next_piece = sync_to_async(lambda: next(pieces, None))
    while (piece := await next_piece()) is not None:
        yield piece
