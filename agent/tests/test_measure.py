"""The passes of an attempt: the processes, the results, and those after a failure."""

import io
import zipfile
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pynvml
import pytest

from agent.config import GateLimits
from agent.execution.report import Manifest
from agent.protocol.measurement import Measurement
from agent.protocol.messages import (
    AttemptStarted,
    AttemptUploads,
    EndReason,
    Enough,
    GivenInput,
    RuntimeInfo,
)
from agent.protocol.notes import Note
from agent.protocol.plan import Plan
from agent.tests.fakes import explanation, npy_bytes, profile_of, wait_until

#: a load_and_run that supports the options of the agent; each iteration takes 2 ms
FAKE_RUN = """\
flags = dict(a[2:].partition("=")[::2] for a in sys.argv[2:] if a.startswith("--"))
count = int(flags.get("iter", 10))
if "model_info" in flags:
    say("| INPUT | data | {3} | float32 |")
    say("| INPUT | mask | {2} | float32 |")
    say("| OUTPUT | out | {1} | float32 |")
say("load model: 5.000ms")
if int(flags.get("warmup_iter", 1)):
    say("=== prepare: 5.000ms; going to warmup")
    say("warm up 0  9.000ms")
for i in range(count):
    say(f"iter {i}/{count}: e2e=2.000 ms (host=0.100 ms)")
if count:
    say("=== finished test #0: time=20 ms avg_time=2 ms standard_deviation=0 ms min=2 ms max=2 ms")
say(f"=== total time: {2.0 * count:.3f}ms")
for name in ("io_dump", "model_dump", "fast_run_algo_policy"):
    if flags.get(name):
        open(flags[name], "a").write(name + "\\n")
if "bin_io_dump" in flags:
    # a compiled load_and_run aborts without the folder
    if not os.path.isdir(flags["bin_io_dump"]): os.abort()
    for i in range(3):
        open(flags["bin_io_dump"] + f"/{i:06x}", "w").write(str(i))
    os.symlink("/etc/hostname", flags["bin_io_dump"] + "/hostname")
write_profile()
"""


def fake_run(extra: str = "") -> str:
    return FAKE_RUN + extra


@pytest.fixture
async def started(device):
    """A started device whose load_and_run honours its options."""
    device.start(fake_run())


def read_measurement(storage) -> Measurement:
    return Measurement.model_validate_json(storage.stored["measurement.json"])


def read_manifest(storage) -> Manifest:
    return Manifest.model_validate_json(storage.stored["manifest.json"])


def pass_kinds(storage) -> list[str]:
    return [record.kind for record in read_measurement(storage).passes]


def headings(server) -> list[str]:
    """Return the titles of the steps in the log."""
    lines = server.log_text().splitlines()
    return [line[5:].split(":")[0] for line in lines if line.startswith("==== ")]


def clean_plan(min_s: float) -> Plan:
    return Plan(preset="custom", clean=True, clean_min_s=min_s, clean_min_iterations=20, profiled=0)


async def test_the_standard_plan_is_a_clean_pass_and_profiled_passes(started, server, storage):
    plan = Plan(preset="standard", clean=True, profiled=3)
    end = await server.run(plan=plan, options={"iter": 5})
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    measurement = read_measurement(storage)
    profiles = ["profile.json", "profile-2.json", "profile-3.json"]
    assert pass_kinds(storage) == ["clean", "profiled", "profiled", "profiled"]
    assert [record.profile for record in measurement.passes] == ["", *profiles]
    assert measurement.passes[0].e2e_ms == (2.0,) * 5
    assert measurement.passes[0].host_ms == (0.1,) * 5
    assert measurement.passes[0].warmup_ms == (9.0,)
    assert not any("--profile" in word for word in measurement.passes[0].argv)
    assert set(profiles) <= set(storage.stored)
    assert measurement.plan == plan
    reports = server.messages(AttemptStarted)
    assert [message.passes_done for message in reports] == [0, 1, 2, 3, 4]
    assert [bool(message.command) for message in reports] == [True, False, False, False, False]
    assert headings(server) == [
        "latency", "profile 1 of 3", "profile 2 of 3", "profile 3 of 3",
    ]  # fmt: skip
    assert storage.requests.count("GET model.mge") == 1
    assert measurement.device["before"]["memory_available_bytes"] > 0
    assert measurement.device["after"]["at"] >= measurement.device["before"]["at"]
    assert measurement.gate["passed"] is True


