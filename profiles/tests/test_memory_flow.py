"""`memory_flow.svg`: sizes, times and the peak, compared with plain sums over the file."""

import math
import re
from xml.etree import ElementTree

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiles.analysis.downsampling import downsample
from profiles.formats.memory_flow import summary as summaries
from profiles.formats.memory_flow.reader import bytes_of, layout_of, ns_of, read_flow
from profiles.formats.memory_flow.summary import MemoryFlowSummary, summarize
from profiles.formats.memory_flow.usage import usage_of
from profiles.tests.flows import (
    MLP,
    RESNET,
    read,
    size_text,
    tensor,
    time_text,
    to_flow,
)

TAG = "{https://megengine.org.cn}"
WORTH = {
    "GB": 2**30, "MB": 2**20, "KB": 2**10, "B": 1,
    "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1,
}  # fmt: skip


def sum_units(text):
    return sum(int(n) * WORTH[unit] for n, unit in re.findall(r"(\d+)([A-Za-z]+)", text))


def read_tensors(path):
    """Return (name, address, size, begin, end) of each tensor, read with ElementTree only."""
    rows = []
    for element in ElementTree.parse(path).getroot():
        if f"{TAG}address" in element.attrib:
            attributes = {key.removeprefix(TAG): value for key, value in element.attrib.items()}
            rows.append(
                (
                    attributes["name"],
                    int(attributes["address"], 16),
                    *(sum_units(attributes[key]) for key in ("size", "produced", "erased")),
                )
            )
    return rows


def blocks_of(rows):
    """Return (address, size, begin, end) of blocks; overlapping tensors of an address are one."""
    blocks = []
    for _, low, size, begin, end in rows:
        if begin < end:
            overlapping = [
                block for block in blocks if block[0] == low and block[2] < end and begin < block[3]
            ]
            blocks = [block for block in blocks if block not in overlapping]
            _, sizes, begins, ends = zip(*overlapping, (low, size, begin, end), strict=True)
            blocks.append((low, max(sizes), min(begins), max(ends)))
    return blocks


def held_bytes(blocks, at):
    """Return the bytes of all blocks at a moment; each address counts once."""
    held, top = 0, 0
    for low, size in sorted(block[:2] for block in blocks if block[2] <= at < block[3]):
        held += max(0, low + size - max(low, top))
        top = max(top, low + size)
    return held


@pytest.mark.parametrize("path", [MLP, RESNET], ids=["mlp", "resnet"])
def test_peak_and_curve_equal_sums_over_the_file(path):
    rows = read_tensors(path)
    blocks = blocks_of(rows)
    moments = sorted({at for block in blocks for at in block[2:]})
    held = [held_bytes(blocks, at) for at in moments]
    peak = max(held)
    at = moments[held.index(peak)]
    summary = summarize(read_flow(path))
    assert summary.count == len(rows)
    assert (summary.peak_bytes, summary.peak_s) == (peak, pytest.approx(at / 1e9))
    alive = [row for row in rows if row[3] <= at < row[4]]
    assert summary.peak_tensors == len(alive)
    assert summary.peak_added_bytes == sum(row[2] for row in alive)
    at_peak = sorted((row.name, row.size_bytes) for row in summary.tensors if row.at_peak)
    assert at_peak == sorted((row[0], row[2]) for row in alive)
    usage = usage_of(read_flow(path))
    assert (usage.at_ns.tolist(), usage.held.tolist()) == (moments, held)


def test_figures_of_the_resnet_sample():
    summary = summarize(read_flow(RESNET))
    assert (summary.count, summary.peak_bytes) == (589, 1_688_740)
    assert (summary.peak_added_bytes, summary.is_cut) == (1_689_224, False)
    assert (summary.broken, summary.others, summary.never_erased) == (0, 0, 0)
    # the first tensor of the file; another tensor has the same name
    first = next(row for row in summary.tensors if row.group == 25_000)
    assert (first.name, first.address) == ("step[152].ADD:0", "0x7f653c4c2a80")
    assert (first.size_bytes, first.shape, first.dtype) == (256, (1, 64, 1, 1), "Float32")
    assert first.produced_s == pytest.approx(45.594283e-3)
    assert first.erased_s == pytest.approx(82.075249e-3)
    assert first.duration_s == pytest.approx(36.480966e-3)
    steps = next(row for row in summary.tags if row.tag == "step.ADD")
    assert steps.tensors == sum(
        bool(re.fullmatch(r"step(\[\d+\])?\.ADD:0", name)) for name, *_ in read_tensors(RESNET)
    )


