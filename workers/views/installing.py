"""The agent as devices get it: the page that explains, the script, the files. No secret in any."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webprofile.errors import DomainError
from workers import releases

#: read as text: the server runs nothing of the agent
_SCRIPT = Path(settings.BASE_DIR) / "agent" / "install" / "install.py"
_PIECE_BYTES = 1 << 18


@require_safe
@never_cache
def agent_page(request: HttpRequest) -> HttpResponse:
    """How a machine becomes a device, and which version this site serves."""
    context = {
        "release": releases.served(),
        "program": releases.PROGRAM,
        "site": settings.SITE_URL,
    }
    return render(request, "workers/agent.html", context)


@require_safe
@never_cache
def install_script(request: HttpRequest) -> HttpResponse:
    """The installer with this site's address filled in."""
    script = _SCRIPT.read_text(encoding="utf-8")
    filled = script.replace('SITE = ""', f"SITE = {json.dumps(settings.SITE_URL)}", 1)
    return HttpResponse(filled, content_type="text/x-python; charset=utf-8")


@require_safe
@never_cache
def agent_file(request: HttpRequest, name: str) -> HttpResponseBase:
    """One of the files that were built, or their manifest."""
    release = releases.served()
    if release is None:
        raise DomainError("agent_not_built", status=404)
    path = releases.folder() / name
    if name == releases.MANIFEST:
        return HttpResponse(path.read_bytes(), content_type="application/json")
    if name not in release.names or not path.is_file():
        raise Http404
    response = StreamingHttpResponse(_pieces(path), content_type="application/octet-stream")
    response["Content-Length"] = str(path.stat().st_size)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    """A hundred agents may update at once: none of their downloads is held in memory whole."""
    with await asyncio.to_thread(path.open, "rb") as file:
        while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
            yield piece
