"""A document that was made compressed, as an answer."""

import gzip

from django.http import HttpRequest, HttpResponse


def packed_json(request: HttpRequest, packed: bytes) -> HttpResponse:
    """JSON as it was compressed by gzip; unpacked only for who does not take that."""
    response = HttpResponse(content_type="application/json")
    response["Vary"] = "Accept-Encoding"
    response["Cache-Control"] = "private, no-store"
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        response["Content-Encoding"] = "gzip"
        response.content = packed
    else:
        response.content = gzip.decompress(packed)
    return response
