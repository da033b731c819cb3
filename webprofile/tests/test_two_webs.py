"""Tests of two web processes with one Redis: wake-ups across processes, and the loss of one."""

import signal
from collections.abc import Iterator

import pytest

from webprofile.operations.devserver.demo import Visitor
from webprofile.tests.cluster import Cluster, submit_tiny, until
from webprofile.tests.end_to_end.runs import watch

pytestmark = pytest.mark.production


@pytest.fixture(scope="module")
def visitors(cluster: Cluster) -> Iterator[tuple[Visitor, Visitor]]:
    """The same user, logged in at both web processes."""
    with cluster.login(0) as first, cluster.login(1) as second:
        second.device()  # online
        yield first, second


@pytest.mark.parametrize("submitted_at", [0, 1])
def test_page_follows_a_device_connected_to_the_other_process(cluster, visitors, submitted_at):
    assert "agent_connected" in cluster.log("web0")
    assert "agent_connected" not in cluster.log("web1")
    # so many iterations that the page is open before the task ends
    states, log = watch(visitors[1], submit_tiny(visitors[submitted_at], iter=400))
    assert states[-1] == "succeeded", log
    assert "running" in states
    assert "iter 2/3" in log


def test_killed_web_process_affects_neither_run_nor_other_page(cluster, visitors):
    task = submit_tiny(visitors[0], iter=200)
    states = []
    for message in visitors[1].events(task):
        if message["type"] == "event":
            states.append(message["outcome"] or message["state"])
        if states[-1:] == ["running"] and "web0" in cluster.processes:
            cluster.stop("web0", signal.SIGKILL)
        if message.get("state") == "finished":
            break
    assert states[-1] == "succeeded"
    until(
        lambda: "agent_connected" in cluster.log("web1"),
        what="the agent is at the other process",
    )
    cluster.start("web0")
    assert "Attempt 2" not in visitors[1].get(f"/tasks/{task}/").text
