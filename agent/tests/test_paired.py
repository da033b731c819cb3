"""Paired comparisons on the device: pairs of fresh processes that take turns."""

import hashlib
import json
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agent.config import RunLimits
from agent.execution import attempt, paired
from agent.execution.outputs import difference, differences, plain, read_outputs
from agent.execution.paired import blocks_of_pair, profiling_limit_s, turn_iterations, turn_ms
from agent.execution.report import Manifest
from agent.inventory import LocalRuntime
from agent.protocol.measurement import Measurement
from agent.protocol.messages import (
    AttemptFinished,
    AttemptStarted,
    AttemptUploads,
    Cancel,
    ComparedArm,
    EndReason,
    Enough,
    GivenInput,
    Hello,
    RuntimeInfo,
    Start,
)
from agent.protocol.pairs import MOST_OUTPUTS, OperatorTimes, PairedMeasurement, Pairing
from agent.runtimes.command import command_for
from agent.statistics.paired import (
    FIRST_LOOK,
    compare_operators,
    compare_pairs,
    operator_pairs,
)
from agent.tests import conftest
from agent.tests.fakes import (
    explanation,
    is_alive,
    make_load_and_run,
    npy_bytes,
    require_sandbox,
    start_agent,
)
from testdata import DATA

#: an interpreter with a fake wheel: an iteration takes as many µs as its model file says, and
#: whatever `body` adds; the first iteration of each turn is slow
WHEEL = """\
import json, math, random, struct
random.seed(os.getpid())
model = json.load(open("model.mge"))
if "--take-turns" not in sys.argv:
    for argument in sys.argv:
        if argument.startswith("--iter="):
            for i in range(int(argument[7:])):
                say(f"iter {{i}}/3: e2e={{model['us'] / 1000}} ms (host=1 ms)")
    sys.exit(0)
with open({pids!r}, "a") as pids:
    pids.write(str(os.getpid()) + "\\n")
def answer(content):
    os.write(1, json.dumps(content).encode() + b"\\n")
# both processes of a pair have the same number
number = (len(open({pids!r}).readlines()) - 1) // 2
def time_of():
    swing = 1 + model.get("swing", 0) * math.sin(7 * number**2)
    return model["us"] / 1000 * swing * random.gauss(1, 0.004)
os.write(1, b"a message of the library\\n")
answer({{"ready": True}})
turns = 0
for line in sys.stdin:
    if line == "outputs\\n":
        data = open("input_0.npy", "rb").read()
        values = [model.get("factor", 1) * value for value in struct.unpack("<3f", data[-12:])]
        open("output-0.npy", "wb").write(data[:-12] + struct.pack("<3f", *values))
        json.dump(["out"], open("outputs.json", "w"))
        answer({{"outputs": 1}})
        continue
    turns += 1
{body}
    if line.startswith("profile "):
        operators = model.get("operators", {{}})
        us = [
            [time * random.gauss(1, 0.01) for time in operators.values()]
            for n in range(max(int(line[8:]) - 1, 1))
        ]
        open("profile.json", "w").write("{{}}")
        answer({{"ms": [1], "count": 1, "elapsed_ms": 10, "switches": 0, "stolen_ms": 0,
                "waited_ms": 10 * model.get("waits_profiled", 0),
                "ids": list(operators), "us": us if operators else []}})
        continue
    count = int(line)
    times = [2 * time_of() if not n else time_of() for n in range(count)]
    answer({{"ms": times[:1000], "count": count, "elapsed_ms": sum(times), "switches": 0,
            "waited_ms": model.get("waits", 0) * sum(times), "stolen_ms": 0}})
"""


#: a compiled load_and_run: an iteration takes 10 ms, 10.5 ms if its model file says "slow"
BINARY = """\
us = 10_500 if open("model.mge").read() == "slow" else 10_000
if "--profile=profile.json" in sys.argv:
    import json
    device = {"1": {"cpu": {"start": 0, "end": us / 1e6}}}
    profile = {"profiler": {"device": device}, "graph_exec": {"operator": {}}}
    json.dump(profile, open("profile.json", "w"))
for argument in sys.argv:
    if argument.startswith("--iter="):
        for i in range(int(argument[7:])):
            say(f"iter {i}/3: e2e={us / 1000} ms (host=1 ms)")
"""


@pytest.fixture
def wheel(device):
    """Install a fake wheel; call it with a part of its program that runs in each turn."""
    pids = device.folder / "pids"

    def install(body: str = "pass") -> None:
        text = WHEEL.format(pids=str(pids), body="    " + body.replace("\n", "\n    "))
        path = make_load_and_run(device.folder, text)
        info = RuntimeInfo(version="1.13.0", kind="wheel")
        device.runtimes = {"1.13.0": LocalRuntime(info, (str(path), "folder"))}
        device.start()

    return install


