"""Perfetto, the viewer of traces: the site inside the frame.

As Netron (`profiles.views.netron`) it has an origin of its own that nothing else has, and may load
nothing but the files of its own folder.
"""

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from profiles.perfetto import (
    perfetto_compressed,
    perfetto_content,
    perfetto_files,
    perfetto_page,
    perfetto_tag,
)
from profiles.views.viewers import viewer_file, viewer_frame


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
    text, scripts = perfetto_page()

    def rules(here: str) -> tuple[str, ...]:
        return (
            f"script-src {here} {scripts} 'wasm-unsafe-eval'",
            # libraries in its bundle write style sheets into the page
            f"style-src {here} 'unsafe-inline'",
            f"font-src {here}",
            f"img-src {here} data: blob:",
        )

    return viewer_frame(request, text, rules=rules)
