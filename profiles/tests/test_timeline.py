"""The timeline: every valid interval is in a bar, however few bars are drawn."""

import numpy as np
import pytest

from profiles.analysis.timeline import timeline
from profiles.tests.graphs import read_good, read_times


def test_a_bar_waits_until_its_first_kernel_and_computes_until_its_last():
    graph, columns = read_times({"1": (0.001, 0.003, 0.004)})
    drawn = timeline(graph, columns.types)
    assert drawn.bars.wait_us.tolist() == pytest.approx([2000])
    assert drawn.bars.work_us.tolist() == pytest.approx([1000])
    assert drawn.span_us == pytest.approx(3000)
    assert (drawn.lanes[0].side, drawn.lanes[0].operators) == ("device", 1)


def test_an_operator_without_kernel_does_not_wait():
    graph, columns = read_times({"1": (0.0, 0.0, 0.001)}, host={"1": (0.0, -1, 0.002)})
    host = timeline(graph, columns.types).bars
    assert host.wait_us[0] == 0
    assert host.work_us[0] == pytest.approx(2000)


def test_times_that_cannot_be_are_left_out_and_counted():
    graph, columns = read_times(
        {
            "1": (0.0, 0.0, 0.001),
            "2": (0.002, 0.002, 0.001),
            "3": (-0.001, 0.0, 0.001),
            "4": ("nan", 0.0, 0.001),
            "5": (0.0, 0.0, "inf"),
        }
    )
    drawn = timeline(graph, columns.types)
    assert drawn.odd == {"not_finite": 2, "negative": 1, "reversed": 1}
    assert drawn.bars.rows.tolist() == [0]


def test_no_operator_starts_on_the_device_before_the_host_issued_it():
    device = {"1": (0.001, 0.001, 0.002), "2": (0.002, 0.002, 0.003)}
    host = {"1": (0.005, 0.005, 0.006), "2": (0.007, 0.007, 0.008)}
    graph, columns = read_times(device, host)
    drawn = timeline(graph, columns.types)
    assert drawn.shift_us == pytest.approx(5000)
    bars = drawn.bars
    start = {
        (lane, row): at for lane, row, at in zip(bars.lane, bars.rows, bars.start_us, strict=True)
    }
    assert start[1, 0] - start[0, 0] == pytest.approx(1000)
    assert start[1, 1] - start[0, 1] == pytest.approx(0)


def test_a_device_that_starts_long_after_the_host_is_not_moved_towards_it():
    """The device's clock starts later, so the real gap is at least as long as that in the file."""
    graph, columns = read_times({"1": (0.009, 0.009, 0.010)}, host={"1": (0.005, 0.005, 0.006)})
    drawn = timeline(graph, columns.types)
    assert drawn.shift_us == 0
    assert np.diff(drawn.bars.start_us) == pytest.approx([4000])


def test_without_host_times_nothing_is_moved():
    graph, columns = read_times({"1": (0.5, 0.5, 0.6)})
    assert timeline(graph, columns.types).shift_us is None


def test_copies_are_told_from_other_operators_and_never_merged_with_them():
    times = {str(n): (n * 1e-6, n * 1e-6, n * 1e-6 + 1e-6) for n in range(100)}
    types = {str(n): "Host2DeviceCopy" for n in range(0, 100, 2)}
    graph, columns = read_times(times, types=types)
    bars = timeline(graph, columns.types, limit=10).bars
    assert (bars.counts > 1).any()
    firsts = np.cumsum(bars.counts) - bars.counts
    for first, count, copies in zip(firsts, bars.counts, bars.copies, strict=True):
        assert {columns.types[row] == "Host2DeviceCopy" for row in bars.rows[first:][:count]} == {
            bool(copies)
        }


def test_merging_keeps_every_operator_and_all_its_time():
    graph, columns = read_good("deep_loop")
    fine = timeline(graph, columns.types, limit=100_000).bars
    few = timeline(graph, columns.types, limit=500).bars
    assert (fine.counts == 1).all()
    assert len(few) <= 500
    assert sorted(few.rows.tolist()) == sorted(fine.rows.tolist())
    assert few.wait_us.sum() == pytest.approx(fine.wait_us.sum())
    assert few.work_us.sum() == pytest.approx(fine.work_us.sum())


def test_a_narrow_window_shows_bars_of_single_operators():
    graph, columns = read_good("deep_loop")
    whole = timeline(graph, columns.types, limit=500)
    window = (0.2 * whole.span_us, 0.22 * whole.span_us)
    part = timeline(graph, columns.types, window, limit=500).bars
    assert (part.counts == 1).all()
    assert part.start_us.min() <= window[1]
    assert part.end_us.max() >= window[0]


def test_bars_stay_few_when_all_operators_run_at_once():
    times = {str(n): (0.001, 0.001, 0.001) for n in range(500)}
    graph, columns = read_times(times)
    bars = timeline(graph, columns.types, limit=100).bars
    assert len(bars) == 1
    assert bars.counts.tolist() == [500]


def test_a_profile_without_times_has_no_lanes():
    graph, columns = read_times({})
    drawn = timeline(graph, columns.types)
    assert (drawn.lanes, len(drawn.bars), drawn.span_us) == ((), 0, 0.0)
