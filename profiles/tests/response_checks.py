"""URLs of all pages and endpoints of a profile, and checks of their responses."""

import gzip
import json
import re
from html import unescape
from html.parser import HTMLParser
from typing import Any

from profiles.exports.formats import FORMATS
from profiles.tables.request import AGGREGATES, ORDERS

CHARTS = ("operators", "timeline", "types", "scopes", "roofline", "memory", "cumulative")
#: markup of `profiles.tests.hostile.NAMES` that no page may contain unescaped
MARKUP = ("<script>alert", "<img src=x", "<!-- ]]> -->")
_BIDI_CONTROLS = re.compile("[\u202a-\u202e\u2066\u2067]")
#: the begin of a handler; parts of other texts may look like one
_HANDLER = re.compile(r"""[\s/"']on[a-z]*\s*=""", re.IGNORECASE)
_JSON = re.compile(r'<script\b[^>]* type="application/json"[^>]*>(.*?)</script>', re.DOTALL)
_ISOLATED = re.compile("\u2068[^\u2069]*\u2069")
_VOID = {"meta", "link", "input", "br", "hr", "img", "col", "wbr", "path", "rect", "line", "circle"}


def profile_urls(profile: Any, page: str, *others: Any) -> list[str]:
    """Return the URLs of each view of a profile and of its comparisons with others."""
    root = f"/profiles/{profile.pk}"
    paths = [f"{page}?side=both&op=0", f"{page}?order=flops&side=host&up=1"]
    paths += [
        f"{page}?agg=mean",
        f"{root}/operators/0/",
        f"/api/v1{root}/graph/netron/",
    ]
    paths += [f"/api/v1{root}/charts/{kind}/" for kind in CHARTS]
    paths += [f"{root}/export/{name}/" for name in FORMATS]
    for other in others:
        pair = f"p={profile.pk}&p={other.pk}"
        paths += [f"/profiles/compare/?{pair}&rows=all&row=0"]
        paths += [f"/api/v1/profiles/compare/export/json/?{pair}"]
    return paths


def more_profile_urls(profile: Any, page: str, other: Any) -> list[str]:
    """Return further URLs: every order, aggregate and filter, and the reversed comparison."""
    root, pair = f"/profiles/{profile.pk}", f"p={other.pk}&p={profile.pk}"
    paths = [page, f"{page}?side=host&end=kern&cols=op,time", f"{page}?agg=sum&over=all&side=both"]
    paths += [f"{page}?order={order}&end=kern" for order in ORDERS]
    paths += [f"{page}?agg={aggregate}&order=memory&up=1" for aggregate in AGGREGATES]
    paths += [f"{page}?min=1us&max=1s&dtype=Float32"]
    paths += [f"{root}/operators/3/?part", f"/api/v1{root}/charts/timeline/?from=0&to=3"]
    document, compared = f"/api/v1{root}/graph/netron/", "/api/v1/profiles/compare"
    paths += [f"{root}/graph/page/", f"{document}?op=3&colour=flops"]
    paths += [f"{document}?colour=bytes&side=host", f"{root}/export/csv/?agg=sum"]
    paths += [f"/profiles/compare/?{pair}&side=host&by=type", f"{compared}/export/csv/?{pair}"]
    return [
        *paths,
        f"{compared}/graph/?{pair}",
        f"{compared}/timelines/?{pair}",
        f"{compared}/export/json/?{pair}",
    ]


def response_faults(response: Any) -> list[str]:
    """Return the defects of the response of any URL."""
    kind = response.headers.get("Content-Type", "").partition(";")[0]
    body = response.getvalue()
    if response.headers.get("Content-Encoding") == "gzip":
        body = gzip.decompress(body)
    if response.status_code >= 500:
        return [f"status {response.status_code}"]
    check = {
        "text/html": _html_faults,
        "application/json": _json_faults,
    }.get(kind, _text_faults)
    return check(body)


def _json_faults(body: bytes) -> list[str]:
    constants: list[str] = []
    document = json.loads(body, parse_constant=constants.append)
    is_chart = isinstance(document, dict) and "notes" in document
    sentences = [document["sentence"], *document["notes"]] if is_chart else []
    bidirectional = [
        f"not isolated: {sentence[:60]!a}" for sentence in sentences if _is_bidirectional(sentence)
    ]
    return [f"JSON with {constant}" for constant in constants[:1]] + bidirectional


def _is_bidirectional(text: str) -> bool:
    """Return whether a text changes the direction of the text after it."""
    return bool(_BIDI_CONTROLS.search(_ISOLATED.sub("", text)))


def _text_faults(body: bytes) -> list[str]:
    body.decode()
    return [] if body else ["empty body"]


def _html_faults(body: bytes) -> list[str]:
    text = body.decode()
    problems = [f"raw {markup!r}" for markup in MARKUP if markup in text]
    problems += [fault for data in _JSON.findall(text) for fault in _json_faults(data.encode())]
    plain = unescape(text)
    # parsing takes a fifth of the time of the tests of pages, of which few have anything to find
    if not (_BIDI_CONTROLS.search(plain) or "javascript:" in plain or _HANDLER.search(text)):
        return problems
    page = _Page()
    page.feed(text)
    return problems + page.faults


class _Page(HTMLParser):
    """Finds event handlers, `javascript:` URLs and bidirectional text that is not isolated."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, bool]] = []
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        attributes = dict(attrs)
        classes = (attributes.get("class") or "").split()
        isolates = (
            tag in ("bdi", "option", "script", "template")
            or "hostile" in classes
            or attributes.get("dir") == "auto"
        )
        if any(name.startswith("on") for name in attributes):
            self.faults.append(f"a handler in <{tag}>")
        if (attributes.get("href") or "").startswith("javascript:"):
            self.faults.append("a javascript: address")
        if tag not in _VOID:
            self.open.append((tag, isolates))

    def handle_endtag(self, tag: str) -> None:
        while self.open:
            if self.open.pop()[0] == tag:
                break

    def handle_data(self, data: str) -> None:
        if _is_bidirectional(data) and not any(isolates for _, isolates in self.open):
            self.faults.append(
                f"not isolated in {[tag for tag, _ in self.open][-3:]}: {data.strip()[:60]!a}"
            )
