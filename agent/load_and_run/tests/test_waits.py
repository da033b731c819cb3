"""What the threads of a run waited for a core is counted in the iterations behind its figure."""

import pytest
from load_and_run import waits

from agent.protocol.run_log import CoreWaits, parse_log


@pytest.fixture
def counted(monkeypatch):
    """Function that returns what is counted of iterations, each {ms, ms that threads waited}."""
    waited_ns = 0
    monkeypatch.setattr(waits, "waited_ns_by_thread", lambda: {"1": waited_ns, "2": 0})
    monkeypatch.setattr(waits, "stolen_ms", lambda: 0.0)

    def counted(*iterations: tuple[float, float], profiled: bool = False) -> CoreWaits:
        nonlocal waited_ns
        counter = waits.Iterations()
        for number, (time_ms, waited_ms) in enumerate(iterations, start=1):
            if profiled and number == len(iterations):
                counter.forget()
            waited_ns += round(1e6 * waited_ms)
            counter.add(time_ms)
        found = parse_log(counter.line()).waits
        assert found is not None
        return found

    return counted


def test_iterations_that_do_not_change_the_median_do_not_count(counted):
    quiet, slow = (10.0, 0.1), (15.0, 5.0)
    found = counted(quiet, slow, quiet, quiet, slow, quiet, slow, quiet)
    assert (found.waited_ms, found.elapsed_ms) == (pytest.approx(0.4), pytest.approx(40.0))


def test_waiting_in_most_iterations_counts(counted):
    quiet, slow = (10.0, 0.0), (15.0, 5.0)
    found = counted(slow, quiet, slow, slow, slow)
    assert (found.waited_ms, found.elapsed_ms) == (pytest.approx(10.0), pytest.approx(40.0))


def test_only_the_last_iteration_counts_if_the_profile_is_of_it(counted):
    quiet, slow = (10.0, 0.1), (15.0, 5.0)
    found = counted(slow, slow, quiet, profiled=True)
    assert (found.waited_ms, found.elapsed_ms) == (pytest.approx(0.1), pytest.approx(10.0))
    assert counted(quiet, quiet, slow, profiled=True).waited_ms == pytest.approx(5.0)


def test_short_iterations_are_counted_together(counted, monkeypatch):
    reads = []
    original = waits.waited_ns_by_thread
    monkeypatch.setattr(waits, "waited_ns_by_thread", lambda: reads.append(1) or original())
    found = counted(*[(0.1, 0.01)] * 1000)
    assert found.waited_ms / found.elapsed_ms == pytest.approx(0.1)
    # 100 ms in blocks of 5 ms
    assert len(reads) < 30
