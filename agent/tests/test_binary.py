"""Compiled load_and_runs of several versions (fakes), run by the whole agent."""

import pytest

from agent.config import RuntimeEntry
from agent.inventory import take_inventory
from agent.protocol.measurement import Measurement
from agent.protocol.messages import EndReason
from agent.protocol.plan import Plan
from agent.runtimes.tests.fake_load_and_run import install_fake
from agent.tests.fakes import explanation
from testdata import DATA


@pytest.fixture
def binary(device, server, storage):
    """Give the device a load_and_run of this version, and the storage a model and its input."""
    storage.files["model.mge"] = (DATA / "models" / "tiny.mge").read_bytes()
    storage.files["data.npy"] = (DATA / "inputs" / "tiny" / "data.npy").read_bytes()

    def install(version: str):
        path = install_fake(device.folder, version, "-nocuda")
        entry = RuntimeEntry(version=version, kind="binary", path=str(path))
        device.runtimes = take_inventory([entry])
        device.start()
        return device.runtimes[version]

    return install


@pytest.mark.parametrize("version", ["1.6.0", "1.7.0", "1.9.1", "1.10.0", "1.11.1", "1.13.0"])
async def test_all_versions_run_the_same_plan(binary, server, storage, version):
    runtime = binary(version)
    assert runtime.info.problem is None
    assert "iter" in runtime.info.flags
    plan = Plan(preset="custom", clean=True, profiled=2)
    data = (storage.input_file("data.npy", "data"),)
    end = await server.run(runtime=version, plan=plan, data=data, options={"iter": 4}, fill=True)
    assert (end.reason, end.exit_code, end.detail) == (EndReason.EXITED, 0, "")
    measurement = Measurement.model_validate_json(storage.stored["measurement.json"])
    kept = [record for record in measurement.passes if record.kept]
    assert [record.kind for record in kept] == ["clean", "profiled", "profiled"]
    assert [len(record.e2e_ms) for record in kept] == [4, 4, 4]
    assert {"profile.json", "profile-2.json"} <= set(storage.stored)


async def test_an_option_that_the_version_lacks_is_refused_by_name(binary, server):
    binary("1.9.1")
    end = await server.run(runtime="1.9.1", options={"optimize_for_inference": True})
    assert end.reason is EndReason.REFUSED
    assert "optimize_for_inference" in explanation(end)
