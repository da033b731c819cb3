"""Perfetto, the viewer of traces: the site inside the frame.

As Netron (`profiles.views.netron`) it has an origin of its own that nothing else has, and may load
nothing but the files of its own folder.
"""

import json

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.html import escape
from django.views.decorators.http import require_GET

from profiles.perfetto import (
    perfetto_compressed,
    perfetto_content,
    perfetto_files,
    perfetto_page,
    perfetto_tag,
)
from profiles.views.viewer_file import viewer_file
from webprofile.origins import framing_origins


@require_GET
def perfetto(request: HttpRequest, tag: str, name: str = "") -> HttpResponse:
    """A file of the viewer; `tag` changes with its content, so that browsers may keep it."""
    # the tag stands in the policy: no other text may get there
    if tag != perfetto_tag() or (name and name not in perfetto_files()):
        raise Http404
    if name == "":
        return _page(request)
    return viewer_file(
        request, name, lambda: perfetto_content(name), lambda: perfetto_compressed(name)
    )


def _page(request: HttpRequest) -> HttpResponse:
    (text, scripts), parents = perfetto_page(), framing_origins(request)
    ours = f'<script src="bridge.js" data-parents="{escape(json.dumps(parents))}"></script>\n'
    response = HttpResponse(text.replace("<title>", f"{ours}<title>", 1))
    here = request.build_absolute_uri(request.path)
    response["Content-Security-Policy"] = _policy(here, scripts, parents)
    response["Cache-Control"] = "no-cache"
    if settings.NETRON_ORIGIN:
        response.xframe_options_exempt = True
    else:
        response["X-Frame-Options"] = "SAMEORIGIN"
    return response


def _policy(here: str, scripts: str, parents: list[str]) -> str:
    """What the page may do: run and fetch the files of its own folder, and draw."""
    return "; ".join(
        (
            "sandbox allow-scripts",
            "default-src 'none'",
            f"script-src {here} {scripts} 'wasm-unsafe-eval'",
            # libraries in its bundle write style sheets into the page
            f"style-src {here} 'unsafe-inline'",
            f"font-src {here}",
            f"img-src {here} data: blob:",
            f"connect-src {here}",
            "worker-src blob:",
            "base-uri 'none'",
            "form-action 'none'",
            f"frame-ancestors {' '.join(parents)}",
        )
    )