@pytest.fixture
def calm_machine(monkeypatch):
    """Ignore the load of the tests' machine, which disturbs pairs whose waiting is unknown."""
    for limit in ("OTHER_PERCENT", "_STOLEN_PERCENT"):
        monkeypatch.setattr(f"agent.device.disturbance.{limit}", 1e9)


def as_model(storage, name: str):
    """Return a file of the storage as the model of an order."""
    return storage.input_file(name).model_copy(update={"name": "model.mge"})


async def compare(
    server, storage, *models: dict, pairing: Pairing | None = None, version="1.13.0", **changes
):
    """Order a comparison of fake models, the first of which is the baseline.

    version: of MegEngine, for all others
    """
    for number, model in enumerate(models):
        storage.files[f"{number}.mge"] = json.dumps(model).encode()
    data = (storage.input_file("data.npy", "data"),)
    arms = [
        ComparedArm(runtime=version, model=as_model(storage, f"{number}.mge"), data=data)
        for number in range(1, len(models))
    ]
    return await server.send_order(
        pairing=pairing or Pairing(budget_s=20),
        model=as_model(storage, "0.mge"),
        data=data,
        arms=tuple(arms),
        **changes,
    )


async def measured(server, storage, *models: dict, **changes) -> PairedMeasurement:
    end = await server.wait_for_end(await compare(server, storage, *models, **changes))
    assert (end.reason, explanation(end)) == (EndReason.EXITED, "")
    return PairedMeasurement.model_validate_json(storage.stored["paired.json"])


async def end_of_one_pair(server, order: Start) -> AttemptFinished:
    """End a comparison after its first pair, for tests that do not need more; return its end."""
    await server.send(Enough(attempt=order.attempt))
    return await server.wait_for_end(order)


BASE = {"us": 10_000}
#: condition of a fake wheel: it is the model of 7 µs, in a pair rather than alone before
IN_A_PAIR = 'first = line if turns == 1 else first\nif model["us"] == 7 and first != "1\\n"'


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("other_us", "verdict", "effect"), [(10_500, "slower", 0.05), (9_500, "faster", -0.05)]
)
async def test_verdict_of_a_clear_difference_ends_the_measurement(
    wheel, server, storage, other_us, verdict, effect
):
    wheel()
    result = await measured(server, storage, BASE, {"us": other_us, "factor": 1.5})
    (arm,) = result.verdicts
    assert arm.verdict == verdict
    assert arm.effect == pytest.approx(effect, abs=0.01)
    assert arm.low < arm.effect < arm.high
    assert len(result.pairs) == arm.pairs < 30
    assert result.measuring_s < 20
    # the outputs are measured on the same data: data.npy is 1, 2, 3
    assert result.arms[0].outputs == ()
    (output,) = result.arms[1].outputs
    assert output.name == "out"
    assert output.max_abs == pytest.approx(1.5)
    assert output.max_rel == pytest.approx(0.5)
    assert output.cosine == pytest.approx(1)
    assert output.sqnr_db == pytest.approx(6.02, abs=0.01)


async def test_each_pair_has_fresh_processes_that_take_turns_in_random_order(
    wheel, device, server, storage
):
    wheel()
    result = await measured(server, storage, BASE, {"us": 10_500}, {"us": 9_500})
    assert [verdict.arm for verdict in result.verdicts] == [1, 2]
    orders = set()
    for pair in result.pairs:
        order = [turn.arm for turn in pair.turns]
        assert Counter(order) == {0: 4, 1: 4, 2: 4}
        for block in (order[:6], order[6:]):
            assert block == block[::-1]
            orders.add(tuple(block[:3]))
    assert len(orders) > 1
    # one process for each arm alone, then one for each arm of each pair
    pids = (device.folder / "pids").read_text().split()
    assert len(pids) == len(set(pids)) == 3 + 3 * len(result.pairs)


@pytest.mark.exhaustive
async def test_too_small_a_difference_for_the_budget_is_not_enough(wheel, server, storage):
    wheel()
    # up to 10 % slower or faster, without an order that a few pairs could show
    models = (BASE, BASE | {"swing": 0.1})
    result = await measured(server, storage, *models, pairing=Pairing(budget_s=8))
    (arm,) = result.verdicts
    assert arm.verdict == "not_enough"
    assert arm.more_s is None or arm.more_s > 0
    # what is known so far is reported at each look, of which there are fewer than pairs
    reports = [report for report in server.messages(AttemptStarted) if report.verdicts]
    assert 1 <= len(reports) < len(result.pairs)
    assert {row.verdict for report in reports for row in report.verdicts} == {"not_enough"}


@pytest.mark.exhaustive
async def test_pairs_whose_processes_waited_for_a_core_do_not_count(wheel, server, storage):
    wheel()
    models = (BASE, {"us": 20_000, "waits": 0.5})
    result = await measured(server, storage, *models, pairing=Pairing(budget_s=5))
    (arm,) = result.verdicts
    assert (arm.verdict, arm.pairs, arm.effect) == ("not_enough", 0, None)
    assert {row.code for pair in result.pairs for row in pair.disturbances} == {"waited"}