async def test_a_clean_pass_that_is_too_short_is_repeated(started, server, storage):
    plan = clean_plan(0.1)
    end = await server.run(plan=plan)
    assert end.exit_code == 0
    tried, kept = read_measurement(storage).passes
    assert (tried.kept, len(tried.e2e_ms)) == (False, 20)
    assert kept.kept
    assert sum(kept.e2e_ms) >= 100
    assert "profile.json" not in storage.stored
    # a calibration is no pass
    assert headings(server) == ["latency, try 2"]
    assert [message.passes_done for message in server.messages(AttemptStarted)] == [0, 1]


async def test_each_clean_pass_is_a_process_and_the_latency_is_reported_after_it(
    started, server, storage
):
    plan = Plan(preset="custom", clean=True, clean_passes=3, clean_min_s=0.1, profiled=1)
    assert (await server.run(plan=plan)).exit_code == 0
    records = read_measurement(storage).passes
    assert [(record.kind, record.kept) for record in records] == [
        ("clean", False), ("clean", True), ("clean", True), ("clean", True), ("profiled", True),
    ]  # fmt: skip
    # the first pass determines the number of iterations of all
    assert len({len(record.e2e_ms) for record in records[1:4]}) == 1
    assert headings(server) == [
        "latency 1 of 3", "latency 1 of 3, try 2", "latency 2 of 3", "latency 3 of 3", "profile",
    ]  # fmt: skip
    reports = {r.passes_done: r.latency for r in server.messages(AttemptStarted)}
    assert reports[0] is None
    first, second, third = (reports[done] for done in (1, 2, 3))
    assert (first.passes, first.median_ms, first.low_ms, first.goes_on) == (1, 2.0, None, True)
    assert (second.passes, second.low_ms, second.goes_on) == (2, pytest.approx(2.0), True)
    assert (third.passes, third.goes_on) == (3, False)


async def test_clean_passes_of_several_copies_of_a_model_have_equally_many_iterations(
    device, server, storage
):
    copies = fake_run().replace("for i in range(count):", "for i in sorted([*range(count)] * 4):")
    device.start(copies)
    plan = Plan(preset="custom", clean=True, clean_passes=2, clean_min_s=0.1, profiled=0)
    assert (await server.run(plan=plan, options={"thread": 4})).exit_code == 0
    tried, *kept = read_measurement(storage).passes
    assert (tried.kept, len(tried.e2e_ms)) == (False, 40)
    assert all(sum(record.e2e_ms) / 4 >= 100 for record in kept)
    # each of the copies has as many iterations as load_and_run was asked for
    asked = {word for record in kept for word in record.argv if word.startswith("--iter=")}
    assert asked == {f"--iter={len(kept[0].e2e_ms) // 4}"}


async def test_a_plan_with_a_budget_adds_clean_passes_until_the_interval_is_narrow(
    started, server, storage, monkeypatch
):
    # a disturbed pass would be left out, and another one measured
    monkeypatch.setattr("agent.execution.measure.pass_disturbances", lambda *_: [])
    plan = Plan(preset="custom", clean=True, clean_passes=2, budget_s=60, profiled=1)
    assert (await server.run(plan=plan)).exit_code == 0
    # fewer may be equal by chance
    assert pass_kinds(storage) == ["clean"] * 8 + ["profiled"]
    note = read_measurement(storage).notes[-1]
    assert (note.code, note.values["passes"]) == ("interval_narrow", 8)


async def test_a_plan_with_a_budget_ends_when_it_is_over(device, server, storage):
    device.start(fake_run().replace("e2e=2.000 ms", "e2e={2 + os.getpid() % 7:.3f} ms"))
    plan = Plan(preset="custom", clean=True, clean_passes=3, budget_s=1, profiled=0)
    assert (await server.run(plan=plan)).exit_code == 0
    assert 3 <= len(pass_kinds(storage)) < 100
    assert read_measurement(storage).notes[-1].code == "interval_wide"


