"""The cost of heartbeats: they are handled in batches, and write as little as possible."""

import asyncio
import datetime
import itertools
from collections.abc import Callable

import pytest
from channels.db import database_sync_to_async
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from structlog.contextvars import get_contextvars

from agent.protocol.messages import AttemptFinished, EndReason, Heartbeat
from tasks.dispatch import gateway
from tasks.dispatch.consumer import AgentConsumer
from tasks.lifecycle.attempts import lose_attempt
from tasks.lifecycle.cancel import cancel_task
from tasks.models import Attempt, Task
from tasks.scheduling.assignment import assign_waiting
from tasks.tests.make import make_attempt, make_waiting_task, make_worker, set_last_heartbeat
from tasks.tests.sockets import TIMEOUT_S
from workers import services
from workers.models import LastHeartbeat, Worker
from workers.services import revoke_worker
from workers.tests.make import (
    connect_agent,
    connect_busy_agent,
    enrol_device,
    expire_orders,
    run_dispatcher,
    submit_task_for,
)

LONG_AGO = timezone.now() - datetime.timedelta(hours=1)
pytestmark = pytest.mark.usefixtures("disconnect_sockets")
one_thread = pytest.mark.django_db
threads = pytest.mark.django_db(transaction=True)


def queries_of(attempts_by_device) -> list[str]:
    """Return the SQL queries that handling these heartbeats executes."""
    with CaptureQueriesContext(connection) as captured:
        gateway.on_heartbeats(attempts_by_device)
    return [query["sql"] for query in captured]


async def assign_task_to(worker: Worker) -> Task:
    """Return a task that another process, such as the sweep, assigned to the device."""
    task = await submit_task_for(worker)
    await run_dispatcher()
    return task


