"""The rectangles of `memory_flow.svg`, piece by piece, out of a file that may be hostile.

The file names a document type, so one is tolerated; whatever a document type could declare is
refused, and nothing is ever fetched. Elements and attributes that MegEngine does not write are
counted and dropped. Names of tensors stand in MegEngine's file as they are (1.13 escapes nothing),
so `<`, `&` and `"` in a name are escaped before the XML parser sees them. A rectangle that is still
wrong costs itself alone: reading goes on with the next one.
"""

import re
from collections.abc import Iterator
from html import escape
from typing import Any, BinaryIO
from xml.etree.ElementTree import ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from profiles.formats.errors import ProfileFormatError

#: read at once
PIECE_BYTES = 1 << 18
#: nothing between the beginnings of two rectangles is longer
LONGEST_BYTES = 1 << 20
DEPTH_LIMIT = 100
#: kept of what is passed over: the beginning of a rectangle, or the end of the picture
_TAIL_BYTES = 32

SVG, TAG = "{http://www.w3.org/2000/svg}", "{https://megengine.org.cn}"
#: of MegEngine's rectangles; the one that paints the ground has none
ADDRESS = f"{TAG}address"
_ROOT = b'<svg xmlns="http://www.w3.org/2000/svg" xmlns:tag="https://megengine.org.cn">'
_RECT = b"\n<rect "
_LAST = b"\n</svg>"
_NAME, _NAME_END = b' tag:name="', b'" tag:address="0x'
#: what a name must not have in XML, or may not be
_ODD = re.compile(rb'[<"\x00-\x08\x0b\x0c\x0e-\x1f\x80-\xff]|&(?!(?:amp|lt|gt|quot|apos);)')
_REPLACED = dict.fromkeys(
    [*(code for code in range(32) if chr(code) not in "\t\n\r"), 0xFFFE, 0xFFFF],
    "\N{REPLACEMENT CHARACTER}",
)

Attributes = dict[str, str]