async def test_clean_passes_have_no_more_iterations_than_fit_into_the_result(
    started, server, storage, monkeypatch
):
    for module in ("plan", "measure"):
        monkeypatch.setattr(f"agent.execution.{module}.MOST_CLEAN_ITERATIONS", 60)
    # an iteration takes 2 ms
    plan = Plan(preset="custom", clean=True, clean_passes=2, clean_min_s=0.2, profiled=0)
    assert (await server.run(plan=plan)).exit_code == 0
    kept = [record for record in read_measurement(storage).passes if record.kept]
    assert [len(record.e2e_ms) for record in kept] == [30, 30]
    assert "clean_too_short" in [note.code for note in read_measurement(storage).notes]
    plan = Plan(preset="custom", clean=True, clean_min_iterations=20, budget_s=60, profiled=0)
    assert (await server.run(plan=plan)).exit_code == 0
    measurement = read_measurement(storage)
    assert len(measurement.passes) == 3
    # the budget of a minute is not over
    assert "iterations" in str(measurement.notes[-1])


#: a run whose processes after the first last until a file is there
WAITING_RUN = """
if os.path.exists("ran"):
    while not os.path.exists("go"): time.sleep(0.01)
open("ran", "w").close()
"""


@pytest.mark.parametrize("options", [{}, {"io_dump": True}, {"model_dump": True}])
async def test_enough_ends_a_run_after_its_current_pass(device, server, storage, caplog, options):
    caplog.set_level("INFO")
    device.start(fake_run(WAITING_RUN))
    plan = Plan(preset="custom", clean=True, clean_passes=3, profiled=2)
    order = await server.start_attempt(plan=plan, options=options)
    await server.wait(lambda: any(m.passes_done for m in server.messages(AttemptStarted)))
    for _ in range(2):
        await server.send(Enough(attempt=order.attempt))
    (work,) = device.spool.glob("attempts/*/work")
    await wait_until(lambda: "attempt_has_enough" in caplog.text)
    (work / "go").touch()
    end = await server.wait_for_end(order)
    assert (end.reason, end.exit_code, explanation(end)) == (EndReason.EXITED, 0, "")
    measurement = read_measurement(storage)
    assert [record.kind for record in measurement.passes] == ["clean", "clean"]
    assert [note.code for note in measurement.notes] == ["ended_early"]
    assert measurement.passes[-1].e2e_ms
    assert ("model_dump.mge" in storage.stored) == ("model_dump" in options)
    # after the end there is nothing to end
    await server.send(Enough(attempt=order.attempt))
    assert (await server.run(plan=Plan())).exit_code == 0


async def test_enough_before_the_first_result_waits_for_it(device, server, storage):
    device.start("time.sleep(0.5)\n" + fake_run())
    order = await server.start_attempt(plan=Plan(profiled=3))
    await server.send(Enough(attempt=order.attempt))
    assert (await server.wait_for_end(order)).exit_code == 0
    assert pass_kinds(storage) == ["profiled"]
    assert "profile.json" in storage.stored


async def test_enough_over_a_new_connection_is_not_lost(device, server, storage, caplog):
    caplog.set_level("INFO")
    device.start(fake_run(WAITING_RUN))
    order = await server.start_attempt(plan=Plan(profiled=4))
    await server.wait(lambda: any(m.passes_done for m in server.messages(AttemptStarted)))
    await server.drop()
    await server.send(Enough(attempt=order.attempt))
    await wait_until(lambda: "attempt_has_enough" in caplog.text)
    (work,) = device.spool.glob("attempts/*/work")
    (work / "go").touch()
    assert (await server.wait_for_end(order)).exit_code == 0
    assert pass_kinds(storage) == ["profiled"] * 2


async def test_missing_inputs_are_random_numbers_in_the_shapes_of_the_model(
    started, server, storage
):
    end = await server.run(fill=True, seed=7)
    assert end.exit_code == 0
    inspect, profiled = read_measurement(storage).passes
    assert (inspect.kind, inspect.kept, inspect.e2e_ms) == ("inspect", False, ())
    assert "--input=data:input_0.npy;mask:input_1.npy" in profiled.argv
    manifest = read_manifest(storage)
    assert [(entry.name, entry.source, entry.shape) for entry in manifest.inputs] == [
        ("data", "random", (3,)),
        ("mask", "random", (2,)),
    ]
    # the same seed gives the same numbers; the inputs of the model are known
    assert (await server.run(fill=True, seed=7)).exit_code == 0
    second = read_manifest(storage)
    assert second.inputs == manifest.inputs
    assert pass_kinds(storage) == ["profiled"]
    assert (await server.run(fill=True, seed=8)).exit_code == 0
    other = read_manifest(storage)
    assert other.inputs[0].sha256 != manifest.inputs[0].sha256


