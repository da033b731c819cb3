"""Tests with RabbitMQ as the broker: no work is lost when it fails."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import dramatiq
import pytest
import redis

from testdata import DATA
from webprofile.operations.devserver import parts
from webprofile.operations.devserver.demo import Visitor
from webprofile.rabbitmq import OneConnectionBroker
from webprofile.settings.environment import broker_of
from webprofile.tests.cluster import Cluster, submit_tiny, write_replayer
from webprofile.tests.end_to_end.runs import watch
from webprofile.tests.rabbit import RabbitServer

pytestmark = pytest.mark.production


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    with RabbitServer(tmp_path_factory.mktemp("rabbit") / "server") as rabbit:
        yield rabbit


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, rabbit: RabbitServer) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with Cluster(folder, BROKER_URL=rabbit.url) as cluster:
        cluster.start("actors", parts.actors())
        cluster.start("sweep", parts.sweep())
        cluster.start_agent(write_replayer(folder, DATA / "profiles" / "tiny.json"))
        yield cluster


@pytest.fixture(scope="module")
def visitor(cluster: Cluster) -> Iterator[Visitor]:
    with cluster.login() as visitor:
        visitor.device()  # online
        yield visitor


def test_task_is_profiled_over_rabbitmq(rabbit, cluster, visitor):
    states, log = watch(visitor, submit_tiny(visitor))
    assert states[-1] == "succeeded", log
    with redis.Redis(unix_socket_path=str(cluster.site.redis_socket)) as client:
        assert client.keys("*dramatiq*") == [], "the message went over Redis"
    output = cluster.try_manage("doctor").stdout
    assert "RabbitMQ takes messages and hands them out." in output
    assert "They listen to the queue and answer." in output


def test_sweep_recovers_messages_lost_while_rabbitmq_is_down(rabbit, cluster, visitor):
    rabbit.kill()
    task = submit_tiny(visitor)
    assert cluster.state_of(task) == "waiting"
    rabbit.start()
    states, log = watch(visitor, task)
    assert states[-1] == "succeeded", log
    output = cluster.manage("verify", "--grace-hours", "0").stdout
    assert output.strip() == "Every promise holds."


def test_sending_threads_share_one_connection(rabbit):
    options = broker_of(rabbit.url)["OPTIONS"]
    broker = OneConnectionBroker(middleware=[], **options)
    try:
        broker.declare_queue("many")
        for _ in range(20):
            message = dramatiq.Message("many", "nobody", (), {}, {})
            with ThreadPoolExecutor(1) as thread:
                thread.submit(broker.enqueue, message).result()
        assert len(broker.connections) == 1
        assert broker.get_queue_message_counts("many")[0] == 20
    finally:
        broker.flush("many")
        broker.close()
