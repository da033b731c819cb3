"""Progress reports of a running attempt, without a process."""

import asyncio
import uuid
from types import SimpleNamespace

from agent.execution.spool import Folder, Record
from agent.link import progress
from agent.link.outbox import Outbox
from agent.protocol.messages import InputFile, Script, Start

ORDER = Start(
    attempt=uuid.uuid4(),
    runtime="1.13.0",
    model=InputFile(name="train.py", url="http://storage", size_bytes=1, md5="0" * 32),
    script=Script(),
    timeout_s=600,
)


async def test_the_log_of_a_long_script_can_be_sent_again_over_a_new_connection(
    tmp_path, monkeypatch, settings
):
    """The server closes a connection that gets too many frames at once."""
    folder, passed_s, tasks = Folder(tmp_path, Record(attempt=ORDER.attempt)), 0.0, []

    async def print_a_line_instead(pause_s):
        nonlocal passed_s
        passed_s += pause_s
        with folder.output.open("a") as file:
            file.write(f"{passed_s:.1f} s\n")
        if passed_s > ORDER.timeout_s:
            raise asyncio.CancelledError

    def create_task(coroutine):
        tasks.append(asyncio.create_task(coroutine))
        return tasks[-1]

    functions = SimpleNamespace(sleep=print_a_line_instead, create_task=create_task)
    monkeypatch.setattr(progress, "asyncio", functions)
    frames, frames_again = [], []
    outbox = Outbox(repeat_s=5)
    outbox.attach(frames.append)
    reports = progress.Progress(ORDER, folder, outbox, 1 << 20, download_s=0)
    reports.begin("train.py", passes=1)
    await asyncio.wait(tasks)
    outbox.attach(frames_again.append)
    assert frames_again == frames
    # also those of three scripts that the device runs at the same time
    assert 100 < len(frames) < settings.AGENT_FRAMES_BURST / 3
