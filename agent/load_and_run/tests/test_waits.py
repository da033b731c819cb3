"""What the threads of a run waited for a core is counted in the iterations behind its figure."""

from types import SimpleNamespace

import pytest
from load_and_run import waits

from agent.protocol.run_log import CoreWaits, parse_log

QUIET, SLOW = (10.0, 0.1), (15.0, 5.0)


@pytest.fixture
def counted(monkeypatch):
    """Function that returns what is counted of iterations, each (ms, ms that threads waited)."""
    clock = SimpleNamespace(s=0.0, waited_ns=0, reads=0)

    def read():
        clock.reads += 1
        return {"1": clock.waited_ns, "2": 0}

    monkeypatch.setattr(waits, "waited_ns_by_thread", read)
    monkeypatch.setattr(waits, "stolen_ms", lambda: 0.0)
    monkeypatch.setattr(waits, "time", SimpleNamespace(perf_counter=lambda: clock.s))

    def counted(*iterations: tuple[float, float], profiled: bool = False) -> CoreWaits:
        counter = waits.Iterations()
        for number, (time_ms, waited_ms) in enumerate(iterations, start=1):
            if profiled and number == len(iterations):
                counter.expect_last()
            clock.s += time_ms / 1000
            clock.waited_ns += round(1e6 * waited_ms)
            counter.add(time_ms)
        found = parse_log(counter.line()).waits
        assert found is not None
        return found

    counted.clock = clock
    return counted


def test_iterations_that_do_not_change_the_median_do_not_count(counted):
    found = counted(QUIET, SLOW, QUIET, QUIET, SLOW, QUIET, SLOW, QUIET)
    assert (found.waited_ms, found.elapsed_ms) == (pytest.approx(0.5), pytest.approx(50.0))
    # they do change the mean
    assert (found.whole_waited_ms, found.whole_ms) == (pytest.approx(15.5), pytest.approx(95.0))


def test_half_of_the_iterations_change_the_median(counted):
    found = counted(SLOW, QUIET, SLOW, QUIET)
    assert (found.waited_ms, found.elapsed_ms) == (pytest.approx(5.2), pytest.approx(35.0))


def test_waiting_in_most_iterations_counts(counted):
    found = counted(SLOW, QUIET, SLOW, SLOW, SLOW)
    assert (found.waited_ms, found.elapsed_ms) == (pytest.approx(10.1), pytest.approx(40.0))


def test_only_the_last_iteration_counts_if_the_profile_is_of_it(counted):
    found = counted(SLOW, SLOW, (1.0, 0.01), profiled=True)
    assert (found.waited_ms, found.elapsed_ms) == (pytest.approx(0.01), pytest.approx(1.0))
    assert counted(QUIET, QUIET, SLOW, profiled=True).waited_ms == pytest.approx(5.0)


def test_short_iterations_are_counted_together(counted):
    found = counted(*[(0.1, 0.01)] * 1000)
    assert found.waited_ms / found.elapsed_ms == pytest.approx(0.1)
    # 100 ms in blocks of 5 ms, each with two reads
    assert counted.clock.reads < 50


def test_long_iterations_of_few_blocks_do_not_outweigh_short_ones(counted):
    # the median is one of the 1,000 short iterations, which are fewer blocks than the long ones
    found = counted(*[(0.1, 0.0)] * 1000, *[(10.0, 5.0)] * 100)
    assert found.waited_ms == 0


def test_a_thread_that_ends_does_not_hide_the_others(monkeypatch, tmp_path):
    monkeypatch.setattr(waits.os, "listdir", lambda _: ["1", "ended"])
    real = open

    def opened(path, *arguments, **more):
        if "ended" in str(path):
            raise FileNotFoundError(path)
        (tmp_path / "schedstat").write_text("5 7 1")
        return real(tmp_path / "schedstat", *arguments, **more)

    monkeypatch.setattr("builtins.open", opened)
    assert waits.waited_ns_by_thread() == {"1": 7}


def test_without_proc_nothing_is_counted(monkeypatch):
    def missing(path):
        raise FileNotFoundError(path)

    monkeypatch.setattr(waits.os, "listdir", missing)
    counter = waits.Iterations()
    counter.add(10.0)
    assert counter.line() == ""
