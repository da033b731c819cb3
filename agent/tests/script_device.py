"""Scripts for a device that allows them, with a real MegEngine in a real sandbox."""

import io
import json
import textwrap
import zipfile
from typing import TYPE_CHECKING

from agent.inventory import LocalRuntime
from agent.protocol.messages import AttemptFinished, RuntimeInfo, Script
from agent.runtimes.command import command_for
from agent.tests.fakes import TOKEN, FakeServer, require_sandbox

if TYPE_CHECKING:
    from agent.tests.conftest import AgentDevice

TIMEOUT_S = 90.0

#: one step of training; prints its arguments and the loss
STEP = """\
import sys
import numpy as np
import megengine as mge
import megengine.functional as F
import megengine.module as M
from megengine.autodiff import GradManager
from megengine.optimizer import SGD

net = M.Sequential(M.Conv2d(3, 4, 3), M.ReLU())
manager = GradManager().attach(net.parameters())
optimizer = SGD(net.parameters(), lr=0.1)
with manager:
    loss = net(mge.tensor(np.ones((1, 3, 8, 8), "float32"))).mean()
    manager.backward(loss)
optimizer.step().clear_grad()
print("arguments", sys.argv, "loss is finite", bool(np.isfinite(loss.numpy())))
"""


def zip_bytes(files: dict[str, str | bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return file.getvalue()


class ScriptDevice:
    """Runs programs on the device and reads their results."""

    def __init__(self, device: "AgentDevice", server: FakeServer) -> None:
        self.device, self.server = device, server

    def store_program(self, program: str | bytes | dict[str, str | bytes]) -> str:
        """Store a program, a dict as zip; return its name."""
        name = "script.zip" if isinstance(program, dict) else "script.py"
        if isinstance(program, dict):
            program = zip_bytes(program)
        elif isinstance(program, str):
            program = textwrap.dedent(program).encode()
        self.server.storage.files[name] = program
        return name

    def make_order(self, program, data=(), timeout_s=60, **script):
        name = self.store_program(program)
        files = tuple(self.server.storage.input_file(name) for name in data)
        return self.server.make_order(
            model=self.server.storage.input_file(name),
            data=files,
            script=Script(**script),
            timeout_s=timeout_s,
        )

    async def run(self, program, **changes) -> AttemptFinished:
        # so that no file of an earlier run is taken for one of this run
        self.server.storage.stored.clear()
        order = self.make_order(program, **changes)
        await self.server.send(order)
        return await self.server.wait_for_end(order, TIMEOUT_S)

    def trace(self) -> list[dict]:
        return json.loads(self.server.storage.stored["chrome_timeline.json"])["traceEvents"]


def allow_scripts(device: "AgentDevice", python: str) -> None:
    """Turn the device into one with a wheel and bubblewrap, whose owner allows scripts."""
    info = RuntimeInfo(version="1.13.0", kind="wheel", python="3.10")
    device.runtimes = {
        "1.13.0": LocalRuntime(info, tuple(command_for("wheel", python)), path=python)
    }
    device.spool.mkdir(exist_ok=True)
    token = device.folder / "agent.token"
    token.write_text(TOKEN)
    device.sandbox = require_sandbox((device.spool,), (token,))
    device.changes |= {"allow_scripts": True, "warm": False}
