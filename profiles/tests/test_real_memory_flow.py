"""The meaning of `memory_flow.svg` that `memory_flow.reader` assumes, checked with MegEngine."""

import re
from bisect import bisect_left
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest

from profiles.formats.memory_flow.reader import bytes_of, ns_of, read_flow
from profiles.formats.memory_flow.summary import summarize
from profiles.tests.megengine import run_python

pytestmark = pytest.mark.megengine

NAME = "<b>&\"'中文"
STEP = """
import sys
import numpy as np, megengine as mge, megengine.functional as F
from megengine.utils.profiler import Profiler, scope
x = mge.Tensor(np.ones((32, 64), np.float32))
x.numpy()
kept = []
with Profiler(path=sys.argv[1], format="memory_flow.svg"):
    kept.append(x * 3)
    kept.append(kept[0].reshape(-1))
    kept.append(kept[1][::2])
    with scope(sys.argv[2]):
        kept.append(x + 1)
    (F.zeros((256, 256)) + 1).numpy()
    for tensor in kept:
        tensor.numpy()
"""
VIEWS = """
import sys, time
import numpy as np, megengine as mge, megengine.functional as F
from megengine.utils.profiler import Profiler
x = mge.Tensor(np.ones((1000, 1000), np.float32))
x.numpy()
mge._full_sync()
with Profiler(path=sys.argv[1], format="memory_flow.svg"):
    made = x + 1
    views = [made[::-1], made[500::-1], made[:, ::-1], made[600:700], made[:, 10:20]]
    mge._full_sync()
    del made, views[:3], views[1:]
    mge._full_sync()
    time.sleep(0.2)
    whole = x * 2
    halves = F.split(whole, 2, 0)
    del whole
    mge._full_sync()
    time.sleep(0.2)
"""
#: upper limits of lifetimes, ns, whose rectangles have the colour of the same index
LIVES = (0, 10**5, 10**6, 10**7, 10**8, 10**9)
COLOURS = ("#DDDDDD", "#CCCCCC", "#BBBBBB", "#AAAAAA", "#999999", "#888888", "#555555")


@pytest.fixture(scope="module")
def write_flow(megengine_python, tmp_path_factory):
    """Return a function that runs a program with a scope of a given name and returns its file."""

    @cache
    def write(name: str, program: str = STEP) -> Path:
        folder = tmp_path_factory.mktemp("flow")
        (folder / "step.py").write_text(program)
        run_python(megengine_python, folder / "step.py", folder / "out", name)
        (path,) = (folder / "out").iterdir()
        return path

    return write


def test_rectangles_are_rounded_from_their_attributes(write_flow):
    path = write_flow("plain")
    tensors = [
        {key.rpartition("}")[2]: value for key, value in element.attrib.items()}
        for element in ElementTree.parse(path).getroot()
    ][1:]
    first = min(ns_of(tensor["produced"]) for tensor in tensors)
    lowest = min(int(tensor["address"], 16) for tensor in tensors)
    for tensor in tensors:
        begin, end = ns_of(tensor["produced"]), ns_of(tensor["erased"])
        left = (begin - first) // 100_000
        assert float(tensor["x"]) == left
        assert float(tensor["width"]) == (end - first) // 100_000 - left
        assert float(tensor["y"]) == pytest.approx((int(tensor["address"], 16) - lowest) / 1e6)
        assert float(tensor["height"]) == pytest.approx(bytes_of(tensor["size"]) / 1e6)
        assert ns_of(tensor["duration"]) == end - begin
        assert tensor["fill"] == COLOURS[bisect_left(LIVES, end - begin)]


def test_views_share_the_address_of_their_tensor(write_flow):
    summary = summarize(read_flow(write_flow("plain")))
    by_name = {re.sub(r"^.*\.|:\d+$", "", row.name): row for row in summary.tensors if row.group}
    source, shaped, part = by_name["MUL"], by_name["Reshape"], by_name["Subtensor"]
    assert source.address == shaped.address == part.address
    assert (source.size_bytes, shaped.size_bytes, part.size_bytes) == (8192, 8192, 8188)
    assert (source.shape, shaped.shape, part.shape) == ((32, 64), (2048,), (1024,))
    assert summary.peak_added_bytes > summary.peak_bytes
    assert summary.never_erased == 0
    assert source.erased_s > summary.end_s - 2e-3


def test_memory_is_held_until_its_last_view_is_erased(write_flow):
    summary = summarize(read_flow(write_flow("views", VIEWS)))
    rows = [row for row in summary.tensors if row.name]
    (source,), (whole,) = ([row for row in rows if name in row.name] for name in ("ADD", "MUL"))
    views = [row for row in rows if "Subtensor" in row.name]
    assert len(views) == 5
    assert {row.address for row in views} == {source.address}
    halves = [row for row in rows if "Split" in row.name]
    assert [row.size_bytes for row in halves] == [2_000_000] * 2
    assert {row.address for row in halves} == {whole.address}
    # x, both halves and the memory of `made` remain; the resident memory shows the same
    last_s = max(row.produced_s for row in halves)
    curve = zip(summary.curve.at_s, summary.curve.held_bytes, strict=True)
    assert [held for at_s, held in curve if at_s <= last_s + 0.1][-1] == 12_000_000
    assert 12_000_000 <= summary.peak_bytes < 12_001_000


def test_names_are_written_unescaped_and_read_literally(write_flow):
    path = write_flow(NAME)
    with pytest.raises(ElementTree.ParseError):
        ElementTree.parse(path)
    summary = summarize(read_flow(path))
    assert any(row.name.startswith(NAME) for row in summary.tensors)
    assert (summary.broken, summary.others, summary.is_cut) == (0, 0, False)
    assert summary.count == path.read_text().count("tag:address")
