"""What browsers get of a viewer: its page in an origin of its own, and its files.

The page is sandboxed (CSP): sessions and storage of this site are out of its reach, and it may load
nothing but the files of its own folder. Files are kept for good, since their address changes with
their content.
"""

import json
import mimetypes
from collections.abc import Callable, Sequence
from pathlib import Path

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.html import escape

from webprofile.origins import framing_origins

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


def viewer_frame(
    request: HttpRequest, text: str, *, head: str = "", rules: Callable[[str], Sequence[str]]
) -> HttpResponse:
    """The page of a viewer, with the script through which pages of ours talk with it.

    head: what else comes before its title; rules: the viewer's own part of the policy, given the
    address of its folder
    """
    parents, here = framing_origins(request), request.build_absolute_uri(request.path)
    ours = f'{head}<script src="bridge.js" data-parents="{escape(json.dumps(parents))}"></script>\n'
    response = HttpResponse(text.replace("<title>", f"{ours}<title>", 1))
    policy = (
        "sandbox allow-scripts",
        "default-src 'none'",
        *rules(here),
        f"connect-src {here}",
        "worker-src blob:",
        "base-uri 'none'",
        "form-action 'none'",
        f"frame-ancestors {' '.join(parents)}",
    )
    response["Content-Security-Policy"] = "; ".join(policy)
    response["Cache-Control"] = "no-cache"
    if settings.NETRON_ORIGIN:
        response.xframe_options_exempt = True
    else:
        response["X-Frame-Options"] = "SAMEORIGIN"
    return response