OPERATORS = {"1": 1000, "2": 8000, "7": 1000, **dict.fromkeys(map(str, range(10, 20)), 10)}


@pytest.mark.exhaustive
async def test_pairs_with_more_threads_than_cores_are_not_judged_by_their_own_waiting(
    wheel, server, storage, calm_machine
):
    wheel()
    models = ({"us": 10_000, "waits": 0.5}, {"us": 12_000, "waits": 0.5})
    result = await measured(server, storage, *models, options={"multithread": 250})
    assert result.verdicts[0].pairs == len(result.pairs) > 0
    assert not any(pair.disturbances for pair in result.pairs)
    assert notes_of_arms(storage) == [("A", "oversubscribed")]


@pytest.mark.exhaustive
async def test_notes_about_the_inputs_of_one_arm_name_it(device, server, storage):
    device.start(BINARY)
    storage.files["nan.npy"] = npy_bytes([1.0, float("nan"), 3.0])
    arm = ComparedArm(
        runtime="1.13.0",
        model=server.make_order().model,
        data=(storage.input_file("nan.npy", "data"),),
    )
    order = await server.send_order(pairing=Pairing(), arms=(arm,))
    end = await end_of_one_pair(server, order)
    assert explanation(end) == ""
    assert notes_of_arms(storage) == [("B", "input_not_finite")]


def notes_of_arms(storage) -> list[tuple[str, str]]:
    """Return arm and code of the notes that are not about all arms."""
    measurement = Measurement.model_validate_json(storage.stored["measurement.json"])
    return [
        (note.values["arm"], note.values["note"]["code"])
        for note in measurement.notes
        if note.code == "of_arm"
    ]


def times_of_operators(storage) -> OperatorTimes:
    return OperatorTimes.model_validate_json(storage.stored["paired_operators.json"])


@pytest.mark.exhaustive
async def test_a_slower_arm_is_measured_until_its_operators_are_known(wheel, server, storage):
    wheel()
    models = (BASE | {"operators": OPERATORS}, {"us": 10_500, "operators": OPERATORS | {"7": 1500}})
    result = await measured(server, storage, *models, pairing=Pairing(budget_s=30))
    (arm,) = result.verdicts
    assert arm.verdict == "slower"
    times = times_of_operators(storage)
    # as long as the verdict needs, and then until so many operators can be told apart
    assert arm.pairs < len(result.pairs)
    assert len(times.pairs) == operator_pairs(len(OPERATORS))
    assert [arm.ids[0] for arm in times.arms] == ["2", "2"]
    us = [
        np.array(arm.us)[:, [arm.ids.index(key) for key in ("1", "2", "7")]] for arm in times.arms
    ]
    compared = compare_operators(np.log(us[1] / us[0]))
    assert compared.is_different[2]
    assert compared.effect == pytest.approx([0, 0, 0.5], abs=0.05)
    assert {"profile.json", "profile-b.json"} <= storage.stored.keys()


@pytest.mark.exhaustive
async def test_a_difference_within_the_margin_is_measured_for_its_operators(wheel, server, storage):
    wheel()
    models = (BASE | {"operators": OPERATORS}, {"us": 10_050, "operators": OPERATORS | {"7": 1050}})
    result = await measured(server, storage, *models, pairing=Pairing(budget_s=30))
    (arm,) = result.verdicts
    assert (arm.verdict, arm.low > 0) == ("same", True)
    assert len(times_of_operators(storage).pairs) == operator_pairs(len(OPERATORS))


@pytest.mark.exhaustive
async def test_a_comparison_ends_if_its_operators_would_take_too_long(wheel, server, storage):
    wheel('if line.startswith("profile"): time.sleep(0.5)')
    models = (BASE | {"operators": OPERATORS}, {"us": 10_500, "operators": OPERATORS})
    result = await measured(server, storage, *models, pairing=Pairing(budget_s=20))
    (arm,) = result.verdicts
    assert (arm.verdict, arm.pairs) == ("slower", len(result.pairs))


@pytest.mark.exhaustive
async def test_equal_arms_are_the_same_and_not_measured_for_their_operators(wheel, server, storage):
    wheel()
    models = [BASE | {"operators": OPERATORS}] * 2
    result = await measured(server, storage, *models)
    (arm,) = result.verdicts
    assert arm.verdict == "same"
    assert arm.effect == pytest.approx(0, abs=0.01)
    assert arm.low < arm.effect < arm.high
    assert arm.pairs < 30
    assert result.measuring_s < 20
    # one in twenty intervals of equal arms excludes 0
    assert arm.pairs == len(result.pairs) or arm.low * arm.high > 0
    # the first pair tells how long one takes; on a busy machine, others have no time for operators
    assert set(times_of_operators(storage).pairs) <= set(range(1, len(result.pairs)))