async def test_one_missing_input_is_random_and_noted_in_the_result(started, server, storage):
    data = (storage.input_file("data.npy", "data"),)
    end = await server.run(fill=True, data=data)
    assert end.exit_code == 0
    inspect, profiled = read_measurement(storage).passes
    assert (inspect.kind, inspect.kept) == ("inspect", False)
    assert any(word.startswith("--input=data:") and ";mask:" in word for word in profiled.argv)
    assert read_measurement(storage).notes[-1].values["name"] == "mask"


async def test_a_version_without_model_info_generates_no_inputs(device, server, storage):
    device.install(fake_run())
    info = RuntimeInfo(
        version="1.13.0", kind="binary", flags=("iter", "profile", "no_sanity_check")
    )
    runtime = device.runtimes["1.13.0"]
    device.runtimes = {"1.13.0": replace(runtime, info=info)}
    device.start()
    end = await server.run(fill=True)
    assert (end.reason, end.cause) == (EndReason.INPUT_WRONG, "shape")
    assert end.notes == (Note.of("inputs_unknown"),)
    data = (storage.input_file("data.npy", "data"),)
    assert (await server.run(fill=True, data=data)).exit_code == 0
    assert pass_kinds(storage) == ["profiled"]


async def test_an_invalid_table_of_inputs_is_ignored(device, server, storage):
    device.start(fake_run().replace("| OUTPUT | out", "| OUTPUT ??"))
    data = (storage.input_file("data.npy", "data"),)
    for _ in range(2):
        assert (await server.run(fill=True, data=data)).exit_code == 0
        # the inputs of the model are still unknown
        assert pass_kinds(storage) == ["inspect", "profiled"]


@pytest.mark.exhaustive
async def test_waiting_for_an_idle_device_does_not_count_towards_the_timeout(
    device, server, storage
):
    device.install(fake_run())
    device.changes["gate"] = GateLimits(min_memory_bytes=1 << 60, wait_s=4)
    device.start()
    end = await server.run(timeout_s=3)
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    measurement = read_measurement(storage)
    assert measurement.gate["passed"] is False
    # what it suffered decides whether a run was disturbed, not whether the device was idle before
    assert not measurement.disturbances


async def test_a_clean_pass_without_iterations_is_a_failure(device, server):
    device.start('say("=== total time: 0.000ms")')
    end = await server.run(plan=Plan(preset="custom", clean=True, profiled=0))
    assert (end.reason, end.exit_code) == (EndReason.NOTHING_TIMED, 0)


async def test_one_slow_iteration_does_not_make_the_clean_pass_too_short(device, server, storage):
    device.start(
        fake_run().replace("e2e=2.000 ms", "e2e={90.0 if i == 0 and count < 50 else 2.0:.3f} ms")
    )
    assert (await server.run(plan=clean_plan(0.2))).exit_code == 0
    assert sum(read_measurement(storage).passes[-1].e2e_ms) >= 200


async def test_a_clean_pass_on_a_busy_device_has_a_limited_duration(device, server, storage):
    # most iterations take 2 us, every 500th is disturbed
    device.install(
        fake_run().replace("e2e=2.000 ms", "e2e={60.0 if i % 500 == 499 else 0.002:.3f} ms")
    )
    device.start()
    assert (await server.run(plan=clean_plan(0.2))).exit_code == 0
    assert 200 <= sum(read_measurement(storage).passes[-1].e2e_ms) <= 1000


async def test_a_clean_pass_that_stays_too_short_is_kept_and_noted(device, server, storage):
    device.start(fake_run().replace("e2e=2.000 ms", "e2e={40.0 / count:.3f} ms"))
    assert (await server.run(plan=clean_plan(0.1))).exit_code == 0
    measurement = read_measurement(storage)
    assert [record.kept for record in measurement.passes] == [False, False, False, True]
    assert measurement.notes[-1].code == "clean_too_short"
    assert measurement.notes[-1].values["least_s"] == 0.1


