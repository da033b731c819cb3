"""Files of a viewer: kept by browsers for good, since their address changes with their content."""

import mimetypes
from collections.abc import Callable
from pathlib import Path

from django.http import HttpRequest, HttpResponse

_PACKED = {".js", ".json", ".css", ".ico", ".wasm"}
_KINDS = {".js": "text/javascript", ".wasm": "application/wasm", ".woff2": "font/woff2"}
_YEAR_S = 365 * 24 * 3600


def viewer_file(
    request: HttpRequest, name: str, plain: Callable[[], bytes], packed: Callable[[], bytes]
) -> HttpResponse:
    """The file as it is, or as gzip where that is smaller and the browser takes it."""
    ending = Path(name).suffix
    kind = _KINDS.get(ending) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    if ending in _PACKED and "gzip" in request.headers.get("Accept-Encoding", ""):
        response = HttpResponse(packed(), content_type=kind)
        response["Content-Encoding"] = "gzip"
        response["Vary"] = "Accept-Encoding"
    else:
        response = HttpResponse(plain(), content_type=kind)
    response["Cache-Control"] = f"public, max-age={_YEAR_S}, immutable"
    # the page has an origin of its own, so that its files are another's to it
    response["Access-Control-Allow-Origin"] = "*"
    return response
