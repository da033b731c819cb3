"""Memory that tensors of `memory_flow.svg` share: views, splits, in-place results, reuse."""

import pytest

from profiles.formats.memory_flow.reader import bytes_below
from profiles.tests.flows import read, tensor, to_flow

MB = 1_000_000


def names_at_peak(summary):
    return sorted(row.name for row in summary.tensors if row.at_peak)


def held_bytes(summary, at_ns):
    """Return the bytes of the curve at a time; a small file has all moments in its curve."""
    moments = zip(summary.curve.at_s, summary.curve.held_bytes, strict=True)
    return [size for at_s, size in moments if at_s <= at_ns * 1e-9][-1]


def test_halves_of_a_split_hold_the_whole_tensor(tmp_path):
    # MegEngine writes the address of the whole tensor for both halves and erases it immediately
    summary = read(
        tmp_path,
        to_flow(
            tensor("x", at=64, size=4 * MB, begin=0, end=900),
            tensor("whole", at=8 * MB, size=4 * MB, begin=100, end=120),
            tensor("Split:0", at=8 * MB, size=2 * MB, begin=110, end=500),
            tensor("Split:1", at=8 * MB, size=2 * MB, begin=115, end=600),
            tensor("late", at=20 * MB, size=MB, begin=300, end=400),
        ),
    )
    assert (summary.peak_bytes, summary.peak_s) == (9 * MB, pytest.approx(300e-9))
    assert names_at_peak(summary) == ["Split:0", "Split:1", "late", "x"]
    # both halves have the same address: 2 of the 4 MB belong to the whole tensor
    assert (summary.peak_added_bytes, summary.peak_kept_bytes) == (9 * MB, 2 * MB)
    assert [held_bytes(summary, at) for at in (200, 550, 600)] == [8 * MB, 8 * MB, 4 * MB]


def test_a_view_holds_all_memory_of_an_erased_tensor(tmp_path):
    summary = read(
        tmp_path,
        to_flow(
            tensor("whole", at=4096, size=4 * MB, begin=0, end=100),
            tensor("view", at=4096, size=400_000, begin=50, end=800),
            tensor("other", at=8 * MB, size=MB, begin=200, end=300),
        ),
    )
    assert (summary.peak_bytes, summary.peak_kept_bytes) == (5 * MB, 3_600_000)
    # the view keeps its own size and lifetime
    view = next(row for row in summary.tensors if row.name == "view")
    assert (view.size_bytes, view.produced_s) == (400_000, pytest.approx(50e-9))
    assert (view.duration_s, view.at_peak) == (pytest.approx(750e-9), True)
    tags = {row.tag: row.peak_bytes for row in summary.tags}
    assert tags == {"whole": 0, "view": 400_000, "other": MB}


def test_views_of_views_hold_the_memory_until_the_last_is_erased(tmp_path):
    summary = read(
        tmp_path,
        to_flow(
            tensor("whole", at=64, size=1_000, begin=0, end=10),
            tensor("first", at=64, size=500, begin=9, end=30),
            tensor("brief", at=64, size=8, begin=12, end=13),
            tensor("second", at=64, size=20, begin=29, end=50),
        ),
    )
    assert [held_bytes(summary, at) for at in (5, 15, 40, 50)] == [1_000, 1_000, 1_000, 0]


def test_reused_memory_has_the_size_of_its_new_tensor(tmp_path):
    summary = read(
        tmp_path,
        to_flow(
            tensor("before", at=64, size=1_000, begin=0, end=10),
            tensor("after", at=64, size=10, begin=10, end=30),
            tensor("last", at=64, size=2_000, begin=40, end=50),
            tensor("never", at=64, size=9_000, begin=25, end=25),
        ),
    )
    assert [held_bytes(summary, at) for at in (5, 20, 35, 45)] == [1_000, 10, 0, 2_000]
    assert (summary.peak_bytes, summary.peak_kept_bytes) == (2_000, 0)
    assert names_at_peak(summary) == ["last"]


def test_in_place_results_count_once(tmp_path):
    # each step's output reuses the memory of its input, which is erased shortly afterwards
    steps = [tensor(f"w{n}", at=64, size=400, begin=10 * n, end=10 * n + 12) for n in range(9)]
    summary = read(tmp_path, to_flow(*steps))
    assert set(summary.curve.held_bytes) == {400, 0}
    assert (summary.peak_bytes, summary.peak_kept_bytes) == (400, 0)
    assert summary.near_peak_s == pytest.approx(92e-9)


def test_many_views_of_a_tensor_count_it_once(tmp_path):
    views = [tensor("v", at=64, size=8, begin=n, end=20_000 - n) for n in range(1, 5_000)]
    whole = tensor("whole", at=64, size=MB, begin=0, end=2)
    summary = read(tmp_path, to_flow(*views, whole))
    assert (summary.count, summary.peak_bytes, summary.curve.held_bytes) == (5_000, MB, (MB, 0))


def test_a_view_with_negative_strides_holds_the_same_block(tmp_path):
    # as MegEngine 1.13 writes a, a[::-1] and a[:, ::-1]
    tensors = (
        ("a", 0x7FC8308CAD00, "{1000(1000),1000(1) Float32}"),
        ("rows", 0x7FC8304FB3A0, "{1000(-1000),1000(1) Float32}"),
        ("columns", 0x7FC8308C9D64, "{1000(1000),1000(-1) Float32}"),
    )
    data = to_flow(
        *(
            tensor(name, at=at, size=4 * MB, begin=5, end=90, layout=layout)
            for name, at, layout in tensors
        )
    )
    summary = read(tmp_path, data)
    assert (summary.peak_bytes, summary.used_bytes) == (4 * MB, 4 * MB)
    assert (summary.peak_tensors, summary.peak_added_bytes) == (3, 12 * MB)
    assert {row.address for row in summary.tensors} == {"0x7fc8308cad00"}


@pytest.mark.parametrize(
    ("layout", "size", "below"),
    [
        ("{1000(-1000),1000(1) Float32}", 4_000_000, 3_996_000),
        ("{1000(1000),1000(-1) Float32}", 4_000_000, 3_996),
        ("{800(-1000),1000(1) Float32}", 3_200_000, 3_196_000),
        ("{7(-1) Int8}", 7, 6),
        ("{7(-1) Float16}", 14, 12),
        ("{7(-2),3(0) Bool}", 13, 12),
        ("{10(96),96(1) Float32}", 3_840, 0),
        ("{0(-1) Float32}", 4, 0),
        ("{1(-1) Float32}", 4, 0),
        ("(-", 4, 0),
        ("", 4, 0),
    ],
)
def test_axes_with_negative_strides_lie_below_the_first_element(layout, size, below):
    assert bytes_below(layout, size) == below