async def wait_for(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():
            await asyncio.sleep(0.02)


def make_idle_devices(number: int) -> dict[int, frozenset]:
    """Return the ids of new devices, each with the attempts of its heartbeat: none."""
    return {make_worker().pk: frozenset() for _ in range(number)}


@one_thread
def test_the_number_of_queries_does_not_depend_on_devices():
    few, many = make_idle_devices(2), make_idle_devices(20)
    assert len(queries_of(few)) == len(queries_of(many)) <= 3


@one_thread
def test_the_number_of_queries_does_not_depend_on_running_devices():
    attempts_by_device = {
        attempt.worker_id: frozenset({attempt.pk})
        for attempt in (make_attempt(make_waiting_task(worker=make_worker())) for _ in range(22))
    }
    Attempt.objects.update(accepted_at=timezone.now(), lease_expires_at=timezone.now())
    few = dict(itertools.islice(attempts_by_device.items(), 2))
    many = dict(itertools.islice(attempts_by_device.items(), 2, None))
    assert len(queries_of(few)) == len(queries_of(many)) <= 4
    assert not Attempt.objects.filter(lease_expires_at__lt=timezone.now()).exists()


@one_thread
def test_a_heartbeat_writes_only_the_row_of_the_last_heartbeat():
    attempts_by_device = make_idle_devices(3)
    set_last_heartbeat(LONG_AGO)
    written = [sql for sql in queries_of(attempts_by_device) if not sql.startswith("SELECT")]
    assert [sql.split('"')[1] for sql in written] == ["workers_pulse"]
    assert all(worker.is_online for worker in Worker.objects.all())


@one_thread
def test_a_lease_is_renewed_only_after_a_quarter_of_it(settings):
    attempt = make_attempt()
    attempts_by_device = {attempt.worker_id: frozenset({attempt.pk})}

    def is_renewed_with(left_s: float) -> bool:
        end = timezone.now() + datetime.timedelta(seconds=left_s)
        Attempt.objects.update(lease_expires_at=end)
        gateway.on_heartbeats(attempts_by_device)
        return Attempt.objects.get().lease_expires_at > end

    assert not is_renewed_with(settings.LEASE_S * 0.9)
    assert is_renewed_with(settings.LEASE_S * 0.7)


@one_thread
def test_a_heartbeat_renews_no_lease_of_another_device():
    own, other = make_worker(), make_worker()
    attempt = make_attempt(make_waiting_task(worker=other))
    Attempt.objects.update(lease_expires_at=LONG_AGO)
    orders = gateway.on_heartbeats({own.pk: frozenset({attempt.pk})})
    assert Attempt.objects.get().lease_expires_at == LONG_AGO
    assert [order.type for order in orders[own.pk]] == ["cancel"]


@one_thread
def test_a_device_that_reconnects_keeps_its_task_despite_a_concurrent_sweep(monkeypatch):
    attempt = make_attempt()
    set_last_heartbeat(LONG_AGO)
    lose_attempt(attempt, reason="lease_expired")
    mark_seen = services.mark_seen

    def mark_seen_and_assign(workers):
        mark_seen(workers)
        assign_waiting()

    monkeypatch.setattr(services, "mark_seen", mark_seen_and_assign)
    assert gateway.on_heartbeats({attempt.worker_id: frozenset({attempt.pk})})
    assert [attempt.pk for attempt in Attempt.objects.filter(ended_at=None)] == [attempt.pk]
    assert Attempt.objects.count() == 1


def make_devices_with_lost_attempts(number: int) -> dict[int, frozenset]:
    """Return the ids of devices, in order, each with an attempt that the server has lost."""
    attempts_by_device = {}
    for _ in range(number):
        attempt = make_attempt(make_waiting_task(worker=make_worker()))
        lose_attempt(attempt, reason="agent_error")
        attempts_by_device[attempt.worker_id] = frozenset({attempt.pk})
    return attempts_by_device


def fail_for(failing_id: int, function):
    """Return the function with an error for one device."""

    def wrapper(worker_id, *args):
        if worker_id == failing_id:
            raise RuntimeError("a row that cannot be read")
        return function(worker_id, *args)

    return wrapper


@one_thread
@pytest.mark.parametrize("function", ["revive_attempts", "desired_state"])
def test_an_error_for_one_device_does_not_block_orders_of_others(monkeypatch, function):
    attempts_by_device = make_devices_with_lost_attempts(3)
    set_last_heartbeat(LONG_AGO)
    first, second, third = attempts_by_device
    monkeypatch.setattr(gateway, function, fail_for(second, getattr(gateway, function)))
    orders = gateway.on_heartbeats(attempts_by_device)
    assert orders.get(second, []) == []
    for worker in (first, third):
        assert [order.type for order in orders[worker]] == ["cancel"]
        assert Worker.objects.get(pk=worker).is_online


@threads
async def test_the_next_heartbeat_replaces_a_lost_wake_up(monkeypatch):
    monkeypatch.setattr(gateway, "ORDER_PATIENCE", datetime.timedelta(hours=1))
    worker, token = await enrol_device()
    agent = await connect_agent(token)
    monkeypatch.setattr("tasks.lifecycle.wakeups._send", lambda *_: None)
    answers, on_heartbeats = [], gateway.on_heartbeats

    def record(*args):
        answers.append(on_heartbeats(*args))
        return answers[-1]

    monkeypatch.setattr(gateway, "on_heartbeats", record)
    task = await assign_task_to(worker)
    await agent.send(Heartbeat(sent_at=0))
    await wait_for(lambda: answers)
    assert answers == [{}]  # a new order may still arrive
    await expire_orders()
    await agent.send(Heartbeat(sent_at=0))
    start = await agent.receive()
    assert start.type == "start"
    await agent.accept(start)
    await database_sync_to_async(cancel_task)(await Task.objects.aget(pk=task.pk))
    assert await agent.socket.receive_nothing(0.2)
    await agent.send(Heartbeat(sent_at=0, running=frozenset({start.attempt})))
    assert (await agent.receive()).type == "cancel"


@threads
async def test_concurrent_heartbeats_are_handled_in_one_batch(settings, monkeypatch):
    settings.HEARTBEAT_BATCH_S = 1.0
    calls, on_heartbeats = [], gateway.on_heartbeats

    def record(attempts_by_device, received_at):
        calls.append((attempts_by_device, timezone.now() - received_at))
        return on_heartbeats(attempts_by_device, received_at)

    monkeypatch.setattr(gateway, "on_heartbeats", record)
    enrolments = [await enrol_device(f"box-{number}") for number in range(3)]
    agents = [await connect_agent(token) for _, token in enrolments]
    await database_sync_to_async(set_last_heartbeat)(LONG_AGO)
    for agent in agents:
        await agent.send(Heartbeat(sent_at=0))
    await wait_for(lambda: calls)
    ((attempts_by_device, age),) = calls
    assert len(attempts_by_device) == 3
    assert age.total_seconds() >= 0.9  # since the first heartbeat, not since the end of the batch


@threads
async def test_log_entries_of_a_batch_are_not_bound_to_one_connection(settings, monkeypatch):
    settings.HEARTBEAT_BATCH_S = 0.1
    contexts = []
    monkeypatch.setattr(
        gateway, "on_heartbeats", lambda *_: contexts.append(get_contextvars()) or {}
    )
    _, token = await enrol_device()
    agent = await connect_agent(token)
    await agent.send(Heartbeat(sent_at=0))
    await wait_for(lambda: contexts)
    assert contexts == [{}]


@threads
async def test_only_the_revoked_agent_of_a_batch_is_closed(settings):
    settings.HEARTBEAT_BATCH_S = 0.3
    (_, token), (bad, bad_token) = await enrol_device("good"), await enrol_device("bad")
    good_agent, bad_agent = await connect_agent(token), await connect_agent(bad_token)
    await database_sync_to_async(set_last_heartbeat)(LONG_AGO)
    await database_sync_to_async(revoke_worker)(bad, by=None)
    for agent in (good_agent, bad_agent):
        await agent.send(Heartbeat(sent_at=0))
    assert await bad_agent.close_code() == 4403
    async with asyncio.timeout(TIMEOUT_S):
        while not (await Worker.objects.aget(name="good")).is_online:
            await asyncio.sleep(0.02)
    assert not (await Worker.objects.aget(name="bad")).is_online
    assert await good_agent.socket.receive_nothing(0.2)


@threads
async def test_an_agent_that_disconnects_does_not_block_orders_of_others(settings, monkeypatch):
    settings.HEARTBEAT_BATCH_S = 0.3
    monkeypatch.setattr("tasks.lifecycle.wakeups._send", lambda *_: None)
    agents = []
    for name in ("first", "second"):
        worker, token = await enrol_device(name)
        agents.append(await connect_agent(token))
        await assign_task_to(worker)
    await expire_orders()
    send_all = AgentConsumer.send_all

    async def fail_for_first(self, replies):
        if self.worker.name == "first":
            raise RuntimeError("the socket is closed")
        await send_all(self, replies)

    monkeypatch.setattr(AgentConsumer, "send_all", fail_for_first)
    for agent in agents:
        await agent.send(Heartbeat(sent_at=0))
    assert (await agents[1].receive()).type == "start"


@threads
async def test_a_revoked_agent_that_cannot_be_reached_does_not_block_orders_of_others(
    settings, monkeypatch
):
    settings.HEARTBEAT_BATCH_S = 0.3
    monkeypatch.setattr("tasks.lifecycle.wakeups._send", lambda *_: None)
    monkeypatch.setattr("workers.tokens.send_to_groups", lambda *_: None)
    (bad, bad_token), (good, token) = await enrol_device("bad"), await enrol_device("good")
    bad_agent, good_agent = await connect_agent(bad_token), await connect_agent(token)
    await assign_task_to(good)
    await expire_orders()
    await database_sync_to_async(revoke_worker)(bad, by=None)
    authenticate = AgentConsumer.authenticate

    async def fail_for_bad(self):
        if self.worker is not None and self.worker.name == "bad":
            raise RuntimeError("the socket is closed")
        return await authenticate(self)

    monkeypatch.setattr(AgentConsumer, "authenticate", fail_for_bad)
    for agent in (bad_agent, good_agent):
        await agent.send(Heartbeat(sent_at=0))
    assert (await good_agent.receive()).type == "start"


@threads
async def test_an_attempt_that_ends_while_its_heartbeat_waits_is_not_cancelled(settings):
    settings.HEARTBEAT_BATCH_S = 0.3
    agent, order = await connect_busy_agent()
    await agent.accept(order)
    await agent.send(Heartbeat(sent_at=0, running=frozenset({order.attempt})))
    report = AttemptFinished(attempt=order.attempt, at=0, reason=EndReason.EXITED, exit_code=1)
    await agent.send(report)
    assert (await agent.receive()).type == "ack"
    assert await agent.socket.receive_nothing(0.6)


@threads
async def test_a_repeated_hello_writes_only_the_last_heartbeat(monkeypatch):
    _, token = await enrol_device()
    first = await connect_agent(token)
    await first.socket.disconnect()
    written = []

    def record(execute, sql, *args):
        if not sql.startswith(("SELECT", "BEGIN", "SAVEPOINT", "RELEASE")):
            written.append(sql.split('"')[1])
        return execute(sql, *args)

    handle = gateway.handle

    def handle_and_record(*args):
        with connection.execute_wrapper(record):
            return handle(*args)

    monkeypatch.setattr(gateway, "handle", handle_and_record)
    await connect_agent(token)
    assert written == ["workers_pulse"]


@pytest.mark.database
@one_thread
def test_pages_of_heartbeats_have_room_for_new_versions_of_rows():
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no fill factor")
    with connection.cursor() as cursor:
        table = LastHeartbeat._meta.db_table
        cursor.execute("SELECT reloptions FROM pg_class WHERE relname = %s", [table])
        assert cursor.fetchone() == (["fillfactor=50"],)