def test_the_chart_omits_unused_addresses():
    summary = summarize(read_flow(MLP))
    addresses = [(row[1], row[1] + row[2]) for row in read_tensors(MLP)]
    assert max(high for _, high in addresses) - min(low for low, _ in addresses) > 46e12
    used, top = 0, 0
    for low, high in sorted(addresses):
        used += max(0, high - max(low, top))
        top = max(top, high)
    assert summary.used_bytes == used < 1_000_000
    assert all(0 <= row.place_bytes <= used - row.size_bytes for row in summary.tensors)
    assert summary.regions[0].place_bytes == 0
    assert sum(region.size_bytes for region in summary.regions) == used


@given(st.integers(0, 10**18 - 1), st.integers(0, 2**50))
def test_times_and_sizes_round_trip(ns, size):
    assert ns_of(time_text(ns)) == ns
    assert bytes_of(size_text(size)) == size
    assert ns_of(time_text(ns).rstrip()) == ns


@given(st.text(alphabet="0123456789 smunKMGB.-+e", max_size=20))
def test_arbitrary_text_is_a_valid_number_or_none(text):
    for value in (ns_of(text), bytes_of(text)):
        assert value is None or 0 <= value < 2**63


@pytest.mark.parametrize(
    ("text", "shape", "dtype"),
    [
        ("{10(96),96(1) Float32}", (10, 96), "Float32"),
        ("{1(1) Int32}", (1,), "Int32"),
        ("{32(0),10(0) Float32}", (32, 10), "Float32"),
        ("{3(-1) Quantized8Asymm}", (3,), "Quantized8Asymm"),
        ("{ Float32}", None, ""),
        ("", None, ""),
        ("{1(1)}", None, ""),
        ("<script>", None, ""),
    ],
)
def test_layouts_have_shape_and_dtype(text, shape, dtype):
    assert layout_of(text) == (shape, dtype)


def test_shared_memory_counts_once(tmp_path):
    data = to_flow(
        tensor("all", at=4096, size=1024, begin=1, end=100),
        tensor("view", at=4096, size=512, begin=10, end=50),
        tensor("beside", at=8192, size=100, begin=20, end=30),
    )
    summary = read(tmp_path, data)
    assert (summary.peak_bytes, summary.peak_added_bytes, summary.peak_tensors) == (1124, 1636, 3)
    assert (summary.peak_s, summary.peak_end_s) == pytest.approx((20e-9, 30e-9))
    assert summary.used_bytes == 1124


def test_a_tensor_that_begins_when_another_ends_does_not_overlap_it(tmp_path):
    data = to_flow(
        tensor("a", at=0, size=64, begin=0, end=10), tensor("b", at=64, size=64, begin=10, end=20)
    )
    summary = read(tmp_path, data)
    assert (summary.peak_bytes, summary.peak_s, summary.peak_tensors) == (64, 0.0, 1)


@pytest.mark.parametrize("begin", [5, 50])
def test_a_tensor_that_ends_when_or_before_it_begins_holds_nothing(tmp_path, begin):
    summary = read(tmp_path, to_flow(tensor("a", at=64, size=64, begin=begin, end=5)))
    assert (summary.count, summary.never_erased) == (1, 0)
    assert (summary.peak_bytes, summary.peak_s, summary.peak_tensors) == (0, None, 0)


def test_a_tensor_that_is_never_erased_lives_to_the_end_of_the_file(tmp_path):
    data = to_flow(
        tensor("kept", at=64, size=64, begin=5, end=None),
        tensor("other", at=128, size=8, begin=1, end=90),
    )
    summary = read(tmp_path, data)
    row = next(row for row in summary.tensors if row.name == "kept")
    assert (row.erased_s, row.duration_s) == (None, pytest.approx(85e-9))
    assert (summary.never_erased, summary.peak_bytes) == (1, 72)


def test_time_near_the_peak_is_summed_over_all_moments(tmp_path):
    # more moments than points of the curve, and much longer pauses between them
    pulses = [
        tensor("pulse", at=4096, size=900, begin=start + 4 * n, end=start + 4 * n + 3)
        for start in (1_000, 2_000_000_000, 5_000_000_000)
        for n in range(700)
    ]
    data = to_flow(tensor("kept", at=64, size=100, begin=0, end=6_000_000_000), *pulses)
    summary = read(tmp_path, data)
    assert summary.peak_bytes == 1_000
    assert summary.near_peak_s == pytest.approx(3 * 700 * 3e-9, rel=1e-9)


def test_the_downsampled_curve_keeps_pauses(tmp_path):
    pulses = [
        tensor("pulse", at=4096, size=900 + n % 7, begin=start + 4 * n, end=start + 4 * n + 3)
        for start in range(0, 10 * 10**9, 10**9)
        for n in range(1, 700)
    ]
    highest = tensor("most", at=4096, size=5_000, begin=2 * 10**9, end=2 * 10**9 + 1)
    kept = tensor("kept", at=64, size=100, begin=0, end=10**10)
    curve = read(tmp_path, to_flow(kept, *pulses, highest)).curve
    assert len(curve.at_s) <= summaries.POINTS_LIMIT
    assert max(curve.held_bytes) == 5_100
    assert (curve.at_s[-1], curve.held_bytes[-1]) == (10.0, 0)
    for second in range(10):
        middle_s = second + 0.5
        heights = [
            h for at_s, h in zip(curve.at_s, curve.held_bytes, strict=True) if at_s < middle_s
        ]
        assert heights[-1] == 100


