"""Read the rectangles of an untrusted `memory_flow.svg` piece by piece.

MegEngine's file has a document type, so one is accepted, but its declarations are rejected and
nothing is ever fetched. Elements and attributes that MegEngine does not write are counted and
dropped. MegEngine 1.13 does not escape names of tensors, so `<`, `&` and `"` in a name are escaped
before XML parsing. A rectangle that is invalid nevertheless is skipped, and reading continues with
the next one.
"""

import re
from collections.abc import Iterator
from html import escape
from typing import Any, BinaryIO
from xml.etree.ElementTree import ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from profiles.formats.errors import ProfileFormatError

#: bytes per read
PIECE_BYTES = 1 << 18
#: maximum distance between the beginnings of two rectangles
LONGEST_BYTES = 1 << 20
DEPTH_LIMIT = 100
#: bytes kept while skipping, which may hold the beginning of a rectangle or the end of the SVG
_TAIL_BYTES = 32

SVG, TAG = "{http://www.w3.org/2000/svg}", "{https://megengine.org.cn}"
#: attribute of MegEngine's rectangles; the background rectangle lacks it
ADDRESS = f"{TAG}address"
_ROOT = b'<svg xmlns="http://www.w3.org/2000/svg" xmlns:tag="https://megengine.org.cn">'
_RECT = b"\n<rect "
_LAST = b"\n</svg>"
_NAME, _NAME_END = b' tag:name="', b'" tag:address="0x'
#: characters that are not allowed, or may not be allowed, in an XML attribute
_ODD = re.compile(rb'[<"\x00-\x08\x0b\x0c\x0e-\x1f\x80-\xff]|&(?!(?:amp|lt|gt|quot|apos);)')
_REPLACED = dict.fromkeys(
    [*(code for code in range(32) if chr(code) not in "\t\n\r"), 0xFFFE, 0xFFFF],
    "\N{REPLACEMENT CHARACTER}",
)

Attributes = dict[str, str]


class RectangleReader:
    """Reads the attributes of MegEngine's rectangles in one file.

    is_cut: the file ends before the SVG element does
    broken: number of places with invalid XML; each is skipped up to the next rectangle
    others: number of elements that MegEngine does not write
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
        """Yield the rectangles in batches.

        Raises ProfileFormatError: `empty`, `not_utf8`, `not_svg`, `svg_refused`.
        """
        more = self._file.read(PIECE_BYTES)
        _check_head(more)
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
                # it may contain a complete rectangle, or the end of the SVG
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
        self._feed(_escape_names(piece))
        rectangles, self._target.rectangles = self._target.rectangles, []
        return rectangles

    def _feed(self, piece: bytes) -> None:
        """Parse a piece that ends at the beginning of a rectangle or at the end of the file."""
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
                raise _refusal(type(error).__name__) from error
            else:
                self._fed += len(piece) - at
                return

    def _break(self, why: str) -> None:
        """Continue with a new parser, as if the SVG began here."""
        if not self._target.has_root:
            raise ProfileFormatError("not_svg", f"It is no XML: {why[:200]}.")
        self.broken += 1
        self._target.begin_again()
        self._parser = _parser(self._target)
        self._parser.feed(_ROOT)
        self._fed = len(_ROOT)


class _Target:
    """Target of the XML parser: collects rectangles and counts other elements."""

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
        # a rectangle counts when it is complete
        if self._open is not None and tag == f"{SVG}rect":
            self.rectangles.append(self._open)
            self._open = None
        self._depth -= 1
        self.is_over = self._depth == 0

    def close(self) -> None:
        """Required by the parser."""

    def _begin(self, tag: str) -> None:
        if tag != f"{SVG}svg":
            raise ProfileFormatError("not_svg", f"It is XML, but begins with {tag[:80]!r}.")
        self.has_root = True


def _parser(target: _Target) -> Any:
    # the declared encoding is ignored: MegEngine writes UTF-8
    parser = DefusedXMLParser(target=target, encoding="utf-8", forbid_dtd=False)
    parser.parser.StartDoctypeDeclHandler = _on_doctype
    return parser


def _on_doctype(name: str, system: str | None, public: str | None, has_subset: int) -> None:
    """Reject a document type with an internal subset; an external one is not fetched."""
    if has_subset:
        raise _refusal("InternalSubset")


def _refusal(what: str) -> ProfileFormatError:
    return ProfileFormatError(
        "svg_refused", f"Its document type declares something ({what}); MegEngine's does not."
    )


def _check_head(head: bytes) -> None:
    if not head.strip():
        raise ProfileFormatError("empty", "The file is empty.")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in head[:64]:
        raise ProfileFormatError("not_utf8", "It is no UTF-8, which MegEngine writes.")


def _last_start(text: bytes) -> int:
    """The position of the last rectangle; MegEngine writes each on a line of its own."""
    position = text.rfind(_RECT)
    return position if position > 0 else text.rfind(b"<rect")


def _next_start(piece: bytes, wrong: int, least: int) -> int:
    """The position of the next rectangle after an error, or of the end of the SVG."""
    start = piece.find(_RECT, max(wrong, least))
    end = piece.find(_LAST, max(wrong - len(_LAST), least))
    return min([position for position in (start, end) if position >= 0], default=len(piece))


def _escape_names(piece: bytes) -> bytes:
    """Escape the names in all rectangles of a piece, as far as they are invalid XML."""
    return _RECT.join([_with_name(rectangle) for rectangle in piece.split(_RECT)])


def _with_name(rectangle: bytes) -> bytes:
    before, marker, rest = rectangle.partition(_NAME)
    name, ends, after = rest.partition(_NAME_END)
    if not marker or not ends or not _ODD.search(name):
        return rectangle
    text = name.decode("utf-8", "replace").translate(_REPLACED)
    is_plain = not _ODD.search(text.encode("ascii", "ignore"))
    return b"".join((before, marker, (text if is_plain else escape(text)).encode(), ends, after))
