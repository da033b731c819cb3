"""Work of several threads done by one of them: who works when, and what becomes of failures."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from structlog.contextvars import bound_contextvars, get_contextvars

from webprofile.together import Together

PATIENCE_S = 20


class Desk:
    """Doubles numbers; each round waits until it is let go."""

    def __init__(self, most: int = 10, patience_s: float = PATIENCE_S) -> None:
        self.rounds: list[list[int]] = []
        self.leaders: list[int] = []
        self.alone: list[tuple[int, int]] = []
        self.left_out: set[int] = set()
        self.together = Together(self._act, self._do_alone, most=most, patience_s=patience_s)
        self.begun, self.may_go = threading.Event(), threading.Event()

    def _act(self, numbers):
        self.rounds.append(list(numbers))
        self.leaders.append(threading.get_ident())
        self.begun.set()
        assert self.may_go.wait(PATIENCE_S)
        if self.left_out.intersection(numbers) == {-1}:
            raise RuntimeError("no round with this one")
        return {n: 2 * each for n, each in enumerate(numbers) if each not in self.left_out}

    def _do_alone(self, number):
        self.alone.append((number, threading.get_ident()))
        if number == -1:
            raise ValueError("it is to blame")
        return 2 * number

    def ask(self, *calls):
        """All calls at the same moment: the first begins, the others come while it works."""
        with ThreadPoolExecutor(len(calls)) as pool:
            asked = [pool.submit(self.together.do, calls[0])]
            assert self.begun.wait(PATIENCE_S)
            for number, call in enumerate(calls[1:], start=1):
                asked.append(pool.submit(self.together.do, call))
                self._until_waiting(number)
            self.may_go.set()
        return asked

    def _until_waiting(self, number: int) -> None:
        patience = threading.Event()
        for _ in range(PATIENCE_S * 100):
            if len(self.together._waiting) >= number:
                return
            patience.wait(0.01)
        raise AssertionError(f"{number} calls never waited")


def test_what_comes_while_one_works_is_done_as_one_piece():
    desk = Desk()
    asked = desk.ask([1], [2, 3], [4], [5])
    assert [each.result() for each in asked] == [[2], [4, 6], [8], [10]]
    assert desk.rounds == [[1], [2, 3, 4, 5]]
    assert not desk.alone


def test_one_that_comes_alone_waits_for_nobody():
    desk = Desk()
    desk.may_go.set()
    assert [desk.together.do([number]) for number in (1, 2)] == [[2], [4]]
    assert desk.rounds == [[1], [2]]


def test_a_round_has_its_limit_and_nobody_leads_twice():
    desk = Desk(most=2)
    asked = desk.ask(*([number] for number in range(7)), [7, 8, 9])
    assert [each.result()[0] for each in asked] == [2 * number for number in range(8)]
    assert desk.rounds == [[0], [1, 2], [3, 4], [5, 6], [7, 8, 9]]
    assert len(set(desk.leaders)) == len(desk.leaders)


def test_what_a_round_leaves_out_is_done_by_who_wants_it():
    desk = Desk()
    desk.left_out = {3, 4}
    asked = desk.ask([1], [2, 3], [4])
    assert [each.result() for each in asked] == [[2], [4, 6], [8]]
    numbers, threads = zip(*sorted(desk.alone), strict=True)
    assert numbers == (3, 4)
    assert len(set(threads)) == 2


def test_a_round_that_fails_is_done_singly_and_only_who_is_to_blame_hears_of_it():
    desk = Desk()
    desk.left_out = {-1}
    asked = desk.ask([1], [2], [-1], [3])
    assert [asked[place].result() for place in (0, 1, 3)] == [[2], [4], [6]]
    with pytest.raises(ValueError, match="it is to blame"):
        asked[2].result()
    assert desk.together.do([5]) == [10]  # and it goes on


def test_a_round_that_is_stuck_keeps_only_its_own_waiting():
    desk = Desk(patience_s=1.0)
    with ThreadPoolExecutor(3) as pool:
        stuck = pool.submit(desk.together.do, [1])
        assert desk.begun.wait(PATIENCE_S)
        assert [each.result() for each in [pool.submit(desk.together.do, [n]) for n in (2, 3)]] == [
            [4],
            [6],
        ]
        assert not stuck.done()
        begin = time.monotonic()
        assert pool.submit(desk.together.do, [5]).result() == [10]
        assert time.monotonic() - begin < desk.together._patience_s  # nobody waits for it any more
        desk.may_go.set()
        assert stuck.result() == [2]
    assert desk.rounds == [[1]]
    assert desk.together.do([4]) == [8]  # and it goes on


def test_lines_of_the_log_about_others_say_nothing_of_this_request():
    desk, seen = Desk(), []
    act = desk.together._act
    desk.together._act = lambda numbers: seen.append(get_contextvars()) or act(numbers)

    def ask(number):
        with bound_contextvars(request_id=number):
            desk.together.do([number])
            return get_contextvars()["request_id"]

    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(ask, 1)]
        assert desk.begun.wait(PATIENCE_S)
        asked += [pool.submit(ask, number) for number in (2, 3)]
        desk._until_waiting(2)
        desk.may_go.set()
        assert [each.result() for each in asked] == [1, 2, 3]
    assert [facts.get("request_id") for facts in seen] == [1, None]
