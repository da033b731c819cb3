"""The files of Netron, the viewer of graphs, from its PyPI package, and what is ours: a script, a
style sheet, and a correction of its reader of MegEngine's models.
"""

import base64
import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib import metadata, util
from pathlib import Path

from django.conf import settings
from django.urls import reverse

#: what the package's page would do by these: telemetry; expire after 180 days; a weaker policy
_DROPPED = re.compile(
    r'<meta (name="(version|date)"|http-equiv="Content-Security-Policy")[^>]*>\s*'
)
_STYLES = re.compile(r"<style>(.*?)</style>", re.DOTALL)
_STYLE_ATTRIBUTES = re.compile(r' style="([^"]*)"')
#: a button that is written as a link to a script, which the policy forbids
_SCRIPT_LINK = ' href="javascript:void(0)"'
_SERVED = {".js", ".json", ".css", ".png", ".ico"}
_BRIDGE = "bridge.js"
#: Netron's colours of a graph; pictures that it saves have this style sheet's, so ours are added
_STYLE = "grapher.css"
#: Netron's reader of MegEngine's models makes a node for each output of an operator, so that it
#: draws a BatchNorm four times; an operator is its first output's
_MODELS = "megengine.js"
_NODE_OF_EACH_OUTPUT = "} else if (op.type !== 'ImmutableTensor') {"
_NODE_OF_FIRST_OUTPUT = (
    "} else if (op.type !== 'ImmutableTensor' && allOprAndTensor.get(op.outputs[0]) === op) {"
)
#: a colour of the palette: its token, its light and its dark value
_COLOUR = re.compile(r"(--[\w-]+): light-dark\((#\w+), (#\w+)\);")
_COLOUR_PLACE = re.compile(r"var\((--[\w-]+)\)")
_STYLE_LINK = f'href="{_STYLE}"'
#: theme that a reader chose -> what stands in the place of the question what the system's is
_DARK = "(prefers-color-scheme: dark)"
_DARK_IF = {"": _DARK, "light": "not all", "dark": "all"}


@dataclass(frozen=True)
class Page:
    """The package's page without what is dropped.

    styles, style_attributes: sources of a policy that allow what it has of both and no other
    """

    text: str
    styles: str
    style_attributes: str


@cache
def viewer_files() -> dict[str, Path]:
    """The files that are served, by name."""
    package = {path.name: path for path in _folder().iterdir() if path.suffix in _SERVED}
    return package | {_BRIDGE: settings.BASE_DIR / "static" / "js" / "netron" / _BRIDGE}


def content(name: str, theme: str = "") -> bytes:
    """What a file of the viewer holds."""
    if name == _MODELS:
        text = viewer_files()[name].read_text(encoding="utf-8")
        return text.replace(_NODE_OF_EACH_OUTPUT, _NODE_OF_FIRST_OUTPUT).encode()
    if name != _STYLE:
        return viewer_files()[name].read_bytes()
    text = viewer_files()[name].read_text(encoding="utf-8")
    return _themed(f"{text}\n{_our_style('netron/page')}\n{_heat_style()}", theme).encode()


def _themed(text: str, theme: str) -> str:
    """Rules in a reader's theme. Dark ones stay apart, so that pictures Netron saves are light."""
    return text.replace(f"@media {_DARK}", f"@media {_DARK_IF[theme]}")


def _our_style(name: str) -> str:
    return (settings.BASE_DIR / "static" / "css" / f"{name}.css").read_text(encoding="utf-8")


def _heat_style() -> str:
    """Return the rules of colours with the values of both themes written out.

    Pictures that Netron saves know neither var() nor light-dark().
    """
    palette = _COLOUR.findall(_our_style("heat"))
    rules = _our_style("netron/heat")
    light = _coloured(rules, {token: value for token, value, _ in palette})
    dark = _coloured(rules, {token: value for token, _, value in palette})
    return f"{light}\n@media {_DARK} {{\n{dark}}}\n"


def _coloured(rules: str, values: dict[str, str]) -> str:
    return _COLOUR_PLACE.sub(lambda place: values[place[1]], rules)


@cache
def viewer_tag() -> str:
    """A name for these versions of the files: addresses with it may be kept for good."""
    digest = hashlib.sha256()
    for name in (_BRIDGE, _STYLE, _MODELS):
        digest.update(content(name))
    return f"{metadata.version('netron')}-{digest.hexdigest()[:8]}"


def theme_of(tag: str) -> str | None:
    """The theme of an address with this tag; None if it is none of the viewer's."""
    return next((theme for theme in _DARK_IF if tag == _themed_tag(theme)), None)


def viewer_address(theme: str = "") -> str:
    """Where a frame finds the viewer, on this origin or on the second one.

    theme: `light` or `dark` where the reader chose one, empty for that of the system. It is a part
    of the path, since Netron looks for its style sheet by the end of the address.
    """
    return f"{settings.NETRON_ORIGIN}{reverse('netron', args=[_themed_tag(theme)])}"


def _themed_tag(theme: str) -> str:
    return f"{viewer_tag()}-{theme}" if theme else viewer_tag()


@cache
def compressed(name: str, theme: str = "") -> bytes:
    """A file of the viewer as gzip; made once in the life of a process."""
    if theme and name != _STYLE:
        return compressed(name)
    return gzip.compress(content(name, theme), 6, mtime=0)


@cache
def viewer_page(theme: str = "") -> Page:
    """The page of the viewer, to which ours is still to be added."""
    text = _themed((_folder() / "index.html").read_text(encoding="utf-8"), theme)
    text = _DROPPED.sub("", text).replace(_SCRIPT_LINK, ' role="button" tabindex="0"')
    # the page has another origin than its files; it reads this one's rules to save a picture
    text = text.replace(_STYLE_LINK, f'{_STYLE_LINK} crossorigin="anonymous"')
    return Page(text, _hashes(_STYLES.findall(text)), _hashes(_STYLE_ATTRIBUTES.findall(text)))


def _folder() -> Path:
    found = util.find_spec("netron")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("netron: install requirements/base.txt")
    return Path(found.origin).parent


def _hashes(contents: list[str]) -> str:
    digests = {hashlib.sha256(content.encode()).digest() for content in contents}
    return " ".join(sorted(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests))