@pytest.mark.exhaustive
async def test_pairs_whose_profiled_turns_waited_have_no_operators(wheel, server, storage):
    wheel()
    models = (BASE | {"operators": OPERATORS}, BASE | {"operators": OPERATORS, "waits_profiled": 1})
    result = await measured(server, storage, *models)
    assert result.verdicts[0].verdict == "same"
    assert not any(pair.disturbances for pair in result.pairs)
    assert "paired_operators.json" not in storage.stored


@pytest.mark.exhaustive
async def test_model_that_crashes_with_the_profiler_is_compared_without(wheel, server, storage):
    wheel('if line.startswith("profile"): os.abort()')
    result = await measured(server, storage, *[BASE | {"operators": OPERATORS}] * 2)
    assert result.verdicts[0].verdict == "same"
    assert "paired_operators.json" not in storage.stored


@pytest.mark.parametrize(
    ("body", "exit_code"),
    [
        (f"{IN_A_PAIR} and turns == 3: os.kill(os.getpid(), 6)", 134),
        ('if model["us"] == 7: answer({}); sys.exit(3)', 3),
    ],
    ids=["crash within a block", "exit at the first turn"],
)
async def test_failed_arm_is_named(wheel, server, storage, body, exit_code):
    wheel(body)
    end = await server.wait_for_end(await compare(server, storage, BASE, {"us": 7}))
    assert (end.reason, end.exit_code) == ("exited", exit_code)
    assert "Arm B failed" in explanation(end)


async def test_an_arm_that_fails_at_its_end_alone_is_named(wheel, server, storage):
    wheel('if model["us"] == 7: import atexit; atexit.register(os._exit, 3)')
    order = await compare(server, storage, *({"us": us, "operators": {"1": 9}} for us in (9, 7)))
    end = await server.wait_for_end(order)
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 3)
    assert "Arm B failed" in explanation(end)


async def test_much_stderr_of_a_failed_arm_is_cut_to_its_end(wheel, server, storage):
    wheel('if model["us"] == 7: sys.stderr.write("x" * 10_000_000 + "last words"); sys.exit(3)')
    end = await server.wait_for_end(await compare(server, storage, BASE, {"us": 7}))
    assert "Arm B failed" in explanation(end)
    log = storage.stored["log.txt"]
    assert log.rstrip().endswith(b"last words")
    assert len(log) < 1_000_000


async def test_endless_stderr_of_an_arm_ends_at_the_disk_limit(wheel, device, server, storage):
    device.changes["limits"] = RunLimits(disk_bytes=50 << 20)
    wheel('while model["us"] == 7: sys.stderr.write("x" * (1 << 20))')
    end = await server.wait_for_end(await compare(server, storage, BASE, {"us": 7}))
    assert end.reason == EndReason.OUTPUT_TOO_LARGE


@pytest.mark.exhaustive
async def test_comparison_of_a_killed_agent_is_not_continued(wheel, device, server, storage):
    wheel()
    command = device.runtimes["1.13.0"].command
    await device.stop()
    agent = await start_agent(server, device.spool, "wheel", command)
    models = (BASE, BASE | {"swing": 0.1})
    order = await compare(server, storage, *models)
    await server.wait(lambda: any(m.passes_done > 3 for m in server.messages(AttemptStarted)))
    agent.kill()
    await agent.wait()
    device.start()
    end = await server.wait_for_end(order)
    assert end.reason == EndReason.AGENT_RESTARTED
    # the server repeats the task as a new attempt, which has only its own pairs
    assert "paired.json" not in storage.stored
    pids = (device.folder / "pids").read_text().split()
    assert not any(is_alive(int(pid)) for pid in pids)


async def test_file_of_an_arm_that_cannot_be_downloaded_is_told_from_that_of_another(
    wheel, server, storage
):
    wheel()
    order = server.make_order()
    missing = storage.input_file("model.mge").model_copy(update={"url": storage.url("missing")})
    arm = ComparedArm(runtime="1.13.0", model=missing)
    end = await server.run(model=order.model, pairing=Pairing(), arms=(arm,))
    assert end.reason == EndReason.DOWNLOAD_FAILED
    assert [note.values["arm"] for note in end.notes] == ["B"]


async def test_arm_with_wrong_data_is_named(wheel, server, storage):
    wheel()
    order = server.make_order()
    given = (GivenInput(name="data", literal="1,x"),)
    arm = ComparedArm(runtime="1.13.0", model=order.model, inputs=given)
    end = await server.run(pairing=Pairing(), arms=(arm,))
    assert end.reason == EndReason.INPUT_WRONG
    assert "Arm B failed" in explanation(end)
    assert len(end.notes) == 2


@pytest.mark.exhaustive
async def test_hanging_arm_ends_at_the_time_limit(wheel, server, storage):
    wheel(f"{IN_A_PAIR} and turns == 3: time.sleep(60)")
    order = await compare(server, storage, BASE, {"us": 7}, timeout_s=4)
    end = await server.wait_for_end(order)
    assert end.reason == EndReason.TIMED_OUT