async def test_literals_and_shapes_become_input_files(device, server, storage):
    device.start(
        fake_run('say("given " + " ".join(sorted(f for f in os.listdir(".") if "input" in f)))')
    )
    inputs = (
        GivenInput(name="data", literal="1.5,2,3"),
        GivenInput(name="mask", shape=(4, 2), dtype="int32"),
    )
    assert (await server.run(inputs=inputs)).exit_code == 0
    assert "given input_0.npy input_1.npy" in server.log_text()
    manifest = read_manifest(storage)
    assert [(i.name, i.source, i.dtype, i.shape) for i in manifest.inputs] == [
        ("data", "literal", "float32", (3,)),
        ("mask", "random", "int32", (4, 2)),
    ]


async def test_batch_size_changes_the_inputs_and_is_no_argument(started, server, storage):
    storage.files["data.npy"] = npy_bytes([[1.0, 2.0]])
    end = await server.run(
        data=(storage.input_file("data.npy", "data"),), options={"batch_size": 4}
    )
    assert end.exit_code == 0
    assert not any(word.startswith("--batch") for word in read_measurement(storage).passes[0].argv)
    manifest = read_manifest(storage)
    assert manifest.inputs[0].shape == (4, 2)


async def test_an_invalid_input_fails_before_the_run(started, server, storage):
    storage.files["data.npy"] = b"\x80\x04pickle"
    end = await server.run(data=(storage.input_file("data.npy", "data"),))
    assert end.reason is EndReason.INPUT_WRONG
    assert end.notes == (Note.of("input_pickled", name="data.npy"),)
    assert not server.messages(AttemptStarted)


async def test_dumps_have_their_own_pass_and_are_uploaded(started, server, storage):
    options = {"bin_io_dump": True, "model_dump": True, "iter": 4}
    end = await server.run(options=options)
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    profiled, dump = read_measurement(storage).passes
    assert "--model_dump=model_dump.mge" in profiled.argv
    assert not any("bin_io_dump" in word for word in profiled.argv)
    assert "--bin_io_dump=bin_io_dump" in dump.argv
    assert "--iter=1" in dump.argv
    assert not any("model_dump" in word for word in dump.argv)
    packed = zipfile.ZipFile(io.BytesIO(storage.stored["bin_io_dump.zip"]))
    # a link would expose files of the device
    assert sorted(packed.namelist()) == ["000000", "000001", "000002"]
    assert storage.stored["model_dump.mge"] == b"model_dump\n"


async def test_a_link_of_the_run_does_not_make_the_agent_write_elsewhere(
    device, server, storage, tmp_path
):
    other = tmp_path / "other"
    other.write_text("kept")
    links = f"""
for name in ("bin_io_dump.zip", "bin_io_dump.zip.partial"):
    if "bin_io_dump" in flags:
        os.symlink({str(other)!r}, name)
"""
    device.start(fake_run(links))
    assert (await server.run(options={"bin_io_dump": True})).exit_code == 0
    assert other.read_text() == "kept"
    packed = zipfile.ZipFile(io.BytesIO(storage.stored["bin_io_dump.zip"]))
    assert sorted(packed.namelist()) == ["000000", "000001", "000002"]


async def test_exit_0_without_an_output_file_is_a_failure(device, server, storage):
    device.start(fake_run('os.remove("model_dump.mge")'))
    end = await server.run(options={"model_dump": True})
    assert (end.reason, end.exit_code) == (EndReason.FILE_MISSING, 0)
    assert end.notes == (Note.of("option_no_file", option="model_dump"),)
    assert "profile.json" in storage.stored


async def test_all_passes_share_one_algorithm_cache(started, server, storage):
    plan = Plan(preset="custom", clean=True, profiled=2)
    assert (await server.run(plan=plan, options={"fast_run": True})).exit_code == 0
    for record in read_measurement(storage).passes:
        assert "--fast_run_algo_policy=algo_cache.bin" in record.argv
    # the cache is not an output of the task
    assert "algo_cache.bin" not in storage.stored
    assert (await server.run(options={"fast_run": True})).exit_code == 0
    assert not any(
        word.startswith("--fast_run_algo") for word in read_measurement(storage).passes[0].argv
    )


