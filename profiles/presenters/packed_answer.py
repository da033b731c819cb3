"""HTTP response with a JSON document that is stored compressed."""

import gzip

from django.http import HttpRequest, HttpResponse


def packed_json(request: HttpRequest, packed: bytes) -> HttpResponse:
    """Return gzip-compressed JSON; it is decompressed only if the client does not accept gzip."""
    response = HttpResponse(content_type="application/json")
    response["Vary"] = "Accept-Encoding"
    response["Cache-Control"] = "private, no-store"
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        response["Content-Encoding"] = "gzip"
        response.content = packed
    else:
        response.content = gzip.decompress(packed)
    return response