async def test_enough_ends_a_comparison_after_its_current_pair_with_a_verdict(
    wheel, server, storage
):
    wheel()
    order = await compare(server, storage, BASE, BASE | {"swing": 0.1})
    await server.wait(lambda: any(m.passes_done > 3 for m in server.messages(AttemptStarted)))
    await server.send(Enough(attempt=order.attempt))
    end = await server.wait_for_end(order)
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    result = PairedMeasurement.model_validate_json(storage.stored["paired.json"])
    (arm,) = result.verdicts
    assert arm.pairs == sum(not pair.disturbances for pair in result.pairs)
    assert 4 <= len(result.pairs) < 30
    notes = Measurement.model_validate_json(storage.stored["measurement.json"]).notes
    assert "ended_early" in [note.code for note in notes]


async def test_cancelled_comparison_leaves_no_process(wheel, device, server, storage):
    wheel()
    models = (BASE, BASE | {"swing": 0.1})
    order = await compare(server, storage, *models)
    await server.wait(lambda: any(m.passes_done > 3 for m in server.messages(AttemptStarted)))
    await server.send(Cancel(attempt=order.attempt))
    end = await server.wait_for_end(order)
    assert end.reason == EndReason.CANCELLED
    await device.wait_until_forgotten()
    kept = PairedMeasurement.model_validate_json(storage.stored["paired.json"])
    assert len(kept.pairs) >= 4


async def test_the_last_look_spends_what_is_left_if_all_later_pairs_are_disturbed(
    wheel, server, storage, calm_machine
):
    # too few pairs for a verdict while more are planned, and enough if they are the last ones
    wheel(f'model["waits"] = 0.9 * (number > {FIRST_LOOK})')
    models = (BASE, {"us": 10_500})
    result = await measured(server, storage, *models, pairing=Pairing(budget_s=5))
    assert sum(not pair.disturbances for pair in result.pairs) == FIRST_LOOK < len(result.pairs)
    (arm,) = result.verdicts
    assert (arm.verdict, arm.pairs) == ("slower", FIRST_LOOK)


async def test_the_time_until_a_verdict_includes_that_of_disturbed_pairs(
    wheel, server, storage, calm_machine, monkeypatch
):
    def compare_undecided(*args, **kwargs):
        return replace(compare_pairs(*args, **kwargs), verdict="not_enough", more_pairs=100)

    monkeypatch.setattr(paired, "compare_pairs", compare_undecided)
    wheel('model["waits"] = 0.9 * (number % 2)')
    models = (BASE, {"us": 10_500})
    result = await measured(server, storage, *models, pairing=Pairing(budget_s=5))
    (arm,) = result.verdicts
    counted = sum(not pair.disturbances for pair in result.pairs)
    assert counted < 0.7 * len(result.pairs)
    assert arm.more_s == pytest.approx(100 * result.measuring_s / counted)


async def cancel_while_measuring(server, storage):
    """Cancel a comparison with a few pairs, and wait until its files are being uploaded."""
    order = await compare(server, storage, BASE, BASE | {"swing": 0.1})
    await server.wait(lambda: any(m.passes_done > 3 for m in server.messages(AttemptStarted)))
    server.answers_uploads = False
    await server.send(Cancel(attempt=order.attempt))
    await server.expect(AttemptUploads)
    return order


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_repeated_cancel_keeps_what_is_measured(wheel, device, server, storage, restarts):
    """The server repeats it with each heartbeat, also while the files are being uploaded."""
    wheel()
    order = await cancel_while_measuring(server, storage)
    if restarts:
        await device.stop()
        device.start()
        await server.expect(Hello, 2)
    await server.send(Cancel(attempt=order.attempt))
    await server.expect(AttemptUploads, len(server.messages(AttemptUploads)) + 1)
    server.answers_uploads = True
    assert (await server.wait_for_end(order)).reason == EndReason.CANCELLED
    kept = PairedMeasurement.model_validate_json(storage.stored["paired.json"])
    assert len(kept.pairs) >= 4


async def test_cancel_is_repeated_until_the_server_needs_no_files(
    wheel, server, storage, monkeypatch
):
    # long enough that the test fails if the agent does not give the uploads up because of the order
    patient = replace(conftest.QUICK, unanswered=10_000)
    monkeypatch.setattr(conftest, "QUICK", patient)
    monkeypatch.setattr(attempt, "KEPT_S", 0.0)
    wheel()
    order = await cancel_while_measuring(server, storage)
    await server.send(Cancel(attempt=order.attempt))
    assert (await server.wait_for_end(order)).reason == EndReason.CANCELLED
    assert "paired.json" not in storage.stored


async def test_arms_need_a_version_that_the_device_has(wheel, server, storage):
    wheel()
    order = server.make_order()
    other = ComparedArm(runtime="1.0.0", model=order.model)
    end = await server.run(pairing=Pairing(), arms=(other,))
    assert end.reason == EndReason.NO_RUNTIME
    assert "1.0.0" in explanation(end)


