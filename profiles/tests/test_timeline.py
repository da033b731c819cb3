"""The timeline: every valid interval is part of a bar, also if bars are merged."""

import numpy as np
import pytest

from profiles.analysis.timeline import timeline
from profiles.tests.graphs import read_good, read_times


def test_a_bar_waits_until_its_first_kernel_and_works_until_its_end():
    graph, columns = read_times({"1": (0.001, 0.003, 0.004)})
    chart = timeline(graph, columns.types)
    assert chart.bars.wait_us.tolist() == pytest.approx([2000])
    assert chart.bars.work_us.tolist() == pytest.approx([1000])
    assert chart.span_us == pytest.approx(3000)
    assert (chart.lanes[0].side, chart.lanes[0].operators) == ("device", 1)


def test_an_operator_without_kernel_does_not_wait():
    graph, columns = read_times({"1": (0.0, 0.0, 0.001)}, host={"1": (0.0, -1, 0.002)})
    host = timeline(graph, columns.types).bars
    assert host.wait_us[0] == 0
    assert host.work_us[0] == pytest.approx(2000)


def test_invalid_times_are_left_out_and_counted():
    graph, columns = read_times(
        {
            "1": (0.0, 0.0, 0.001),
            "2": (0.002, 0.002, 0.001),
            "3": (-0.001, 0.0, 0.001),
            "4": ("nan", 0.0, 0.001),
            "5": (0.0, 0.0, "inf"),
        }
    )
    chart = timeline(graph, columns.types)
    assert chart.odd == {"not_finite": 2, "negative": 1, "reversed": 1}
    assert chart.bars.rows.tolist() == [0]


def test_device_times_are_shifted_behind_their_host_times():
    device = {"1": (0.001, 0.001, 0.002), "2": (0.002, 0.002, 0.003)}
    host = {"1": (0.005, 0.005, 0.006), "2": (0.007, 0.007, 0.008)}
    graph, columns = read_times(device, host)
    chart = timeline(graph, columns.types)
    assert chart.shift_us == pytest.approx(5000)
    bars = chart.bars
    start = {
        (lane, row): at for lane, row, at in zip(bars.lane, bars.rows, bars.start_us, strict=True)
    }
    assert start[1, 0] - start[0, 0] == pytest.approx(1000)
    assert start[1, 1] - start[0, 1] == pytest.approx(0)


def test_a_late_device_is_not_shifted():
    """The clock of the device starts later, so the real gap is at least that of the file."""
    graph, columns = read_times({"1": (0.009, 0.009, 0.010)}, host={"1": (0.005, 0.005, 0.006)})
    chart = timeline(graph, columns.types)
    assert chart.shift_us == 0
    assert np.diff(chart.bars.start_us) == pytest.approx([4000])


def test_device_times_of_the_same_clock_are_not_shifted():
    graph, columns = read_times({"1": (0.001, 0.001, 0.002)}, host={"1": (0.005, 0.005, 0.006)})
    chart = timeline(graph, columns.types, one_clock=True)
    assert chart.shift_us is None
    starts = dict(zip(chart.bars.lane.tolist(), chart.bars.start_us.tolist(), strict=True))
    assert [chart.lanes[lane].side for lane in (0, 1)] == ["host", "device"]
    assert starts == pytest.approx({0: 4000, 1: 0})


def test_without_host_times_there_is_no_shift():
    graph, columns = read_times({"1": (0.5, 0.5, 0.6)})
    assert timeline(graph, columns.types).shift_us is None


def test_copies_are_not_merged_with_other_operators():
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


def test_merged_bars_keep_every_operator_and_its_time():
    graph, columns = read_good("deep_loop")
    fine = timeline(graph, columns.types, limit=100_000).bars
    merged = timeline(graph, columns.types, limit=500).bars
    assert (fine.counts == 1).all()
    assert len(merged) <= 500
    assert sorted(merged.rows.tolist()) == sorted(fine.rows.tolist())
    assert merged.wait_us.sum() == pytest.approx(fine.wait_us.sum())
    assert merged.work_us.sum() == pytest.approx(fine.work_us.sum())


def test_a_narrow_window_shows_bars_of_single_operators():
    graph, columns = read_good("deep_loop")
    whole = timeline(graph, columns.types, limit=500)
    window = (0.2 * whole.span_us, 0.22 * whole.span_us)
    part = timeline(graph, columns.types, window, limit=500).bars
    assert (part.counts == 1).all()
    assert part.start_us.min() <= window[1]
    assert part.end_us.max() >= window[0]


def test_simultaneous_operators_are_merged_into_one_bar():
    times = {str(n): (0.001, 0.001, 0.001) for n in range(500)}
    graph, columns = read_times(times)
    bars = timeline(graph, columns.types, limit=100).bars
    assert len(bars) == 1
    assert bars.counts.tolist() == [500]


def test_a_profile_without_times_has_no_lanes():
    graph, columns = read_times({})
    chart = timeline(graph, columns.types)
    assert (chart.lanes, len(chart.bars), chart.span_us) == ((), 0, 0.0)
