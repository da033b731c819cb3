"""During a timed pass nothing is sent over the socket, but leases are renewed.

`MGW_TEST_HEART_S=60` makes the test under load longer.
"""

import os
from itertools import pairwise
from pathlib import Path

import pytest

from agent.link.progress import PAUSE_BYTES
from agent.protocol.messages import (
    SLOWEST_FRAME_BYTES,
    AttemptLog,
    AttemptStarted,
    Cancel,
    EndReason,
    Heartbeat,
    Hello,
    Start,
    encode,
)
from agent.protocol.plan import Plan
from agent.tests.conftest import AgentDevice
from agent.tests.fakes import FakeServer, profile_of, wait_until

LOAD_S = float(os.environ.get("MGW_TEST_HEART_S", "15"))
#: a lease ends after so many missed heartbeats
MISSED = 3

THREE_PASSES = Plan(
    preset="custom", clean=True, clean_min_s=0.0, clean_min_iterations=5, profiled=2
)

#: records the monotonic times of the warm-up and of the end of the last iteration
SLOW_RUN = """\
def stamp():
    open({stamps!r}, "a").write(str(time.monotonic()) + "\\n")
say("load model: 300.000ms"); time.sleep(0.5)
stamp()
say("=== prepare: 5.500ms; going to warmup")
say("warm up 0  9.000ms")
for i in range(5):
    time.sleep(0.1); say("iter " + str(i) + "/5: e2e=100.000 ms (host=1.000 ms)")
stamp()
say("=== finished test #0: time=500 ms avg_time=100 ms standard_deviation=0 ms min=1 ms max=2 ms")
say("=== total time: 500.0ms")
time.sleep(0.3)
write_profile({profile!r})
"""

#: a model that uses all cores
BUSY_RUN = """\
def stamp():
    open({stamps!r}, "a").write(str(time.monotonic()) + "\\n")
say("load model: 1.000ms"); time.sleep(0.5)
stamp()
say("=== prepare: 5.500ms; going to warmup")
end = time.monotonic() + {load_s}
for _ in range(2 * os.cpu_count()):
    if not os.fork():
        while time.monotonic() < end: sum(range(20000))
        os._exit(0)
while time.monotonic() < end: sum(range(20000))
for _ in range(2 * os.cpu_count()): os.wait()
say("iter 0/1: e2e=100.000 ms (host=1.000 ms)")
stamp()
write_profile()
"""


def read_passes(path: Path) -> list[tuple[float, float]]:
    """Return the begin of the warm-up and the end of the last iteration of each pass."""
    stamps = [float(line) for line in path.read_text().split()]
    return list(zip(stamps[::2], stamps[1::2], strict=True))


def read_stamps(path: Path) -> tuple[float, float]:
    """Return the begin of the first warm-up and the end of the last iteration."""
    passes = read_passes(path)
    return passes[0][0], passes[-1][1]


def frames_by_report(server: FakeServer) -> list[int]:
    """Return the bytes of each report of progress and of the log after it, in order."""
    pauses: list[int] = []
    for message in server.received:
        if isinstance(message, AttemptStarted):
            pauses.append(0)
        if isinstance(message, AttemptStarted | AttemptLog) and pauses:
            pauses[-1] += len(encode(message).encode())
    return pauses


async def measure(device: AgentDevice, server: FakeServer, plan: Plan = THREE_PASSES) -> Start:
    """Order an attempt, with the heartbeat interval that was set before."""
    device.start()
    order = await server.send_order(plan=plan, timeout_s=LOAD_S + 60)
    return order


@pytest.fixture
def stamps(device: AgentDevice, tmp_path: Path) -> Path:
    path = tmp_path / "stamps"
    profile = profile_of([(f"{n}{'模' * 250}", "Elemwise", 0.001) for n in range(60)])
    device.install(SLOW_RUN.format(stamps=str(path), profile=profile.decode()))
    return path