async def test_options_that_write_files_are_refused(wheel, server, storage):
    wheel()
    end = await server.run(pairing=Pairing(), options={"io_dump": True})
    assert end.reason == EndReason.REFUSED
    assert "io_dump" in explanation(end)


@pytest.mark.exhaustive
async def test_compiled_programs_run_one_process_for_each_turn(
    device, server, storage, calm_machine
):
    # the format of --bin_out_dump: length of the name, dtype 0 (float32), axes, shape, name, data
    dump = (
        "import struct\n"
        'if "--bin_out_dump=bin_out_dump" in sys.argv:\n'
        '    data = struct.pack("<10I3s2f", 3, 0, 7, 2, *[0] * 6, b"out", 1, us / 10_000)\n'
        '    open("bin_out_dump/run0-var8", "wb").write(bytes(51))\n'
        '    open("bin_out_dump/run1-var8", "wb").write(data)\n'
    )
    device.start(BINARY + dump)
    storage.files["slow.mge"] = b"slow"
    slow = as_model(storage, "slow.mge")
    arms = (ComparedArm(runtime="1.13.0", model=slow),)
    end = await server.run(pairing=Pairing(budget_s=12), arms=arms)
    assert explanation(end) == ""
    result = PairedMeasurement.model_validate_json(storage.stored["paired.json"])
    assert result.arms[1].usual_ms == 10.5
    (output,) = result.arms[1].outputs
    assert (output.name, output.problem) == ("out", None)
    assert output.max_abs == pytest.approx(0.05)
    assert all(turn.ms in (10, 10.5) for pair in result.pairs for turn in pair.turns)
    times = times_of_operators(storage)
    assert {arm.ids: set(arm.us) for arm in times.arms[1:]} == {("1",): {(10_500.0,)}}
    assert set(times.arms[0].us) == {(10_000.0,)}


@pytest.mark.exhaustive
async def test_compiled_program_that_cannot_write_outputs_is_compared(device, server, storage):
    device.start(BINARY + 'if any("bin_out_dump" in word for word in sys.argv): os.abort()')
    storage.files["slow.mge"] = b"slow"
    arm = ComparedArm(runtime="1.13.0", model=as_model(storage, "slow.mge"), options={"lite": True})
    order = await server.send_order(pairing=Pairing(), arms=(arm,), options={"lite": True})
    end = await end_of_one_pair(server, order)
    assert explanation(end) == ""
    result = PairedMeasurement.model_validate_json(storage.stored["paired.json"])
    (output,) = result.arms[1].outputs
    assert output.problem.code == "outputs_unknown"
    assert result.pairs


@pytest.mark.exhaustive
async def test_a_profile_that_is_written_again_counts_once_towards_the_disk_limit(
    device, server, storage, monkeypatch, calm_machine
):
    monkeypatch.setattr("agent.execution.watchdog.POLL_S", 0.02)
    # each arm has one profile in the results, and one that later pairs overwrite
    device.changes["limits"] = RunLimits(disk_bytes=5 << 20)
    device.start(
        BINARY
        + 'if "--profile=profile.json" in sys.argv:\n'
        + '    open("profile.json", "a").write(" " * (1 << 20))\n'
    )
    storage.files["slow.mge"] = b"slow"
    arm = ComparedArm(runtime="1.13.0", model=as_model(storage, "slow.mge"))
    end = await server.run(pairing=Pairing(budget_s=15), arms=(arm,))
    assert (end.reason, explanation(end)) == (EndReason.EXITED, "")
    assert times_of_operators(storage).arms[1].us


async def test_wheel_is_compared_with_a_compiled_program(wheel, device, server, storage):
    (device.folder / "other").mkdir()
    path = make_load_and_run(device.folder / "other", BINARY)
    wheel()
    info = RuntimeInfo(version="1.12.0", kind="binary")
    device.runtimes["1.12.0"] = LocalRuntime(info, (str(path),), path=str(path))
    storage.files |= {"a.mge": b'{"us": 10000}', "slow.mge": b"slow"}
    data = (storage.input_file("data.npy", "data"),)
    arm = ComparedArm(runtime="1.12.0", model=as_model(storage, "slow.mge"), data=data)
    order = await server.send_order(
        pairing=Pairing(), model=as_model(storage, "a.mge"), data=data, arms=(arm,)
    )
    end = await end_of_one_pair(server, order)
    assert explanation(end) == ""
    result = PairedMeasurement.model_validate_json(storage.stored["paired.json"])
    assert [arm.runtime for arm in result.arms] == ["1.13.0", "1.12.0"]
    assert {(turn.arm, turn.ms) for pair in result.pairs for turn in pair.turns} == {
        (0, 10),
        (1, 10.5),
    }


