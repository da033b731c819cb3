"""Netron, the viewer of graphs: the site inside the frame.

Nothing of the package is changed on disk. Its page is served without the tags that make it call
out, ask for consent and expire, with two files of ours and one that is corrected, and in an origin
of its own that nothing else has (CSP `sandbox`): what it parses is a user's file. Sessions and
storage of this site are out of its reach, and it may load nothing but the files of its own folder.
"""

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from profiles.viewer import compressed, content, theme_of, viewer_files, viewer_page
from profiles.views.viewers import viewer_file, viewer_frame

#: parts of the package that every graph needs, in the order of use; fetched at once, not in turn
_EARLY = (
    "python", "base", "text", "flatbuffers", "flexbuffers", "zip", "tar", "json", "xml",
    "protobuf", "hdf5", "grapher", "browser", "view", "message", "dagre",
)  # fmt: skip


@require_GET
def netron(request: HttpRequest, tag: str, name: str = "") -> HttpResponse:
    """A file of the viewer; `tag` changes with its content, so that browsers may keep it."""
    # the tag stands in the policy: no other text may get there
    theme = theme_of(tag)
    if theme is None or (name and name not in viewer_files()):
        raise Http404
    if name == "":
        return _page(request, theme)
    return viewer_file(request, name, lambda: content(name, theme), lambda: compressed(name, theme))


def _page(request: HttpRequest, theme: str) -> HttpResponse:
    page = viewer_page(theme)
    # a type that Netron does not know: it then loads no other format's parts ahead of need
    head = '<meta name="type" content="Frame">\n'
    head += "".join(f'<link rel="modulepreload" href="{name}.js">\n' for name in _EARLY)

    def rules(here: str) -> tuple[str, ...]:
        return (
            f"script-src {here}",
            f"style-src {here} {page.styles}",
            f"style-src-attr 'unsafe-hashes' {page.style_attributes}",
            f"img-src {here} data:",
        )

    return viewer_frame(request, page.text, head=head, rules=rules)
