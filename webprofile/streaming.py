"""Answers that are sent while they are made, so that no server holds them whole."""

from collections.abc import AsyncIterator, Iterable, Iterator

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse


def answer_of(
    request: HttpRequest, pieces: Iterable[bytes], content_type: str
) -> HttpResponse | StreamingHttpResponse:
    """Return an answer of these pieces; a list of them is there already and is sent at once."""
    if isinstance(pieces, list):
        return HttpResponse(b"".join(pieces), content_type=content_type)
    # Django would make all pieces of a plain iterator before an ASGI server gets the first
    is_async = isinstance(request, ASGIRequest)
    content = _in_thread(iter(pieces)) if is_async else pieces
    return StreamingHttpResponse(content, content_type=content_type)


async def _in_thread(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Each piece is made in the request's own thread, not between those of all others."""
    following = sync_to_async(lambda: next(pieces, None))
    while (piece := await following()) is not None:
        yield piece