@pytest.mark.exhaustive
async def test_nothing_is_sent_from_the_warm_up_to_the_last_iteration_of_a_pass(
    device, server, stamps
):
    server.heartbeat_s = 0.2
    order = await measure(device, server)
    assert (await server.wait_for_end(order)).exit_code == 0
    begin, end = read_stamps(stamps)
    passes = read_passes(stamps)
    assert len(passes) == 3
    for first, last in passes:
        assert server.between(first, last) == []
    # the operators of the first profiled pass are sent once, before the next pass warms up
    reports = [report for report in server.messages(AttemptStarted) if report.slowest]
    assert len(reports) == 1
    assert reports[0] in server.between(passes[1][1], passes[2][0])
    assert len(encode(reports[0]).encode()) <= SLOWEST_FRAME_BYTES
    heartbeats = [heartbeat for heartbeat in server.front.heartbeats if begin < heartbeat.at < end]
    assert all(heartbeat.running == {order.attempt} for heartbeat in heartbeats)
    assert len(heartbeats) >= 5


@pytest.mark.exhaustive
async def test_the_log_of_loading_is_sent_at_once_and_that_of_a_pass_at_its_end(
    device, server, stamps
):
    order = await measure(device, server)
    await server.wait_for_end(order)
    passes = read_passes(stamps)
    logs = server.messages(AttemptLog)

    def log_before(moment: float) -> str:
        return "".join(
            log.text for log in logs if server.times[server.received.index(log)] < moment
        )

    loading = log_before(passes[0][0])
    assert "load model: 300.000ms" in loading
    assert "going to warmup" not in loading
    # when a later pass warms up; the operators of the first profiled one leave its log no room
    for begin, _ in passes[1:]:
        assert log_before(begin).count("finished test #0") == 1
        assert log_before(begin).count("load model") == 1
    assert all(frames <= PAUSE_BYTES for frames in frames_by_report(server)[1:3])
    assert "".join(message.text for message in logs) == server.log_text()
    assert server.log_text().count("finished test #0") == 3


async def test_a_long_log_is_sent_in_parts_between_passes_and_completely_at_the_end(device, server):
    device.install(
        """\
say("going to warmup")
for i in range(100): say("x" * 1000)
say("iter 0/1: e2e=100.000 ms (host=1.000 ms)")
write_profile()
"""
    )
    order = await measure(device, server)
    assert (await server.wait_for_end(order)).exit_code == 0
    logs = {chunk.seq: chunk for chunk in server.messages(AttemptLog)}
    assert "".join(logs[seq].text for seq in sorted(logs)) == server.log_text()
    pauses = frames_by_report(server)
    # the report of a finished pass comes before its log
    assert len(pauses) == 4
    assert all(0 < frames <= PAUSE_BYTES for frames in pauses[1:3])
    assert pauses[3] > 200_000


@pytest.mark.exhaustive
async def test_progress_is_sent_between_passes(device, server, stamps):
    order = await measure(device, server)
    await server.wait_for_end(order)
    passes = read_passes(stamps)
    started = server.messages(AttemptStarted)
    assert [(message.passes_done, message.passes) for message in started] == [
        (n, 3) for n in range(4)
    ]
    times = [server.times[server.received.index(message)] for message in started]
    for number, (begin, end) in enumerate(passes):
        assert times[number] < begin
        assert times[number + 1] > end


@pytest.mark.exhaustive
async def test_progress_is_sent_after_a_reconnect_between_passes(device, server, stamps):
    order = await measure(device, server)
    await server.wait(
        lambda: any(message.passes_done == 1 for message in server.messages(AttemptStarted))
    )
    await server.drop()
    await server.wait(lambda: len(server.messages(Hello)) == 2)
    await server.wait(lambda: isinstance(server.received[-1], AttemptStarted))
    assert server.received[-1].passes_done >= 1
    await server.wait_for_end(order)
    texts = {message.seq: message.text for message in server.messages(AttemptLog)}
    assert "".join(texts[seq] for seq in sorted(texts)) == server.log_text()