@given(st.integers(2, 40), st.lists(st.integers(0, 10**15), min_size=1, max_size=300))
def test_downsampling_keeps_the_ends_and_the_peak_within_the_limit(limit, times):
    at = np.array(sorted(times), np.int64)
    held = np.random.default_rng(len(at)).integers(0, 1_000, len(at))
    moments, last_of_stretch = downsample(at, np.arange(len(at)), limit)
    starts = np.append(0, last_of_stretch[:-1] + 1)
    assert len(starts) <= limit
    assert (starts[-1], last_of_stretch[-1]) == (len(at) - 1, len(at) - 1)
    assert (np.diff(starts) > 0).all()
    assert (moments == at[starts]).all()
    assert downsample(at, held, limit)[1].max() == held.max()


def test_exactly_nine_tenths_of_the_peak_is_near_the_peak(tmp_path):
    data = to_flow(
        tensor("least", at=0, size=900, begin=0, end=50),
        tensor("rest", at=900, size=100, begin=10, end=20),
        tensor("less", at=0, size=899, begin=50, end=90),
    )
    assert read(tmp_path, data).near_peak_s == pytest.approx(50e-9)


def test_a_file_without_tensors_has_an_empty_summary(tmp_path):
    summary = read(tmp_path, to_flow())
    assert (summary.count, summary.peak_s, summary.tensors, summary.curve.at_s) == (0, None, (), ())


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(1, 12), st.integers(0, 30), st.integers(0, 12)),
        max_size=40,
    )
)
def test_held_bytes_equal_a_count_of_addresses(tmp_path_factory, places):
    rectangles = [
        tensor("t", at=low, size=size, begin=begin, end=begin + life)
        for low, size, begin, life in places
    ]
    path = tmp_path_factory.getbasetemp() / "flow.svg"
    path.write_bytes(to_flow(*rectangles))
    usage = usage_of(read_flow(path))
    blocks = blocks_of(("t", low, size, at, at + life) for low, size, at, life in places)
    for moment in range(44):
        addresses = {
            address
            for low, size, begin, end in blocks
            if begin <= moment < end
            for address in range(low, low + size)
        }
        before = np.flatnonzero(usage.at_ns <= moment)
        assert (usage.held[before[-1]] if len(before) else 0) == len(addresses)


def test_held_bytes_are_exact_across_batches_of_moments(tmp_path):
    chance = np.random.default_rng(7)
    rows = [
        (int(low), int(size), int(begin), int(begin + life))
        for low, size, begin, life in zip(
            chance.integers(0, 5_000, 900),
            chance.integers(1, 300, 900),
            chance.integers(0, 4_000, 900),
            chance.integers(1, 900, 900),
            strict=True,
        )
    ]
    data = to_flow(
        *(tensor(f"t{n}", at=a, size=s, begin=b, end=e) for n, (a, s, b, e) in enumerate(rows))
    )
    path = tmp_path / "flow.svg"
    path.write_bytes(data)
    usage = usage_of(read_flow(path))
    assert len(usage.at_ns) > 3 * 256
    blocks = blocks_of(("", *row) for row in rows)
    assert usage.held.tolist() == [held_bytes(blocks, at) for at in usage.at_ns.tolist()]


def test_the_summary_is_bounded_and_counts_what_it_leaves_out(tmp_path, monkeypatch):
    monkeypatch.setattr(summaries, "TENSORS_LIMIT", 10)
    monkeypatch.setattr(summaries, "AT_PEAK_LIMIT", 4)
    monkeypatch.setattr(summaries, "TAGS_LIMIT", 3)
    monkeypatch.setattr(summaries, "POINTS_LIMIT", 5)
    rectangles = [
        tensor(f"part{n}.MUL:0", at=n * 100, size=n + 1, begin=n, end=500 + n) for n in range(60)
    ]
    summary = read(tmp_path, to_flow(*rectangles))
    assert (len(summary.tensors), summary.tensors_left_out) == (10, 50)
    assert (len(summary.tags), summary.tags_left_out) == (3, 57)
    assert max(summary.curve.held_bytes) == summary.peak_bytes == sum(range(1, 61))
    assert len(summary.curve.at_s) <= 5
    assert summary.peak_tensors == 60
    assert "part59.MUL:0" in {row.name for row in summary.tensors}


def test_a_summary_round_trips_through_json():
    summary = summarize(read_flow(MLP))
    assert msgspec.json.decode(msgspec.json.encode(summary), type=MemoryFlowSummary) == summary
    assert not any(math.isnan(row.produced_s) for row in summary.tensors)
