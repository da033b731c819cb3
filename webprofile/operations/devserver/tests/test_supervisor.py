"""Tests of the supervisor, which reports a dead part and restarts it a few times."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from webprofile.operations.devserver.guard import is_alive
from webprofile.operations.devserver.layout import Layout, open_home
from webprofile.operations.devserver.lock import HomeLock
from webprofile.operations.devserver.supervisor import Part, PartError, Restarts, Supervisor

QUICK = Restarts(limit=2, within_s=60, first_pause_s=0.05)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = open_home(tmp_path / "home")
    layout.make_folders()
    return layout


@pytest.fixture
async def supervisor(layout: Layout) -> AsyncIterator[Supervisor]:
    lock = HomeLock(layout.lock)
    supervisor = Supervisor(layout, {"PATH": "/usr/bin:/bin"}, lock.descriptor, QUICK)
    supervisor.open()
    yield supervisor
    await supervisor.close()
    lock.release()


async def lines_until(capsys: pytest.CaptureFixture[str], expected: str) -> str:
    printed = ""
    deadline = time.monotonic() + 60
    while expected not in printed:
        assert time.monotonic() < deadline, f"{expected!r} was not printed: {printed}"
        await asyncio.sleep(0.02)
        output = capsys.readouterr()
        printed += output.out + output.err
    return printed


async def test_dead_part_is_reported_and_restarted(
    supervisor: Supervisor, layout: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # exits only the first time, a while after it was ready
    mark = tmp_path / "mark"
    script = f"echo cannot go on; test -e {mark} && exec sleep 99; touch {mark}; sleep 1; exit 7"
    await supervisor.start(Part("weak", ["sh", "-c", script]))
    printed = await lines_until(capsys, "weak starts again.")
    assert "weak exited with code 7." in printed
    assert "    cannot go on" in printed
    assert str(layout.log("weak")) in printed
    assert not supervisor.failure.done()


async def test_killed_part_is_reported_with_its_signal(
    supervisor: Supervisor, capsys: pytest.CaptureFixture[str]
) -> None:
    await supervisor.start(Part("shot", ["sh", "-c", "sleep 1; kill -9 $$"]))
    assert "shot was killed by SIGKILL." in await lines_until(capsys, "shot starts again.")


async def test_part_whose_log_was_deleted_is_restarted(
    supervisor: Supervisor, layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    await supervisor.start(Part("unlogged", ["sh", "-c", "sleep 1; exit 7"]))
    layout.log("unlogged").unlink()
    assert "unlogged exited with code 7." in await lines_until(capsys, "unlogged starts again.")


async def test_part_that_cannot_be_started_again_is_reported(
    supervisor: Supervisor, layout: Layout
) -> None:
    await supervisor.start(Part("unlogged", ["sh", "-c", "sleep 1; exit 7"]))
    layout.log("unlogged").unlink()
    layout.log("unlogged").parent.rmdir()
    with pytest.raises(PartError, match=r"unlogged cannot be started: .*unlogged\.log"):
        await asyncio.wait_for(asyncio.shield(supervisor.failure), 20)


async def test_too_many_restarts_fail(supervisor: Supervisor) -> None:
    starting = asyncio.create_task(supervisor.start(Part("hopeless", ["sh", "-c", "exit 3"])))
    with pytest.raises(PartError, match=r"died 3 times; the last time it exited with code 3"):
        await asyncio.wait_for(supervisor.failure, 20)
    starting.cancel()


async def test_missing_program_is_reported(supervisor: Supervisor) -> None:
    starting = asyncio.create_task(supervisor.start(Part("missing", ["/no/such/program"])))
    with pytest.raises(PartError, match=r"/no/such/program: No such file"):
        await asyncio.wait_for(supervisor.failure, 20)
    starting.cancel()


async def test_unresponsive_part_is_restarted(
    supervisor: Supervisor, capsys: pytest.CaptureFixture[str]
) -> None:
    part = Part("mute", ["sleep", "99"], ready=lambda: False, ready_within_s=0.2)
    starting = asyncio.create_task(supervisor.start(part))
    assert "mute did not answer within" in await lines_until(capsys, "mute starts again.")
    starting.cancel()


async def test_part_with_a_final_exit_code_is_not_restarted(
    supervisor: Supervisor, capsys: pytest.CaptureFixture[str]
) -> None:
    part = Part("refused", ["sh", "-c", "sleep 1; exit 2"], gone_for_good=frozenset({2}))
    await supervisor.start(part)
    await lines_until(capsys, "refused is not started again.")
    assert not supervisor.failure.done()


async def test_part_with_an_immediate_final_exit_does_not_block_start(
    supervisor: Supervisor,
) -> None:
    part = Part("refused", ["sh", "-c", "exit 2"], gone_for_good=frozenset({2}))
    await asyncio.wait_for(supervisor.start(part), 10)
    assert not supervisor.failure.done()


async def test_children_of_a_dead_part_are_ended_before_its_restart(
    supervisor: Supervisor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    orphan = tmp_path / "orphan"
    script = f"sleep 99 & test -e {orphan} || echo $! >{orphan}; sleep 1; exit 1"
    await supervisor.start(Part("parent", ["sh", "-c", script]))
    await lines_until(capsys, "parent starts again.")
    assert not is_alive(int(orphan.read_text()))


async def test_run_returns_output_or_raises_with_the_end_of_the_log(supervisor: Supervisor) -> None:
    assert await supervisor.run("good", ["echo", "yes"]) == "yes\n"
    with pytest.raises(PartError, match=r"(?s)bad exited with code 4.*    no disk"):
        await supervisor.run("bad", ["sh", "-c", "echo no disk >&2; exit 4"])
    with pytest.raises(PartError, match=r"slow did not end"):
        await supervisor.run("slow", ["sleep", "99"], timeout_s=0.2)
