"""The socket: connect, disconnect, reconnect, and refusal."""

import asyncio
import os
from dataclasses import replace
from itertools import pairwise

import pytest

from agent.link import log_tail, session
from agent.link.retries import Policy
from agent.link.session import SessionRefused
from agent.protocol.messages import AttemptFinished, AttemptLog, AttemptStarted, EndReason, Hello
from agent.tests import conftest
from agent.tests.fakes import FakeServer, Storage, wait_until


async def test_a_run_continues_while_the_connection_is_lost(device, server):
    go_on = device.folder / "go-on"
    device.start(f'say("one"); wait_for("{go_on}"); say("two"); write_profile()')
    order = await server.send_order()
    await server.expect(AttemptLog)
    await server.drop()
    hello = await server.expect(Hello, 2)
    assert hello.running == {order.attempt}
    await server.expect(AttemptLog, 2)
    go_on.touch()
    end = await server.wait_for_end(order)
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    assert server.log_text() == "one\ntwo\n"
    # unacknowledged messages are sent again
    assert [report.passes_done for report in server.messages(AttemptStarted)] == [0, 0, 1]
    assert [chunk.seq for chunk in server.messages(AttemptLog)] == [1, 1, 2]


async def test_the_agent_sends_no_more_frames_at_once_than_the_server_takes(
    device, server, monkeypatch
):
    """A device with many slots sends the logs of all its runs again over a new connection."""
    monkeypatch.setattr(log_tail, "CHUNK_BYTES", 10)
    monkeypatch.setattr(session, "_FRAMES_AT_ONCE", 20)
    monkeypatch.setattr(session, "_FRAMES_PER_S", 40.0)
    device.start('say("x" * 600); write_profile()')
    assert (await server.run()).exit_code == 0
    assert len(server.messages(AttemptLog)) > 50
    room = 25.0
    for before, at in pairwise(server.times):
        room = min(25.0, room + 50.0 * (at - before)) - 1
        assert room > 0


async def test_the_server_learns_which_cores_runs_may_use(device, server):
    device.start()
    hello = await server.expect(Hello)
    assert set(hello.facts.run_cores) <= os.sched_getaffinity(0)
    assert hello.facts.run_cores


@pytest.mark.exhaustive
async def test_a_silent_connection_is_replaced(device, server):
    device.start()
    await server.expect(Hello)
    server.front.forget()
    await server.expect(Hello, 2)


async def test_an_end_is_sent_after_the_reconnect(device, server):
    go_on = device.folder / "go-on"
    device.start(f'wait_for("{go_on}"); say("the last word"); write_profile()')
    order = await server.start_attempt()
    server.reject_status = 503
    await server.drop()
    go_on.touch()
    await asyncio.sleep(0.8)
    assert not server.messages(AttemptFinished)
    server.reject_status = None
    assert (await server.wait_for_end(order)).exit_code == 0
    # the server searches the log for the cause of a failure, so it is uploaded before the end
    assert server.log_text() == "the last word\n"
    await device.wait_until_forgotten()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (4401, "does not know this agent's token"),
        (4403, "was revoked"),
        (4409, "another agent has connected with the same token"),
        (4426, "too old"),
    ],
)
async def test_a_permanent_close_code_stops_the_agent(device, server, code, words):
    running = device.start()
    await server.expect(Hello)
    await server.wait(lambda: server.connection is not None)
    await server.drop(code)
    with pytest.raises(SessionRefused, match=words):
        await running
    device.running = None
    assert len(server.messages(Hello)) == 1


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_handshake_stops_the_agent(device, server, status):
    server.reject_status = status
    with pytest.raises(SessionRefused, match="enrol"):
        await device.start()
    device.running = None


async def test_a_refused_agent_ends_its_process(device, server):
    device.install("time.sleep(60)")
    running = device.start()
    await server.start_attempt()
    await server.drop(4403)
    with pytest.raises(SessionRefused):
        await running
    device.running = None
    assert len(device.attempts()) == 1


@pytest.mark.parametrize("status", [404, 429, 500, 503])
async def test_the_agent_retries_after_a_server_error(device, server, status):
    server.reject_status = status
    device.start()
    await wait_until(lambda: len(server.authorization) >= 3)
    server.reject_status = None
    await server.expect(Hello)


async def test_the_agent_backs_off_from_a_server_that_does_not_answer(device, server, monkeypatch):
    """An overloaded server would get as many connections again as it has not answered yet."""
    patient, begun = replace(conftest.QUICK, settled_s=0.01), []
    delays = Policy.delays
    monkeypatch.setattr(conftest, "QUICK", patient)
    monkeypatch.setattr(Policy, "delays", lambda policy: begun.append(policy) or delays(policy))
    monkeypatch.setattr(session, "_WELCOME_S", 0.1)
    server.welcomes = False
    device.start()
    await server.expect(Hello, 4)
    assert begun == [patient.reconnect]
    server.welcomes = True
    await server.wait(lambda: server.connection is not None)
    await asyncio.sleep(0.1)
    await server.drop()
    await server.expect(Hello, len(server.messages(Hello)) + 1)
    assert begun == [patient.reconnect] * 2


async def test_the_agent_connects_to_a_server_that_starts_later(device, storage: Storage):
    async with FakeServer(storage) as early:
        port = early.port
    device.changes["server"] = f"http://127.0.0.1:{port}"
    running = device.start()
    await asyncio.sleep(0.2)
    assert not running.done()
    async with FakeServer(storage, port) as late:
        await late.expect(Hello)
        await device.stop()


async def test_a_frame_of_an_unknown_type_closes_the_connection_with_4400(device, server, caplog):
    device.start()
    await server.wait(lambda: server.connection is not None)
    connection = server.connection
    await connection.send('{"type": "dance", "url": "http://secret"}')
    await connection.wait_closed()
    assert connection.close_code == 4400
    await server.expect(Hello, 2)
    assert "frame_not_understood" in caplog.text
    assert "secret" not in caplog.text


async def test_a_frame_refused_by_the_server_is_logged_and_followed_by_a_reconnect(
    device, server, caplog
):
    device.start()
    await server.wait(lambda: server.connection is not None)
    await server.drop(4400)
    await server.expect(Hello, 2)
    assert "frame_refused" in caplog.text