async def test_manifest_describes_the_baseline_and_the_other_arms(wheel, device, server, storage):
    wheel()
    info = RuntimeInfo(version="1.12.0", kind="wheel")
    device.runtimes["1.12.0"] = LocalRuntime(info, device.runtimes["1.13.0"].command)
    storage.files |= {"0.mge": b'{"us": 10000}', "1.mge": b'{"us": 10500}'}
    data = (storage.input_file("data.npy", "data"),)
    arm = ComparedArm(
        runtime="1.12.0", model=as_model(storage, "1.mge"), data=data, options={"fast_run": True}
    )
    order = await server.send_order(
        pairing=Pairing(), model=as_model(storage, "0.mge"), data=data, arms=(arm,)
    )
    end = await end_of_one_pair(server, order)
    assert explanation(end) == ""
    sums = {name: hashlib.sha256(storage.files[name]).hexdigest() for name in ("0.mge", "1.mge")}
    manifest = Manifest.model_validate_json(storage.stored["manifest.json"])
    assert (manifest.options, manifest.runtime["version"]) == ({}, "1.13.0")
    assert (manifest.files[0].name, manifest.files[0].sha256) == ("model.mge", sums["0.mge"])
    (other,) = manifest.arms
    assert (other.name, other.runtime["version"]) == ("B", "1.12.0")
    assert other.options == {"fast_run": True}
    assert (other.files[0].name, other.files[0].sha256) == ("model.mge", sums["1.mge"])
    assert [(entry.name, entry.source) for entry in other.inputs] == [("data", "file")]
    # a device that knows the checksums need not download the files again
    assert [(file.arm, file.name) for file in end.received] == [
        (0, "model.mge"),
        (0, "data.npy"),
        (1, "model.mge"),
        (1, "data.npy"),
    ]


