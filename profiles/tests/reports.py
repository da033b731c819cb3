"""Metadata and an HTML parser for the tests of exports and reports."""

from html.parser import HTMLParser

META = {"title": "net <&> \u202e", "source": "file", "warnings": []}


class PageTags(HTMLParser):
    """Collects the addresses that a page would load, and checks that its tags are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attributes):
        self.handle_startendtag(tag, attributes)
        if tag not in {"meta", "input", "br"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        for name, value in attributes:
            if name in ("src", "srcset", "data", "action", "background", "poster", "ping"):
                self.loads.append(value)
            assert not name.startswith("on"), (tag, name)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
