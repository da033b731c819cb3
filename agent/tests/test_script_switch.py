"""Changes of [scripts] by the owner while the agent runs."""

import pytest

from agent.protocol.messages import AttemptFinished, EndReason, Hello
from agent.protocol.notes import Note
from agent.tests.fakes import TOKEN, wait_until
from agent.tests.script_device import STEP, TIMEOUT_S, ScriptDevice, allow_scripts

pytestmark = pytest.mark.megengine


def write(device, words: str) -> None:
    """Write the device's agent.toml, and configure its agent to use it."""
    file = device.folder / "agent.toml"
    file.write_text(f'server = "{device.server.url}"\ntoken = "{TOKEN}"\nspool = "spool"\n{words}')
    file.chmod(0o600)
    device.changes["file"] = file


@pytest.fixture
def wheel(device, megengine_python):
    """A device that could run scripts, but whose owner allows none."""
    allow_scripts(device, megengine_python)
    device.changes["allow_scripts"] = False
    write(device, "")
    return device


@pytest.mark.exhaustive
async def test_scripts_run_after_the_owner_allows_them(wheel, server):
    wheel.start()
    assert "scripts" not in (await server.expect(Hello)).features
    write(wheel, "[scripts]\nallow = true\n")
    assert "scripts" in (await server.expect(Hello, 2)).features
    end = await ScriptDevice(wheel, server).run(STEP)
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)


async def test_scripts_are_refused_after_the_owner_forbids_them(wheel, server):
    wheel.changes["allow_scripts"] = True
    write(wheel, "[scripts]\nallow = true\n")
    wheel.start()
    assert "scripts" in (await server.expect(Hello)).features
    write(wheel, "[scripts]\nallow = false\n")
    assert "scripts" not in (await server.expect(Hello, 2)).features
    end = await ScriptDevice(wheel, server).run(STEP)
    assert end.reason is EndReason.REFUSED
    assert end.notes == (Note.of("scripts_forbidden"),)


async def test_an_invalid_configuration_changes_nothing(wheel, server, caplog):
    wheel.start()
    await server.expect(Hello)
    write(wheel, "[scripts\nallow = tr")
    await wait_until(lambda: "config_not_taken_up" in caplog.text, TIMEOUT_S)
    assert len(server.messages(Hello)) == 1
    write(wheel, "[scripts]\nallow = true\n")
    assert "scripts" in (await server.expect(Hello, 2)).features


async def test_a_changed_configuration_is_applied_after_the_run(wheel, server):
    wheel.install("time.sleep(1.5); write_profile()")
    wheel.start()
    await server.start_attempt()
    write(wheel, "[scripts]\nallow = true\n")
    await server.expect(Hello, 2)
    kinds = [type(message) for message in server.received]
    assert AttemptFinished in kinds[: kinds.index(Hello, 1)]
