"""The canary: how fast the device is compared with itself, before and after each attempt."""

import asyncio
import json
from pathlib import Path

import pytest

from agent.device import canary
from agent.device.canary import DeviceCanary
from agent.device.settings import Machine, clock_settings
from agent.execution.measure import PassRunner
from agent.protocol.measurement import Measurement
from agent.protocol.messages import AttemptStarted, Cancel, EndReason, Enough
from agent.protocol.plan import Plan
from agent.tests.conftest import AgentDevice
from agent.tests.fakes import NORMAL_RUN, FakeServer, Storage, wait_until

PLAN = Plan(preset="custom", clean=True, clean_min_iterations=1, profiled=2)
#: a part of a run that writes the file of an option
WRITE_MODEL_DUMP = """
for word in sys.argv:
    if word.startswith("--model_dump="): open(word.partition("=")[2], "a").write("written once")
"""


def read_measurement(storage: Storage) -> Measurement:
    return Measurement.model_validate_json(storage.stored["measurement.json"])


@pytest.fixture(scope="module")
def one_reading(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file of readings of this machine, with a single one."""
    path = tmp_path_factory.mktemp("canary") / "canary.json"

    async def read() -> None:
        device_canary = DeviceCanary(path)
        await device_canary.start()
        await device_canary.read()
        device_canary.keep()
        await device_canary.close()

    asyncio.run(read())
    return path.read_text()


class History:
    """The file of readings of a device, which tests write."""

    def __init__(self, path: Path, one_reading: str) -> None:
        self.path = path
        self.content = json.loads(one_reading)

    def plant(
        self, count: int = 20, factors: tuple[float, ...] = (1.0,), **environment: str
    ) -> None:
        """Write `count` readings: the real one, multiplied by the factors in turn.

        environment: what differs from the real one
        """
        (times,) = self.content["readings"]
        readings = [[factor * time for time in times] for factor in factors]
        planted = {
            "environment": self.content["environment"] | environment,
            "readings": (readings * count)[:count],
        }
        self.path.write_text(json.dumps(planted))


@pytest.fixture
def history(tmp_path: Path, one_reading: str) -> History:
    return History(tmp_path / "canary.json", one_reading)


@pytest.fixture
async def device_canary(tmp_path: Path):
    device_canary = DeviceCanary(tmp_path / "canary.json")
    await device_canary.start()
    yield device_canary
    await device_canary.close()


async def measured(device: AgentDevice, server: FakeServer, **fields: object) -> Measurement:
    order = await server.send_order(plan=PLAN, **fields)
    assert (await server.wait_for_end(order)).exit_code == 0
    return read_measurement(server.storage)


async def test_a_reading_has_a_time_for_each_kind_of_work(device_canary):
    reading = await device_canary.read()
    assert min(reading.gemm_ms, reading.copy_ms, reading.small_ms) > 0
    assert device_canary.own_speed() is None


async def test_readings_are_kept_for_the_next_agent(history):
    history.plant(19)
    first, second = DeviceCanary(history.path), DeviceCanary(history.path)
    await first.start()
    assert first.own_speed() is None
    await first.read()
    first.keep()
    await first.close()
    await second.start()
    await second.close()
    assert second.own_speed().usual_ms == pytest.approx(first.own_speed().usual_ms)


@pytest.mark.parametrize("text", ["", "{", '{"readings": [[1]]}', '{"readings": "x"}'])
async def test_an_unreadable_history_starts_over(tmp_path, text):
    (tmp_path / "canary.json").write_text(text)
    device_canary = DeviceCanary(tmp_path / "canary.json")
    await device_canary.start()
    assert await device_canary.read() is not None
    assert device_canary.own_speed() is None
    await device_canary.close()


async def test_the_history_starts_over_after_a_change_of_the_kernel(history):
    history.plant(kernel="2.4")
    device_canary = DeviceCanary(history.path)
    await device_canary.start()
    await device_canary.close()
    assert device_canary.own_speed() is None


async def test_the_history_starts_over_when_the_clock_of_the_device_is_set(tmp_path, history):
    """`agent tune` turns turbo off, so the device is slower from then on."""
    no_turbo = tmp_path / "sys/devices/system/cpu/intel_pstate/no_turbo"
    no_turbo.parent.mkdir(parents=True)
    no_turbo.write_text("0")
    machine = Machine(tmp_path)
    history.plant(**clock_settings(machine))
    device_canary = DeviceCanary(history.path, machine=machine)
    await device_canary.start()
    await device_canary.close()
    assert device_canary.own_speed() is not None
    no_turbo.write_text("1")
    assert device_canary.own_speed() is None


async def test_a_killed_process_is_started_again(device_canary):
    await device_canary.close()
    assert await device_canary.read() is not None


@pytest.fixture
async def known_device(device: AgentDevice, history: History, monkeypatch) -> AgentDevice:
    """A stopped device whose history says that it usually is ten times as fast."""
    monkeypatch.setattr(canary, "WAIT_S", 0.1)
    # with the cores of runs, the environment of the history would be another one
    device.changes |= {"canary": True, "cores": ()}
    device.spool.mkdir()
    history.path = device.spool / "canary.json"
    history.plant(factors=(0.1,))
    return device


async def test_a_new_device_has_readings_and_does_not_know_itself(device, server):
    device.changes["canary"] = True
    device.start()
    checked = (await measured(device, server)).canary
    assert checked.after is not None
    assert (checked.before.share, checked.low) == (None, None)


async def test_a_device_that_is_slower_than_usual_repeats_the_passes_and_is_flagged(
    known_device, server
):
    known_device.start()
    measurement = await measured(known_device, server)
    checked = measurement.canary
    # a tenth, but other tests may run on this machine
    assert checked.before.share < 0.5
    assert (checked.waited_s > 0, checked.repeated) == (True, True)
    assert [row.kind for row in measurement.passes if row.kept] == ["clean", "profiled", "profiled"]
    assert [row.profile for row in measurement.passes if row.profile] == [
        "profile.json",
        "profile-2.json",
    ]
    assert [item.code for item in measurement.disturbances if item.code == "not_itself"]
    assert [note.code for note in measurement.notes].count("passes_repeated") == 1


#: a run whose fifth process, the second of the repetition, lasts until a file is there
WAITING_RUN = (
    """
open("ran", "a").write("x")
if os.path.getsize("ran") == 5:
    while not os.path.exists("go"): time.sleep(0.01)
"""
    + NORMAL_RUN
)


async def test_a_repetition_that_ends_early_has_no_profiles_of_the_first_time(
    known_device, server, caplog
):
    caplog.set_level("INFO")
    known_device.start(WAITING_RUN)
    order = await server.start_attempt(plan=PLAN)

    def numbers() -> list[tuple[int, int]]:
        reports = server.messages(AttemptStarted)
        return [(row.passes, row.passes_done) for row in reports if row.attempt == order.attempt]

    # both numbers include the three passes of the first time
    await server.wait(lambda: (6, 4) in numbers())
    assert numbers() == [(3, 0), (3, 1), (3, 2), (6, 3), (6, 4)]
    await server.send(Enough(attempt=order.attempt))
    await wait_until(lambda: "attempt_has_enough" in caplog.text)
    (work,) = known_device.spool.glob("attempts/*/work")
    (work / "go").touch()
    assert (await server.wait_for_end(order)).exit_code == 0
    passes = read_measurement(server.storage).passes
    assert [row.profile for row in passes] == ["", "profile.json"]
    assert "profile-2.json" not in server.storage.stored


async def test_a_repetition_that_ends_before_a_profile_leaves_the_result_of_the_first_time(
    known_device, server, caplog
):
    caplog.set_level("INFO")
    # the fourth process, the first of the repetition
    known_device.start(WRITE_MODEL_DUMP + WAITING_RUN.replace("== 5", "== 4"))
    order = await server.start_attempt(plan=PLAN, options={"model_dump": True})
    await server.wait(lambda: server.messages(AttemptStarted)[-1].passes_done == 3)
    await server.send(Enough(attempt=order.attempt))
    await wait_until(lambda: "attempt_has_enough" in caplog.text)
    (work,) = known_device.spool.glob("attempts/*/work")
    (work / "go").touch()
    assert (await server.wait_for_end(order)).exit_code == 0
    assert server.storage.stored["model_dump.mge"] == b"written once"
    measurement = read_measurement(server.storage)
    assert [row.profile for row in measurement.passes] == ["", "profile.json", "profile-2.json"]
    assert {"profile.json", "profile-2.json"} <= server.storage.stored.keys()
    assert [note.code for note in measurement.notes] == ["ended_early"]
    assert [item.code for item in measurement.disturbances if item.code == "not_itself"]


@pytest.mark.parametrize("is_running", [True, False])
async def test_a_cancelled_repetition_leaves_the_profiles_of_the_first_time(
    known_device, server, monkeypatch, is_running
):
    # the fourth process, the first of the repetition
    known_device.start(WAITING_RUN.replace("== 5", "== 4") if is_running else NORMAL_RUN)
    if not is_running:
        # cancelled before the fourth process starts
        repeat = PassRunner.repeat

        async def cancel_first(passes, run):
            await server.send(Cancel(attempt=order.attempt))
            await asyncio.sleep(0.2)
            return await repeat(passes, run)

        monkeypatch.setattr(PassRunner, "repeat", cancel_first)
    order = await server.start_attempt(plan=PLAN)
    if is_running:
        await server.wait(lambda: server.messages(AttemptStarted)[-1].passes_done == 3)
        await server.send(Cancel(attempt=order.attempt))
    assert (await server.wait_for_end(order)).reason == EndReason.CANCELLED
    await known_device.wait_until_forgotten()
    passes = read_measurement(server.storage).passes
    assert [row.profile for row in passes] == ["", "profile.json", "profile-2.json"]
    assert {"profile.json", "profile-2.json"} <= server.storage.stored.keys()


#: a run whose sixth process, the last of the repetition, fails
FAILING_RUN = (
    'open("ran", "a").write("x")\nif os.path.getsize("ran") == 6: sys.exit(3)\n' + NORMAL_RUN
)


async def test_a_result_of_a_slow_device_stays_disturbed_if_its_repetition_fails(
    known_device, server, monkeypatch
):
    read = DeviceCanary.read
    readings = 0

    async def read_slow_only_at_first(device_canary):
        """Return the speed of the device: slow after the first time, as usual after the second."""
        nonlocal readings
        readings += 1
        reading = await read(device_canary)
        usual = dict(zip(canary._KINDS, device_canary.own_speed().usual_ms, strict=True))
        return reading if readings <= 3 else reading.model_copy(update=usual)

    monkeypatch.setattr(DeviceCanary, "read", read_slow_only_at_first)
    known_device.start(FAILING_RUN)
    measurement = await measured(known_device, server)
    assert [note.code for note in measurement.notes] == ["repetition_failed"]
    assert measurement.canary.after.share < 0.5
    assert [item.code for item in measurement.disturbances if item.code == "not_itself"]


async def test_a_repetition_that_fails_leaves_the_result_of_the_first_time(known_device, server):
    known_device.start(FAILING_RUN)
    measurement = await measured(known_device, server)
    assert measurement.canary.repeated
    assert [row.profile for row in measurement.passes] == ["", "profile.json", "profile-2.json"]
    assert {row.exit_code for row in measurement.passes} == {0}
    assert {"profile.json", "profile-2.json"} <= server.storage.stored.keys()
    assert [note.code for note in measurement.notes].count("repetition_failed") == 1


async def test_a_repetition_does_not_write_the_files_of_options_again(known_device, server):
    known_device.start(WRITE_MODEL_DUMP + NORMAL_RUN)
    measurement = await measured(known_device, server, options={"model_dump": True})
    assert measurement.canary.repeated
    assert server.storage.stored["model_dump.mge"] == b"written once"


@pytest.mark.exhaustive
async def test_passes_are_not_repeated_beyond_the_time_limit(known_device, server):
    # three passes of half a second
    known_device.start("time.sleep(0.5)\n" + NORMAL_RUN)
    measurement = await measured(known_device, server, timeout_s=3.5)
    assert not measurement.canary.repeated
    assert [item.code for item in measurement.disturbances if item.code == "not_itself"]


async def test_another_attempt_at_the_same_time_is_no_reason_to_repeat_passes(known_device, server):
    # the first process ends after the start of the second one, which waits for a file
    started, go = known_device.folder / "started", known_device.folder / "go"
    known_device.start(
        f"""
is_first = not os.path.exists("{started}")
with open("{started}", "a") as file: file.write("x")
while os.path.getsize("{started}") < 2: time.sleep(0.01)
while not is_first and not os.path.exists("{go}"): time.sleep(0.01)
"""
        + NORMAL_RUN
    )
    plan = Plan(preset="custom", clean=True, clean_min_iterations=1, profiled=0)
    first = await server.start_attempt(plan=plan)
    # the agent reports a process before its program runs
    await wait_until(started.exists)
    second = await server.start_attempt(plan=plan)
    assert (await server.wait_for_end(first)).exit_code == 0
    measurement = read_measurement(server.storage)
    assert [row.kind for row in measurement.passes] == ["clean"]
    assert (measurement.canary.repeated, measurement.canary.after) == (False, None)
    go.touch()
    assert (await server.wait_for_end(second)).exit_code == 0


async def test_a_run_without_clean_passes_has_no_readings(known_device, server):
    known_device.start()
    order = await server.send_order(plan=Plan(preset="custom"))
    assert (await server.wait_for_end(order)).exit_code == 0
    assert read_measurement(server.storage).canary is None


async def test_a_device_within_its_band_measures_once(known_device, server, history):
    # as noisy as no machine of tests is
    history.plant(factors=(0.1, 0.4, 1.0, 2.5, 10.0))
    known_device.start()
    checked = (await measured(known_device, server)).canary
    assert (checked.waited_s, checked.repeated) == (0, False)
    assert checked.low < checked.after.share < checked.high
