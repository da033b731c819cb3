"""Scripts that compile their training step, which MegEngine 1.13 cannot do under its Profiler."""

from collections import defaultdict
from pathlib import Path

import pytest

from agent.protocol.messages import EndReason

pytestmark = pytest.mark.megengine

EXAMPLES = Path(__file__).parents[2] / "examples"
PAUSED = "[profiling] a function of trace() trains here"

COMPILED = """\
import numpy as np
import megengine as mge
import megengine.functional as F
import megengine.module as M
from megengine.autodiff import GradManager
from megengine.jit import trace
from megengine.optimizer import SGD

net = M.Sequential(M.Conv2d(3, 4, 3), M.ReLU())
manager = GradManager().attach(net.parameters())
optimizer = SGD(net.parameters(), lr=0.1)
batch = mge.tensor(np.ones((1, 3, 8, 8), "float32"))

def step(batch):
    with manager:
        loss = net(batch).mean()
        manager.backward(loss)
    optimizer.step().clear_grad()
    return loss

run = trace(step, symbolic=SYMBOLIC)
"""


def check_balance(events: list[dict]) -> None:
    """Check that each begin event has an end event, in chronological order, per thread."""
    begun, times = defaultdict(list), {}
    for event in events:
        if event["ph"] not in "BE":
            continue
        thread = event["tid"]
        # MegEngine rounds times of a device twice: an end may stand 1 ns before its begin
        assert event["ts"] > times.get(thread, 0.0) - 0.01
        times[thread] = event["ts"]
        if event["ph"] == "B":
            begun[thread].append(event["name"])
        else:
            assert begun[thread].pop() == event["name"]
    assert not any(begun.values())


async def test_a_compiled_training_step_runs_unrecorded_and_the_rest_is_recorded(
    script_device, server
):
    program = COMPILED + "for _ in range(4):\n    F.exp(run(batch)).numpy()\nprint('trained')\n"
    for symbolic in ("False", "True"):
        end = await script_device.run(program.replace("SYMBOLIC", symbolic))
        assert (end.reason, end.exit_code, end.detail) == (EndReason.EXITED, 0, "")
        text = server.log_text()
        assert text.count(PAUSED) == 1
        assert text.endswith("trained\n")
        events = script_device.trace()
        names = [event["name"] for event in events if event["ph"] == "B"]
        assert names.count("StopProfile") == 1
        # one for each step on the thread of the device, so no part is missing
        threads = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
        on_device = [
            event
            for event in events
            if event["ph"] == "B" and event["name"] == "EXP" and ":" in threads[event["tid"]]
        ]
        assert len(on_device) == 4
        check_balance(events)


async def test_the_largest_part_of_an_interrupted_memory_flow_is_kept(script_device, server):
    program = COMPILED.replace("SYMBOLIC", "True") + "for _ in range(3):\n    run(batch).numpy()\n"
    end = await script_device.run(program, formats=("memory_flow.svg",))
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    assert "the largest part between two pauses is kept" in server.log_text()
    assert b"</svg>" in server.storage.stored["memory_flow.svg"]


async def test_a_profiler_of_the_program_pauses_for_compiled_steps_too(script_device):
    own = """\
from megengine.utils.profiler import Profiler
for _ in range(2):
    run(batch)
with Profiler("mine"):
    for _ in range(3):
        F.exp(run(batch)).numpy()
"""
    end = await script_device.run(COMPILED.replace("SYMBOLIC", "True") + own)
    assert (end.reason, end.exit_code, end.detail) == (EndReason.EXITED, 0, "")
    check_balance(script_device.trace())
    assert "Convolution" not in {event["name"] for event in script_device.trace()}


@pytest.mark.exhaustive
async def test_the_training_example_runs_unchanged(script_device, server):
    program = (EXAMPLES / "profile_training.py").read_text()
    network = (EXAMPLES / "make_resnet.py").read_text()
    assert "\nSIZE = 96\n" in network
    # it trains on smaller pictures, in a tenth of the time
    server.storage.files["make_resnet.py"] = network.replace("SIZE = 96", "SIZE = 32").encode()
    end = await script_device.run(program, data=("make_resnet.py",), arguments=("out",))
    assert (end.reason, end.exit_code, end.detail) == (EndReason.EXITED, 0, "")
    assert "out/static.json" in server.log_text()
    assert any("Conv" in event["name"] for event in script_device.trace())
