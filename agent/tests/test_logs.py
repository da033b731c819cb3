"""The log: each line contains its attempt and task."""

import asyncio
import logging

from agent import logs
from agent.protocol.messages import AttemptFinished


def lines_of(capsys):
    return capsys.readouterr().err.splitlines()


async def test_log_lines_contain_the_attempt_in_tasks_and_threads(capsys):
    logging.getLogger().handlers, before = [], logging.getLogger().handlers
    logs.start_logging(verbose=False)
    log = logging.getLogger("agent.somewhere")

    async def work():
        logs.bind(attempt="a-1", task=7, trace="4bf9")
        await asyncio.to_thread(log.warning, "file_lost file=%s", "x")
        await asyncio.create_task(asyncio.to_thread(log.info, "told attempt=%s", "a-1"))

    try:
        await asyncio.create_task(work())
        log.info("of nobody")
    finally:
        logging.getLogger().handlers = before
    first, second, unbound = lines_of(capsys)
    assert first.endswith("file_lost file=x attempt=a-1 task=7 trace=4bf9")
    assert second.endswith("told attempt=a-1 task=7 trace=4bf9")
    assert unbound.endswith("of nobody")


async def test_the_end_of_an_attempt_contains_its_phases(device, server):
    device.start()
    order = server.make_order().model_copy(update={"task": 7})
    await server.send(order)
    end = await server.wait_for_end(order)
    assert isinstance(end, AttemptFinished)
    assert [phase.name for phase in end.phases] == ["download", "pass profiled", "upload"]
    times = [at for phase in end.phases for at in (phase.started_at, phase.ended_at)]
    assert times == sorted(times)