async def test_a_given_algorithm_cache_is_extended(started, server, storage):
    storage.files["algo_cache.bin"] = b"from before\n"
    data = (storage.input_file("algo_cache.bin", "", option="fast_run_algo_policy"),)
    end = await server.run(data=data)
    assert end.exit_code == 0
    assert storage.stored["algo_cache.bin"] == b"from before\nfast_run_algo_policy\n"


async def test_results_of_passes_before_a_failure_are_kept(device, server, storage):
    device.start(
        fake_run("""
n = len(os.listdir("."))
open(f"was-here-{n}", "w").close()
if os.path.exists("profile.json") and n > 3:
    os.abort()
""")
    )
    end = await server.run(plan=Plan(preset="custom", profiled=5))
    assert (end.reason, end.exit_code, end.detail) == (EndReason.EXITED, 134, "SIGABRT")
    measurement = read_measurement(storage)
    assert measurement.passes[0].exit_code == 0
    assert measurement.passes[-1].exit_code == 134
    assert len(measurement.passes) < 5
    assert "profile.json" in storage.stored


async def test_the_slowest_operators_are_reported_after_the_first_profiled_pass(
    device, server, storage
):
    profile = profile_of([("conv", "Convolution", 0.002), ("relu", "Elemwise", 0.001)])
    device.start(fake_run(f"write_profile({profile.decode()!r})"))
    plan = Plan(preset="custom", clean=True, profiled=2)
    assert (await server.run(plan=plan, options={"bin_io_dump": True, "iter": 2})).exit_code == 0
    reports = server.messages(AttemptStarted)
    assert [report.passes_done for report in reports] == [0, 1, 2, 3, 4]
    assert [bool(report.slowest) for report in reports] == [False, False, True, False, False]
    assert reports[2].slowest.rows == (("conv", 0, 2000.0), ("relu", 1, 1000.0))
    assert headings(server) == ["latency", "profile 1 of 2", "profile 2 of 2", "dumps"]


async def test_a_single_pass_reports_its_operators_before_the_upload(device, server, storage):
    profile = profile_of([("conv", "Convolution", 0.002)])
    device.start(fake_run(f"write_profile({profile.decode()!r})"))
    assert (await server.run()).exit_code == 0
    first, second = server.messages(AttemptStarted)
    assert (first.passes_done, first.slowest) == (0, None)
    assert (second.passes_done, second.slowest.operators) == (1, 1)
    uploads = server.messages(AttemptUploads)
    assert server.received.index(second) < server.received.index(uploads[0])


async def test_a_failed_pass_is_not_counted(device, server, storage):
    profile = profile_of([("conv", "Convolution", 0.002)])
    device.start(
        fake_run(f"""
write_profile({profile.decode()!r})
open("count", "a").write("x")
if os.path.getsize("count") == 3: os.abort()
""")
    )
    plan = Plan(preset="custom", clean=True, profiled=3)
    assert (await server.run(plan=plan, options={"iter": 2})).exit_code == 134
    reports = server.messages(AttemptStarted)
    assert [report.passes_done for report in reports] == [0, 1, 2]
    assert headings(server)[-1] == "profile 2 of 3"


async def test_twenty_profiles_are_uploaded(started, server, storage):
    end = await server.run(plan=Plan(preset="custom", profiled=20), options={"iter": 1})
    assert end.exit_code == 0
    assert "profile-20.json" in storage.stored
    assert len(end.files) == 20 + 3


async def test_the_manifest_describes_files_options_runtime_and_host(started, server, storage):
    data = (storage.input_file("data.npy", "data"),)
    await server.run(data=data, options={"iter": 3})
    manifest = read_manifest(storage)
    assert [file.name for file in manifest.files] == ["model.mge", "data.npy"]
    assert manifest.options == {"iter": 3}
    assert manifest.commands[0].endswith("--profile=profile.json")
    assert manifest.runtime["version"] == "1.13.0"
    assert len(manifest.runtime["sha256"]) == 64
    assert manifest.host["cores"] >= 1
    assert manifest.host["kernel"]
    assert manifest.environment["MGE_FASTRUN_CACHE_TYPE"] == "MEMORY"
    assert "hostname" not in manifest.host
    assert server.url not in manifest.model_dump_json()
    array = np.load(io.BytesIO(storage.files["data.npy"]))
    assert manifest.inputs[0].shape == array.shape


