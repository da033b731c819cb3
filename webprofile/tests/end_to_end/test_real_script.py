"""End-to-end test of a script in the sandbox: submitted, run by an agent, shown as a trace."""

import json
import time
from pathlib import Path

import pytest

from webprofile.operations.devserver.demo import DemoError, Visitor
from webprofile.tests.end_to_end.runs import page, submit, watch, whole
from webprofile.tests.needs import need
from webprofile.tests.site import EmbeddedSite

pytestmark = [pytest.mark.exhaustive, pytest.mark.megengine, pytest.mark.embedded]

TRAIN = """
import socket, sys
import numpy as np
import megengine as mge
import megengine.functional as F

print("steps", sys.argv[1:], open("table.csv").read().strip())
try:
    socket.create_connection(("1.1.1.1", 53), 2)
except OSError as error:
    print("no network:", type(error).__name__)
x = mge.tensor(np.ones((64, 64), "float32"))
for _ in range(3):
    x = F.matmul(x, x) / 64
print("sum", x.sum().numpy())
"""


#: a health check may run first
APPLIED_WITHIN_S = 120.0


@pytest.fixture(scope="module")
def scripts_offered(site: EmbeddedSite, visitor: Visitor) -> None:
    """The owner of the device allows scripts in the configuration of the running agent."""
    need("bubblewrap")
    assert "neither an administrator nor" in visitor.get("/workers/local/").text
    (config,) = site.home.rglob("agent.toml")
    config.write_text(config.read_text() + "\n[scripts]\nallow = true\n")
    deadline = time.monotonic() + APPLIED_WITHIN_S
    while "no administrator of this site does" not in visitor.get("/workers/local/").text:
        assert time.monotonic() < deadline, "the agent did not read its configuration again"
        time.sleep(0.5)


@pytest.fixture(scope="module")
def scripts_allowed(site: EmbeddedSite, scripts_offered: None) -> None:
    """An administrator allows scripts on the device, too."""
    assert "local can run scripts" in site.manage("workers", "allow-scripts", "local")


def send(visitor: Visitor, script: dict[str, object], program: Path, *data: Path) -> int:
    files = {program: {"kind": "model"}, **{path: {"kind": "data"} for path in data}}
    return submit(visitor, files, script=script)


@pytest.mark.usefixtures("scripts_offered")
def test_script_runs_once_allowed_and_its_trace_is_shown(visitor: Visitor, tmp_path, request):
    train, table = tmp_path / "train.py", tmp_path / "table.csv"
    train.write_text(TRAIN)
    table.write_text("1,2\n")
    script = {
        "arguments": "--name 'two words'",
        "formats": ["chrome_timeline.json", "memory_flow.svg"],
    }
    with pytest.raises(DemoError, match="not allowed to run scripts on local"):
        send(visitor, script, train, table)
    request.getfixturevalue("scripts_allowed")
    task = send(visitor, script, train, table)
    states, log = watch(visitor, task)
    assert states[-1] == "succeeded", (states, log, page(visitor, task))
    assert "steps ['--name', 'two words'] 1,2" in log
    assert "no network: OSError" in log
    result = whole(visitor, task)
    assert 'id="trace-phases"' in result or 'id="trace-lanes"' in result
    assert "MatrixMul" in result
    trace = json.loads(visitor.artifact(task, "chrome_timeline.json"))
    assert trace["traceEvents"]
    assert b"<svg" in visitor.artifact(task, "memory_flow.svg")[:400]


@pytest.mark.usefixtures("scripts_allowed")
def test_failed_script_shows_its_error(visitor: Visitor, tmp_path):
    program = tmp_path / "train.py"
    program.write_text("import megengine\nraise ValueError('no <loss> today')\n")
    task = send(visitor, {}, program)
    states, _ = watch(visitor, task)
    text = page(visitor, task)
    assert states[-1] == "failed"
    assert "The script ended with an error." in text
    assert "ValueError: no &lt;loss&gt; today" in text
