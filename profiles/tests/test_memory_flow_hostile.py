"""Damaged and malicious `memory_flow.svg`: refused with a reason, or read in part."""

import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiles.formats.columns import OTHERS
from profiles.formats.errors import ProfileFormatError
from profiles.formats.memory_flow import elements, reader
from profiles.formats.memory_flow.summary import MemoryFlowSummary, read_memory_flow
from profiles.tests import hostile
from profiles.tests.flows import END, HEAD, MLP, RESNET, read, tensor, to_flow
from webprofile.messages.imports import OPENED

GOOD = tensor("good", at=64, size=64, begin=1, end=9)
SVG = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:tag="https://megengine.org.cn">\n'
BILLION = (
    '<!DOCTYPE svg [<!ENTITY a "lol">'
    + "".join(
        f'<!ENTITY {name} "{f"&{before};" * 10}">'
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + "]>\n"
)
BAD = {
    "empty": (b" \n", "empty", "empty"),
    "billion laughs": (f"{BILLION}{SVG}{GOOD}<desc>&i;</desc></svg>", "svg_refused", "Internal"),
    "external entity": (
        f'<!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd">]>\n{SVG}{GOOD}&x;</svg>',
        "svg_refused",
        "Internal",
    ),
    "external parameter entity": (
        f'<!DOCTYPE svg [<!ENTITY % x SYSTEM "http://127.0.0.1:1/x.dtd"> %x;]>\n{SVG}</svg>',
        "svg_refused",
        "Internal",
    ),
    "attribute defaults": (
        f'<!DOCTYPE svg [<!ATTLIST rect onload CDATA "alert(1)">]>\n{SVG}{GOOD}</svg>',
        "svg_refused",
        "Internal",
    ),
    "empty subset": (f"<!DOCTYPE svg []>\n{SVG}{GOOD}</svg>", "svg_refused", "Internal"),
    "nested": (f"{SVG}{'<g>' * 5_000}", "svg_refused", "deep"),
    "a page": ("<html><body>memory</body></html>", "not_svg", "html"),
    "no namespace": (f"<svg>{GOOD}</svg>".replace("tag:", ""), "not_svg", "begins with 'svg'"),
    "no XML": ("memory flow", "not_svg", "no XML"),
    "UTF-16": (to_flow(GOOD).decode().encode("utf-16"), "not_utf8", "UTF-8"),
    "UTF-32": (to_flow(GOOD).decode().encode("utf-32-be"), "not_utf8", "UTF-8"),
    "NUL": (b"<\0s\0v\0g\0", "not_utf8", "UTF-8"),
    "only its beginning": (HEAD[:200], "not_svg", "before its picture"),
    "another picture": (f"{SVG}<rect/><rect/><circle/></svg>", "no_memory_flow", "tensor"),
    "rectangles of nothing": (f"{SVG}<rect tag:address='0x1'/></svg>", "no_memory_flow", "tensor"),
}


def as_bytes(data):
    return data if isinstance(data, bytes) else data.encode()


@pytest.mark.parametrize(("data", "code", "message"), BAD.values(), ids=BAD)
def test_an_unreadable_file_is_refused_with_a_reason(tmp_path, data, code, message):
    with pytest.raises(ProfileFormatError) as raised:
        read(tmp_path, as_bytes(data))
    assert raised.value.code == code
    assert re.search(message, raised.value.detail)
    assert f"opened_{code}" in OPENED


ADDED = {
    "script": "<script>alert(1)</script>\n",
    "handlers": "<rect onload='alert(1)'/>\n",
    "foreign": "<foreignObject><body xmlns='http://www.w3.org/1999/xhtml'/></foreignObject>\n",
    "reference": "<image href='http://127.0.0.1:1/x.png'/><use href='#a'/>\n",
    "include": '<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="/etc/passwd"/>\n',
    "style": "<style>@import url(http://127.0.0.1:1/x.css);</style>\n",
    "instruction": "<?xml-stylesheet href='x.xsl'?>\n<desc/>\n",
}


@pytest.mark.parametrize("added", ADDED.values(), ids=ADDED)
def test_foreign_elements_are_dropped_and_counted(tmp_path, added):
    summary = read(tmp_path, to_flow(GOOD, added, GOOD))
    assert (summary.count, summary.broken) == (2, 0)
    assert 1 <= summary.others <= 2


ODD = ("a<b", 'say "x"', "&", "a&b;", "&#0;", "&#65;", "]]>")


@pytest.mark.parametrize("name", [*hostile.NAMES, *ODD])
def test_unescaped_names_are_read_literally(tmp_path, name):
    data = to_flow(GOOD, tensor(name, at=640, size=64, begin=2, end=5), GOOD)
    summary = read(tmp_path, data)
    assert (summary.count, summary.broken, summary.is_cut) == (3, 0, False)
    (actual,) = [row.name for row in summary.tensors if row.address == hex(640)]
    expected = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", "\ufffd", name)
    expected = re.sub(r"[\r\n\t]+", " ", expected)
    if len(expected) > reader.LONGEST_NAME:
        expected = expected[: reader.LONGEST_NAME - 1] + OTHERS
    assert re.sub(" +", " ", actual) == re.sub(" +", " ", expected)


def test_escaped_names_are_unescaped(tmp_path):
    summary = read(tmp_path, to_flow(tensor("a&lt;b&amp;中", at=1, size=1, begin=1, end=2)))
    assert [row.name for row in summary.tensors] == ["a<b&中"]


BROKEN = {
    "no XML": "<rect x='1' <oops>\n</rect>\n",
    "not closed": GOOD.replace("</rect>\n", ""),
    "twice": GOOD.replace("<rect ", '<rect tag:name="x" '),
    "address": tensor("a", at=-5, size=1, begin=1, end=2),
    "address large": tensor("a", at=1 << 63, size=1, begin=1, end=2),
    "size": GOOD.replace("64B ", "64 bytes"),
    "size 0": GOOD.replace("64B ", ""),
    "size large": GOOD.replace("64B ", "999999999GB "),
    "time": GOOD.replace("9ns ", "soon"),
    "no time": GOOD.replace("produced", "made").replace("9ns ", "-9ns"),
    "entity": GOOD.replace("{2(3)", "&nothing;<{2(3)"),
    "control": GOOD.replace("{2(3)", "\x01{2(3)"),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_broken_rectangle_does_not_affect_the_others(tmp_path, broken):
    summary = read(tmp_path, to_flow(GOOD, GOOD, broken, GOOD, GOOD))
    assert summary.broken >= 1
    assert summary.count in (3, 4)
    assert not summary.is_cut


def test_invalid_utf8_is_replaced_in_names_and_breaks_other_attributes(tmp_path):
    invalid = GOOD.encode().replace(b'"good"', b'"g\xff\xfeod"')
    data = to_flow(GOOD).replace(
        END.encode(), invalid + invalid.replace(b"Float32", b"\xff") + b"</svg>"
    )
    summary = read(tmp_path, data)
    assert [row.name for row in summary.tensors] == ["good", "g\ufffd\ufffdod"]
    assert summary.broken == 1


def test_the_declared_encoding_is_ignored(tmp_path):
    data = to_flow(GOOD.replace("good", "中")).replace(b'encoding="UTF-8"', b'encoding="UTF-7"')
    assert [row.name for row in read(tmp_path, data).tensors] == ["中"]


TEXT = "x" * (1 << 20)
ENDLESS = {
    "attribute": f'<rect id="{TEXT}"/>\n',
    "text": f"{TEXT}\n",
    "comment": f"<!--{TEXT}-->\n",
    "name": GOOD.replace("good", TEXT),
}


@pytest.mark.parametrize("added", ENDLESS.values(), ids=ENDLESS)
def test_an_endless_element_is_skipped(tmp_path, monkeypatch, added):
    monkeypatch.setattr(elements, "PIECE_BYTES", 1 << 12)
    monkeypatch.setattr(elements, "LONGEST_BYTES", 1 << 14)
    summary = read(tmp_path, to_flow(GOOD, added, GOOD, GOOD))
    assert 2 <= summary.count <= 3
    assert summary.broken >= 1
    assert not summary.is_cut
    last = read(tmp_path, to_flow(GOOD, GOOD, added))
    assert (last.count, last.is_cut) == (2, False)


def test_the_number_of_rectangles_and_texts_is_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "TENSORS_LIMIT", 1_000)
    monkeypatch.setattr(reader, "TEXTS_LIMIT", 50)
    rectangles = (tensor(f"t{n}", at=n, size=1, begin=n, end=n + 9) for n in range(3_000))
    summary = read(tmp_path, to_flow(*rectangles))
    assert (summary.count, summary.beyond) == (1_000, 2_000)
    assert len({row.name for row in summary.tensors}) == 51


@pytest.mark.parametrize("piece_bytes", [1, 7, 100, 5_000])
def test_the_result_does_not_depend_on_the_piece_size(tmp_path, monkeypatch, piece_bytes):
    data = to_flow(GOOD, BROKEN["no XML"], *(GOOD.replace("good", f"<{n}>") for n in range(5)))
    expected = read(tmp_path, data)
    monkeypatch.setattr(elements, "PIECE_BYTES", piece_bytes)
    assert read(tmp_path, data) == expected


@settings(max_examples=60)
@given(st.floats(0, 1))
def test_a_truncated_file_has_all_complete_rectangles(tmp_path_factory, part):
    data = MLP.read_bytes()
    truncated = data[: int(len(data) * part)]
    path = tmp_path_factory.getbasetemp() / "cut.svg"
    path.write_bytes(truncated)
    try:
        summary = msgspec.json.decode(read_memory_flow(path), type=MemoryFlowSummary)
    except ProfileFormatError as error:
        assert error.code in ("empty", "not_svg")
        assert truncated.count(b"</rect>") <= 1
        return
    assert summary.count == max(0, truncated.count(b"</rect>") - 1)
    assert summary.is_cut == (b"</svg>" not in truncated)


@settings(max_examples=150)
@given(st.data())
def test_an_arbitrarily_changed_file_is_read_or_refused(tmp_path_factory, data):
    text = bytearray(RESNET.read_bytes()[:6_000] + b"\n</svg>\n")
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 20))] = data.draw(
            st.sampled_from([b"<", b'"', b"\0", b"</svg>", b"\n<rect ", b"<!DOCTYPE a []>", b"&"])
        )
    path = tmp_path_factory.getbasetemp() / "changed.svg"
    path.write_bytes(bytes(text))
    try:
        summary = msgspec.json.decode(read_memory_flow(path), type=MemoryFlowSummary)
    except ProfileFormatError as error:
        assert error.detail
        assert f"opened_{error.code}" in OPENED
        return
    assert summary.count <= 16
