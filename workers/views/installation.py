"""Installation of the agent: an explanatory page, the install script, and the files.

All of them are public and contain no secret.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from webprofile.errors import DomainError
from workers import releases

#: served as text; the server does not import or run it
_SCRIPT = Path(settings.BASE_DIR) / "agent" / "install" / "install.py"
_CHUNK_BYTES = 1 << 18


@require_safe
def agent_page(request: HttpRequest) -> HttpResponse:
    """Show how to install the agent on a machine, and which version this site serves."""
    context = {
        "release": releases.served_release(),
        "program": releases.PROGRAM,
        "site": settings.SITE_URL,
    }
    return render(request, "workers/agent.html", context)


@require_safe
def install_script(request: HttpRequest) -> HttpResponse:
    """Return the install script with the URL of this site."""
    script = _SCRIPT.read_text(encoding="utf-8")
    filled = script.replace('SITE = ""', f"SITE = {json.dumps(settings.SITE_URL)}", 1)
    return HttpResponse(filled, content_type="text/x-python; charset=utf-8")


@require_safe
def agent_file(request: HttpRequest, name: str) -> HttpResponseBase:
    """Return a file of the served release, or its manifest."""
    release = releases.served_release()
    if release is None:
        raise DomainError("agent_not_built", status=404)
    path = releases.release_folder() / name
    if name == releases.MANIFEST:
        return HttpResponse(path.read_bytes(), content_type="application/json")
    if name not in release.names or not path.is_file():
        raise Http404
    response = StreamingHttpResponse(_chunks(path), content_type="application/octet-stream")
    response["Content-Length"] = str(path.stat().st_size)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


async def _chunks(path: Path) -> AsyncIterator[bytes]:
    """Read a file in chunks: a hundred agents may update at once, so it is not read as a whole."""
    with await asyncio.to_thread(path.open, "rb") as file:
        while chunk := await asyncio.to_thread(file.read, _CHUNK_BYTES):
            yield chunk