#: what a malicious model does in its folder, and what becomes of a file outside
LINKED = {
    "setup": "os.remove('../setup.json'); os.symlink({target!r}, '../setup.json')",
    "folder": "os.rename('../arm-1', '../x'); os.symlink({folder!r}, '../arm-1')",
    "outputs": "os.mkfifo('outputs.json'); os.mkfifo('bin_out_dump')",
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("trick", LINKED)
async def test_links_and_pipes_of_a_model_are_not_followed(wheel, device, server, storage, trick):
    outside = device.folder / "outside"
    outside.mkdir()
    target = outside / "model.mge"
    target.write_bytes(b'{"us": 7000}')
    act = LINKED[trick].format(target=str(target), folder=str(outside))
    wheel(f"if turns == 2 and model['us'] == 7:\n    try: {act}\n    except OSError: pass")
    order = await compare(server, storage, {"us": 7}, BASE, timeout_s=10)
    end = await end_of_one_pair(server, order)
    assert target.read_bytes() == b'{"us": 7000}'
    assert sorted(path.name for path in outside.iterdir()) == ["model.mge"]
    if trick == "folder":
        assert end.reason == EndReason.NOTHING_TIMED


async def test_model_that_answers_nonsense_fails(wheel, server, storage):
    wheel('answer({"ms": [], "elapsed_ms": 50}); continue')
    end = await server.wait_for_end(await compare(server, storage, BASE, BASE))
    assert (end.reason, end.exit_code) != (EndReason.EXITED, 0)


async def test_sandbox_shows_the_programs_of_all_arms(device, server, storage, monkeypatch):
    with tempfile.TemporaryDirectory(dir="/var/tmp") as home:
        monkeypatch.setenv("HOME", home)
        (Path(home) / "diary").touch()
        body = f"    assert not os.path.exists({home + '/diary'!r})"
        device.spool.mkdir()
        device.sandbox = require_sandbox((device.spool,))
        for version in ("1.13.0", "1.12.0"):
            folder = Path(home) / version / "bin"
            folder.mkdir(parents=True)
            path = make_load_and_run(folder, WHEEL.format(pids="pids", body=body))
            info = RuntimeInfo(version=version, kind="wheel")
            device.runtimes[version] = LocalRuntime(info, (str(path),))
        device.start()
        order = await compare(server, storage, BASE, BASE, version="1.12.0")
        end = await end_of_one_pair(server, order)
    assert (end.reason, explanation(end)) == (EndReason.EXITED, "")
    result = PairedMeasurement.model_validate_json(storage.stored["paired.json"])
    assert [arm.runtime for arm in result.arms] == ["1.13.0", "1.12.0"]
    assert result.pairs


@pytest.mark.exhaustive
async def test_megengine_takes_turns(device, server, storage, megengine_python):
    command = tuple(command_for("wheel", megengine_python))
    info = RuntimeInfo(version="1.13.0", kind="wheel")
    device.runtimes = {"1.13.0": LocalRuntime(info, command, path=megengine_python)}
    device.start()
    tiny = (DATA / "models" / "tiny.mge").read_bytes()
    storage.files |= {"model.mge": tiny, "b.mge": tiny}
    arms = (ComparedArm(runtime="1.13.0", model=storage.input_file("b.mge")),)
    order = await server.send_order(pairing=Pairing(), arms=arms, fill=True, timeout_s=60)
    end = await end_of_one_pair(server, order)
    assert explanation(end) == ""
    result = PairedMeasurement.model_validate_json(storage.stored["paired.json"])
    assert result.pairs
    assert all(turn.ms > 0 for pair in result.pairs for turn in pair.turns)
    operators = [
        json.loads(storage.stored[name])["graph_exec"]["operator"].keys()
        for name in ("profile.json", "profile-b.json")
    ]
    assert operators[0] == operators[1]
    # the same random input, from the seed of the task
    (output,) = result.arms[1].outputs
    assert (output.max_abs, output.cosine) == (0, 1)


# -- parts ----


@pytest.mark.parametrize(
    ("usual_ms", "iterations"),
    [
        (0, 10_000),
        (0.001, 10_000),
        (0.02, 2250),
        (2, 23),
        (10, 5),
        (20, 5),
        (25, 4),
        (45, 2),
        (60, 1),
    ],
)
def test_turn_has_five_iterations_where_they_fit(usual_ms, iterations):
    assert turn_iterations(usual_ms) == iterations


@pytest.mark.parametrize(("block_ms", "blocks"), [(0, 4), (200, 4), (270, 3), (400, 2), (8000, 2)])
def test_a_pair_has_more_blocks_if_they_are_short(block_ms, blocks):
    assert blocks_of_pair(block_ms) == blocks


@pytest.mark.parametrize(("measuring_s", "limit_s"), [(0, 0), (40, 5), (60, 7.5), (90, 17.5)])
def test_profiled_turns_get_more_of_the_time_after_the_first_minute(measuring_s, limit_s):
    assert profiling_limit_s(measuring_s) == pytest.approx(limit_s)


def test_first_iteration_of_a_turn_does_not_count_unless_it_is_the_only_one():
    assert turn_ms([9, 1, 2, 3]) == 2
    assert turn_ms([9]) == 9


def test_blocked_layouts_are_compared_in_one_order():
    nchw = np.arange(2 * 6 * 3 * 5, dtype=np.float32).reshape(2, 6, 3, 5)
    padded = np.zeros((2, 8, 3, 5), np.float32)
    padded[:, :6] = nchw
    nchw4 = padded.reshape(2, 2, 4, 3, 5).transpose(0, 1, 3, 4, 2)
    assert np.array_equal(plain(nchw4, nchw.shape), nchw)
    for one, other in ((nchw, nchw4), (nchw4, nchw)):
        assert difference("x", one, other).max_abs == 0


def test_of_many_outputs_those_that_differ_most_are_reported():
    ones = [(str(number), np.ones(2)) for number in range(MOST_OUTPUTS + 20)]
    other = [*ones[:110], ("110", np.array([1.0, -1.0])), *ones[111:]]
    compared = differences(ones, other)
    assert len(compared) == MOST_OUTPUTS
    assert (compared[0].name, compared[0].cosine) == ("110", 0)


def test_outputs_with_the_same_name_are_compared_each(tmp_path):
    for name, second in (("a", 2.0), ("b", 3.0)):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "output-0.npy", np.ones(2, "f4"))
        np.save(tmp_path / name / "output-1.npy", np.full(2, second, "f4"))
        (tmp_path / name / "outputs.json").write_text('["out", "out"]')
    compared = differences(*(read_outputs(tmp_path / name) for name in "ab"))
    assert [(row.name, row.max_abs) for row in compared] == [("out", 0), ("out", 1)]


@pytest.mark.parametrize("dtype", ["int64", "bool", "uint8", "float16"])
def test_outputs_of_any_type_are_compared_in_parts(tmp_path, dtype):
    values = np.arange(1_000_001) % 7
    for name, factor in (("a", 1), ("b", 0)):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "output-0.npy", (values * factor).astype(dtype))
        (tmp_path / name / "outputs.json").write_text('["out"]')
    a, b = (read_outputs(tmp_path / name) for name in "ab")
    assert differences(a, a)[0].max_abs == 0
    (other,) = differences(a, b)
    assert (other.max_abs, other.max_rel, other.cosine) == (1 if dtype == "bool" else 6, 1, 0)


@pytest.mark.parametrize(
    ("a", "b", "code"),
    [
        ([1.0, 2.0], [1.0, 2.0, 3.0], "outputs_shape"),
        ([1.0, np.nan], [1.0, 2.0], "outputs_not_finite"),
    ],
)
def test_outputs_that_cannot_be_compared_say_why(a, b, code):
    assert difference("x", np.array(a), np.array(b)).problem.code == code


def test_equal_outputs_with_nan_are_equal():
    values = np.array([1.0, np.nan, np.inf])
    assert difference("x", values, values.copy()).max_abs == 0


def test_outputs_of_zeros_have_no_direction():
    zeros = np.zeros(3)
    assert difference("x", zeros, zeros).cosine == 1
    assert difference("x", zeros, np.ones(3)).cosine == 0