class RectangleReader:
    """The attributes of MegEngine's rectangles in one file.

    is_cut: it ended before its picture did
    broken: places that are no XML, each with what stood there up to the next rectangle
    others: elements that MegEngine does not write
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._target = _Target()
        self._parser = _parser(self._target)
        self._fed = 0
        self.is_cut = False
        self.broken = 0

    @property
    def others(self) -> int:
        return self._target.others

    def pieces(self) -> Iterator[list[Attributes]]:
        """Raises ProfileFormatError: `empty`, `not_utf8`, `not_svg`, `svg_refused`."""
        more = self._file.read(PIECE_BYTES)
        _look_at(more)
        left, is_skipping = b"", False
        while more and not self._target.is_over:
            left += more
            more = self._file.read(PIECE_BYTES)
            if is_skipping:
                start = left.find(_RECT)
                is_skipping, left = start < 0, left[start if start >= 0 else -_TAIL_BYTES :]
            cut = 0 if is_skipping else _last_start(left)
            if cut > 0:
                yield self._rectangles(left[:cut])
                left = left[cut:]
            elif len(left) > LONGEST_BYTES:
                # a rectangle may be whole within, and the picture may be over
                yield self._rectangles(left)
                if not self._target.is_over:
                    self._break("It goes on for too long without a rectangle.")
                left, is_skipping = b"", True
        if not is_skipping:
            yield self._rectangles(left)
        if not self._target.has_root:
            raise ProfileFormatError("not_svg", "It ends before its picture begins.")
        self.is_cut = not self._target.is_over and not (is_skipping and b"</svg>" in left)

    def _rectangles(self, piece: bytes) -> list[Attributes]:
        self._feed(_named(piece))
        found, self._target.rectangles = self._target.rectangles, []
        return found

    def _feed(self, piece: bytes) -> None:
        """Have a piece read that ends where a rectangle begins, or the file ends."""
        view, at = memoryview(piece), 0
        while at < len(piece) and not self._target.is_over:
            try:
                self._parser.feed(view[at:])
            except ParseError as error:
                if self._target.is_over:
                    return
                wrong = at + self._parser.parser.ErrorByteIndex - self._fed
                self._break(str(error))
                at = _next_start(piece, wrong, at + 1)
            except DefusedXmlException as error:
                raise _refused(type(error).__name__) from error
            else:
                self._fed += len(piece) - at
                return

    def _break(self, why: str) -> None:
        """Go on with a new parser, as if the picture began here."""
        if not self._target.has_root:
            raise ProfileFormatError("not_svg", f"It is no XML: {why[:200]}.")
        self.broken += 1
        self._target.begin_again()
        self._parser = _parser(self._target)
        self._parser.feed(_ROOT)
        self._fed = len(_ROOT)


class _Target:
    """What the parser tells of."""

    def __init__(self) -> None:
        self.rectangles: list[Attributes] = []
        self.others = 0
        self.has_root = self.is_over = False
        self._depth = 0
        self._open: Attributes | None = None
        self._has_ground = False

    def begin_again(self) -> None:
        self._depth, self._open = 0, None

    def start(self, tag: str, attributes: Attributes) -> None:
        self._depth += 1
        if self._depth == 1:
            self._begin(tag)
        elif self._depth > DEPTH_LIMIT:
            raise ProfileFormatError("svg_refused", "Its elements are nested too deeply.")
        elif tag != f"{SVG}rect":
            self.others += 1
        elif ADDRESS in attributes:
            self._open = attributes
        elif self._has_ground:
            self.others += 1
        else:
            self._has_ground = True

    def end(self, tag: str) -> None:
        # a rectangle counts once it is whole
        if self._open is not None and tag == f"{SVG}rect":
            self.rectangles.append(self._open)
            self._open = None
        self._depth -= 1
        self.is_over = self._depth == 0

    def close(self) -> None:
        """Asked for by the parser."""

    def _begin(self, tag: str) -> None:
        if tag != f"{SVG}svg":
            raise ProfileFormatError("not_svg", f"It is XML, but begins with {tag[:80]!r}.")
        self.has_root = True


def _parser(target: _Target) -> Any:
    # its own word on its encoding is not heard: MegEngine writes UTF-8
    made = DefusedXMLParser(target=target, encoding="utf-8", forbid_dtd=False)
    made.parser.StartDoctypeDeclHandler = _on_doctype
    return made


def _on_doctype(name: str, system: str | None, public: str | None, has_subset: int) -> None:
    """The document type that MegEngine names declares nothing by itself, and is not fetched."""
    if has_subset:
        raise _refused("InternalSubset")


def _refused(what: str) -> ProfileFormatError:
    return ProfileFormatError(
        "svg_refused", f"Its document type declares something ({what}); MegEngine's does not."
    )


def _look_at(head: bytes) -> None:
    if not head.strip():
        raise ProfileFormatError("empty", "The file is empty.")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in head[:64]:
        raise ProfileFormatError("not_utf8", "It is no UTF-8, which MegEngine writes.")


def _last_start(text: bytes) -> int:
    """Where the last rectangle begins; MegEngine begins a line with each."""
    found = text.rfind(_RECT)
    return found if found > 0 else text.rfind(b"<rect")


def _next_start(piece: bytes, wrong: int, least: int) -> int:
    """Where the next rectangle begins behind what is wrong, or the picture ends: that may be it."""
    found = piece.find(_RECT, max(wrong, least))
    ends = piece.find(_LAST, max(wrong - len(_LAST), least))
    return min([each for each in (found, ends) if each >= 0], default=len(piece))


def _named(piece: bytes) -> bytes:
    """Escape names that are no XML, in each rectangle as MegEngine writes it."""
    return _RECT.join([_with_name(each) for each in piece.split(_RECT)])


def _with_name(rectangle: bytes) -> bytes:
    before, found, rest = rectangle.partition(_NAME)
    name, ends, after = rest.partition(_NAME_END)
    if not found or not ends or not _ODD.search(name):
        return rectangle
    text = name.decode("utf-8", "replace").translate(_REPLACED)
    is_plain = not _ODD.search(text.encode("ascii", "ignore"))
    return b"".join((before, found, (text if is_plain else escape(text)).encode(), ends, after))