async def test_a_known_file_comes_from_the_cache(started, server, storage):
    end = await server.run()
    (model,) = end.received
    known = storage.input_file("model.mge", sha256=model.sha256)
    assert storage.requests.count("GET model.mge") == 1
    second = await server.run(model=known)
    assert second.exit_code == 0
    assert second.received == end.received
    assert storage.requests.count("GET model.mge") == 1


async def test_the_end_names_the_command_of_each_kind_of_pass(started, server):
    plan = Plan(preset="custom", clean=True, profiled=2)
    end = await server.run(plan=plan, fill=True, options={"bin_io_dump": True})
    assert end.exit_code == 0
    clean, profiled, dump = end.command.splitlines()
    assert "--profile" not in clean and "--input" in clean
    assert "--profile=profile.json" in profiled
    assert "--bin_io_dump" in dump


WAITED = """
open("passes", "a").write("1")
if len(open("passes").read()) in DISTURBED:
    say("=== threads waited 90.000 ms for a core in 400.000 ms; 70 involuntary switches; "
        "0 ms of 900.000 ms given to other machines; in all iterations threads waited 95.000 ms")
else:
    say("=== threads waited 0.400 ms for a core in 400.000 ms; 3 involuntary switches")
"""


def run_waiting_in(*passes: int) -> str:
    return fake_run(WAITED.replace("DISTURBED", repr(passes)))


async def test_each_pass_is_judged_by_how_long_it_waited_for_a_core(device, server, storage):
    device.start(run_waiting_in(2))
    plan = Plan(preset="custom", clean=True, clean_min_s=0.001, profiled=2)
    assert (await server.run(plan=plan)).exit_code == 0
    clean, first, second = read_measurement(storage).passes
    assert (first.waited_ms, first.watched_ms, first.switches) == (90.0, 400.0, 70)
    assert (first.whole_waited_ms, first.whole_ms) == (95.0, 900.0)
    # the host of the tests may give cores to other machines meanwhile
    codes = [
        [item.code for item in record.disturbances if item.code != "stolen"]
        for record in (clean, first, second, read_measurement(storage))
    ]
    assert codes == [[], ["waited"], [], []]
    assert first.disturbances[0].details[0] == Note.of("waited", percent=22)


async def test_a_run_with_more_threads_than_cores_is_not_judged_by_its_own_waiting(
    device, server, storage
):
    device.start(run_waiting_in(1))
    assert (await server.run(options={"multithread": 250})).exit_code == 0
    (only,) = read_measurement(storage).passes
    assert only.waited_ms == 90.0
    assert "waited" not in [item.code for item in only.disturbances]


@pytest.mark.parametrize("option", ["cpu", "cuda"])
async def test_other_processes_on_a_gpu_disturb_only_runs_that_may_use_it(
    device, server, storage, monkeypatch, option
):
    answers = {
        "nvmlInit": None,
        "nvmlShutdown": None,
        "nvmlDeviceGetCount": 1,
        "nvmlDeviceGetHandleByIndex": 0,
        "nvmlDeviceGetName": "NVIDIA H200",
        "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=1, usedGpuMemory=None)],
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, lambda *_, answer=answer: answer)
    device.install(fake_run())
    (runtime,) = device.runtimes.values()
    info = RuntimeInfo(version="1.13.0", kind="binary", builds=("cuda",))
    device.runtimes = {"1.13.0": replace(runtime, info=info)}
    device.start()
    assert (await server.run(options={option: True})).exit_code == 0
    found = [item.code for item in read_measurement(storage).disturbances]
    assert found == (["gpu_shared"] if option == "cuda" else [])


async def test_the_threads_of_a_binary_are_sampled(device, server, storage):
    device.start(fake_run("import time\ntime.sleep(0.3)"))
    assert (await server.run()).exit_code == 0
    (only,) = read_measurement(storage).passes
    assert only.watched_ms > 250
    assert only.waited_ms is not None