@pytest.mark.exhaustive
async def test_operators_are_sent_again_after_a_reconnect_but_not_while_a_pass_is_timed(
    device, server, stamps
):
    order = await measure(device, server)
    await server.wait(lambda: any(report.slowest for report in server.messages(AttemptStarted)))
    # the third pass warms up
    await wait_until(lambda: len(stamps.read_text().split()) >= 5)
    await server.drop()
    assert (await server.wait_for_end(order)).exit_code == 0
    _, _, third = read_passes(stamps)
    timed = [m for m in server.between(*third) if isinstance(m, AttemptStarted)]
    assert [report.slowest for report in timed] == [None] * len(timed)
    reports = [(r.passes_done, bool(r.slowest)) for r in server.messages(AttemptStarted)]
    assert reports[-1] == (3, True)


@pytest.mark.exhaustive
async def test_heartbeats_use_the_socket_if_the_server_has_no_url_for_them(device, server, stamps):
    server.heartbeat_s = 0.2
    server.front.status = 404
    order = await measure(device, server)
    assert (await server.wait_for_end(order)).exit_code == 0
    messages = [message for passed in read_passes(stamps) for message in server.between(*passed)]
    assert messages
    assert all(
        isinstance(message, Heartbeat) and message.running == {order.attempt}
        for message in messages
    )


async def test_orders_are_fetched_during_a_measurement_if_the_server_has_some(
    device, server, stamps
):
    server.heartbeat_s = 0.2
    order = await measure(device, server)
    await wait_until(stamps.exists)
    before = len(server.messages(Heartbeat))
    server.front.has_orders = True
    await server.expect(Heartbeat, before + 1)
    await server.send(Cancel(attempt=order.attempt))
    assert (await server.wait_for_end(order)).reason == EndReason.CANCELLED


@pytest.mark.exhaustive
async def test_no_log_of_the_timed_part_is_sent_after_a_reconnect(device, server, stamps):
    order = await measure(device, server)
    await server.expect(AttemptLog)
    await wait_until(stamps.exists)  # the warm-up has begun
    await server.drop()
    await server.wait(lambda: len(server.messages(Hello)) == 2)
    await server.wait_for_end(order)
    messages = [message for passed in read_passes(stamps) for message in server.between(*passed)]
    assert [message.type for message in messages[:2]] == ["hello", "attempt.started"]
    # the agent may not have noticed the warm-up yet and repeat the log of loading
    repeated = "".join(message.text for message in messages[2:])
    assert "going to warmup" not in repeated
    texts = {message.seq: message.text for message in server.messages(AttemptLog)}
    assert "".join(texts[seq] for seq in sorted(texts)) == server.log_text()


@pytest.mark.exhaustive
async def test_heartbeats_contain_ordered_attempts_until_they_have_ended(
    device, server, storage, stamps
):
    server.heartbeat_s = 60.0  # changes are sent at once
    first = await measure(device, server)
    await wait_until(stamps.exists)
    storage.delay_s = 1.0
    second = server.make_order(plan=THREE_PASSES)
    await server.send(second)
    both = {first.attempt, second.attempt}
    await wait_until(
        lambda: any(heartbeat.running == both for heartbeat in server.front.heartbeats)
    )
    # the second attempt does not run yet
    assert {message.attempt for message in server.messages(AttemptStarted)} == {first.attempt}
    await server.wait_for_end(first)
    await wait_until(lambda: server.front.heartbeats[-1].running == {second.attempt})
    assert (await server.wait_for_end(second)).exit_code == 0


@pytest.mark.alone
async def test_leases_are_renewed_while_the_model_uses_all_cores(device, server, tmp_path):
    every_s = server.heartbeat_s = 1.0
    stamps = tmp_path / "stamps"
    device.install(BUSY_RUN.format(stamps=str(stamps), load_s=LOAD_S))
    plan = Plan(preset="custom", clean=False, profiled=1)
    order = await measure(device, server, plan)
    end_of_run = await server.wait_for_end(order, LOAD_S + 60)
    assert end_of_run.exit_code == 0
    begin, end = read_stamps(stamps)
    assert end - begin >= LOAD_S
    assert server.between(begin, end) == []
    heartbeats = [heartbeat for heartbeat in server.front.heartbeats if begin < heartbeat.at < end]
    assert all(heartbeat.running == {order.attempt} for heartbeat in heartbeats)
    gaps = [
        after - before
        for before, after in pairwise([begin, *(heartbeat.at for heartbeat in heartbeats), end])
    ]
    assert max(gaps) < MISSED * every_s
