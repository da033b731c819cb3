"""Tests with Redis as the broker: waiting consumers lose and delay no message.

The timeout after which consumers look for messages by themselves is longer than a test may take,
unless the test is about it: so each message arrives because of a wake-up.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import dramatiq
import pytest
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import Retries
from redis import Redis

from webprofile.observability.tests.parts import RedisServer
from webprofile.redis_broker import WakingBroker
from webprofile.settings.environment import patient

NAMESPACE = "mgw-dramatiq"
#: timeout of consumers in tests of wake-ups, and how long these tests wait for a message
NEVER_MS, SOON_S = 120_000, 30.0


class Server(RedisServer):
    """A Redis server that keeps its messages when it is killed and started again."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "--appendonly", "yes", "--appendfsync", "always")

    def subscriptions(self) -> int:
        with Redis.from_url(self.url) as client:
            channels = [f"{NAMESPACE}:wakeups:{name}" for name in ("notes", "notes.DQ")]
            return sum(count for _, count in client.pubsub_numsub(*channels))


class Process:
    """The consumers of one actor process; `arrived` gets (time, text) of each message."""

    def __init__(self, server: Server, *, timeout_ms: int = NEVER_MS, **options: int) -> None:
        self.arrived = queue.SimpleQueue[tuple[float, str]]()
        retries = Retries(min_backoff=1_000, max_backoff=1_000)
        self.broker = new_broker(server, middleware=[retries], **options)
        self.actor = dramatiq.actor(
            self._note, actor_name="note", queue_name="notes", broker=self.broker
        )
        self.failures = 0
        self.may_end = threading.Event()
        self.may_end.set()
        self.worker = dramatiq.Worker(self.broker, worker_timeout=timeout_ms, worker_threads=1)
        before = server.subscriptions()
        self.worker.start()
        until(lambda: server.subscriptions() == before + 2)

    def _note(self, text: str) -> None:
        self.may_end.wait(SOON_S)
        if self.failures:
            self.failures -= 1
            raise RuntimeError(text)
        self.arrived.put((time.monotonic(), text))

    def next(self) -> str:
        return self.arrived.get(timeout=SOON_S)[1]

    def stop(self) -> None:
        if self.broker.is_stopping:
            return
        until(lambda: not self.worker.work_queue.unfinished_tasks)
        for thread in self.worker.workers:
            thread.stop()
        # they wait for the timeout, and have nothing to do
        self.worker.workers.clear()
        begin = time.monotonic()
        self.worker.stop()
        assert time.monotonic() < begin + SOON_S


def new_broker(server: Server, kind: type[RedisBroker] = WakingBroker, **options):
    options.setdefault("middleware", [])
    return kind(url=patient(server.url), namespace=NAMESPACE, **options)


def message(text: str) -> dramatiq.Message:
    return dramatiq.Message("notes", "note", (text,), {}, {})


def until(condition) -> None:
    deadline = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    redis = Server(tmp_path)
    redis.start()
    yield redis
    redis.kill()


@pytest.fixture
def start(server: Server) -> Iterator[Callable[..., Process]]:
    with ExitStack() as stack:

        def start(**options: int) -> Process:
            process = Process(server, **options)
            stack.callback(process.stop)
            return process

        yield start


def test_message_wakes_a_waiting_consumer(server, start):
    process, sender = start(), new_broker(server)
    for text in "abc":
        sender.enqueue(message(text))
        assert process.next() == text


def test_more_messages_than_are_fetched_at_once_arrive_in_order(server, start):
    process, sender = start(), new_broker(server)
    texts = [str(number) for number in range(50)]
    for text in texts:
        sender.enqueue(message(text))
    assert [process.next() for _ in texts] == texts


@pytest.mark.exhaustive
def test_delayed_messages_arrive_on_time(server, start):
    process, sender = start(), new_broker(server)
    begin = time.monotonic()
    sender.enqueue(message("late"), delay=3_000)
    sender.enqueue(message("early"), delay=1_000)
    sender.enqueue(message("at once"))
    times = {text: at - begin for at, text in (process.arrived.get(timeout=SOON_S) for _ in "123")}
    assert list(times) == ["at once", "early", "late"]
    assert times["early"] >= 1.0
    assert times["late"] >= 3.0


def test_failed_message_is_retried_on_time(server, start):
    process, sender = start(), new_broker(server)
    process.failures = 2
    sender.enqueue(message("a"))
    assert process.next() == "a"


def test_lost_wakeup_delays_a_message_by_the_timeout_only(server, start):
    process = start(timeout_ms=200)
    new_broker(server, RedisBroker).enqueue(message("a"))  # publishes nothing
    assert process.next() == "a"


def test_two_processes_get_each_message_once(server, start):
    processes = [start(), start()]
    texts = [str(number) for number in range(100)]
    sender = new_broker(server)
    for text in texts:
        sender.enqueue(message(text))
    arrived = [process.arrived for process in processes]
    until(lambda: sum(each.qsize() for each in arrived) >= len(texts))
    until(lambda: sender.do_qsize("notes") == 0)
    assert sorted(each.get()[1] for each in arrived for _ in range(each.qsize())) == sorted(texts)


@pytest.mark.exhaustive
@pytest.mark.parametrize("delay", [None, 100])
def test_consumers_wait_again_after_a_restart_of_redis(server, start, delay):
    process, sender = start(), new_broker(server)
    server.kill()
    server.start()
    sender.enqueue(message("while they are away"), delay=delay)
    assert process.next() == "while they are away"
    until(lambda: server.subscriptions() == 2)
    sender.enqueue(message("a"), delay=delay)
    assert process.next() == "a"


@pytest.mark.exhaustive
def test_closed_subscription_loses_no_message(server, start):
    process, sender = start(), new_broker(server)
    with Redis.from_url(server.url) as client:
        assert client.client_kill_filter(_type="pubsub") == 2
    sender.enqueue(message("a"))
    assert process.next() == "a"


def test_stopped_process_leaves_its_messages_to_another_one(server, start):
    first, sender = start(), new_broker(server)
    first.may_end.clear()
    for text in "ab":
        sender.enqueue(message(text))
    until(lambda: first.worker.work_queue.qsize() == 1)  # the first one is being processed
    second = start()
    first.worker.stop(timeout=500)
    assert second.next() == "b"
    first.may_end.set()


def test_messages_of_a_killed_process_return_to_idle_consumers(server, start):
    dead = new_broker(server, heartbeat_timeout=1_000)
    dead.declare_queue("notes")
    dead.enqueue(message("a"))
    with ExitStack() as stack:
        consumer = dead.consume("notes", timeout=1_000)
        stack.callback(consumer.close)
        assert next(consumer).args == ("a",)
    # polls often, since messages return after a number of commands
    process = start(timeout_ms=50, heartbeat_timeout=1_000)
    assert process.next() == "a"
