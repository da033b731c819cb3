"""Tests of two web processes with one Redis: wake-ups across processes, and the loss of one."""

import signal
from collections.abc import Iterator

import pytest

from webprofile.operations.devserver.demo import Visitor
from webprofile.tests.cluster import Cluster, ask, until
from webprofile.tests.end_to_end.runs import watch

pytestmark = pytest.mark.production


@pytest.fixture
def visitors(cluster: Cluster) -> Iterator[tuple[Visitor, Visitor]]:
    """The same user, logged in at one web process and at the other."""
    with cluster.person(0) as first, cluster.person(1) as second:
        second.device()  # online
        yield first, second


@pytest.mark.parametrize("asked_at", [0, 1])
def test_a_page_of_one_process_follows_what_a_device_does_at_the_other(cluster, visitors, asked_at):
    assert "agent_connected" in cluster.log("web0")
    assert "agent_connected" not in cluster.log("web1")
    # long enough that the page is open before it ends
    states, log = watch(visitors[1], ask(visitors[asked_at], iter=400))
    assert states[-1] == "succeeded", log
    assert "running" in states
    assert "iter 2/3" in log


def test_a_process_that_dies_costs_neither_the_run_nor_the_page_of_the_other(cluster, visitors):
    task = ask(visitors[0], iter=200)
    seen = []
    for message in visitors[1].events(task):
        if message["type"] == "event":
            seen.append(message["outcome"] or message["state"])
        if seen[-1:] == ["running"] and "web0" in cluster.processes:
            cluster.stop("web0", signal.SIGKILL)
        if message.get("state") == "finished":
            break
    assert seen[-1] == "succeeded"
    until(lambda: "agent_connected" in cluster.log("web1"), what="the agent is at the other")
    cluster.start("web0")
    assert "Attempt 2" not in visitors[1].get(f"/tasks/{task}/").text
