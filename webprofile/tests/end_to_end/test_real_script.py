"""A script in a real sandbox: asked for as the page does, run by a real agent, shown as a trace."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from webprofile.embedded.demo import DemoError, Visitor
from webprofile.tests.end_to_end.runs import described, page, watch
from webprofile.tests.needs import need
from webprofile.tests.site import Site, running_site

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


#: a health check may come first
TAKEN_UP_WITHIN_S = 120.0


@pytest.fixture(scope="module")
def scripted(tmp_path_factory, megengine_python: str) -> Iterator[Site]:
    """A site whose only device runs scripts, allowed by its owner while its agent runs."""
    need("bubblewrap")
    home = tmp_path_factory.mktemp("scripts")
    with running_site(home) as site:
        with site.login() as visitor:
            visitor.device()  # by then its agent's configuration is written
            assert "neither an administrator nor" in visitor.get("/workers/local/").text
            (config,) = home.rglob("agent.toml")
            config.write_text(config.read_text() + "\n[scripts]\nallow = true\n")
            deadline = time.monotonic() + TAKEN_UP_WITHIN_S
            while "no administrator of this site has" not in visitor.get("/workers/local/").text:
                assert time.monotonic() < deadline, "the agent did not take it up"
                time.sleep(0.5)
        yield site


def send(visitor: Visitor, folder: Path, script: dict[str, object], *names: str) -> int:
    """Do what the page does with files of this folder, the program first; the task's number."""
    paths = [folder / name for name in names]
    kinds = ["model", *["data"] * (len(names) - 1)]
    body = {
        "worker": visitor.device()["id"],
        "runtime_version": "1.13.0",
        "script": script,
        "files": [described(kind, path) for kind, path in zip(kinds, paths, strict=True)],
    }
    made = visitor.post("/api/v1/tasks/", body)
    for target, path in zip(made["uploads"], paths, strict=True):
        visitor.put(target["url"], target["headers"], path)
    visitor.post(f"/api/v1/tasks/{made['id']}/submit/", {})
    return int(made["id"])


def test_a_script_is_refused_until_it_is_allowed_and_then_runs_and_shows_its_trace(
    scripted: Site, tmp_path
):
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "table.csv").write_text("1,2\n")
    script = {
        "arguments": "--name 'two words'",
        "formats": ["chrome_timeline.json", "memory_flow.svg"],
    }
    with scripted.login() as visitor:
        visitor.device()
        with pytest.raises(DemoError, match="does not let users run scripts on local"):
            send(visitor, tmp_path, script, "train.py", "table.csv")
        assert "local may run scripts" in scripted.manage("workers", "allow-scripts", "local")
        task = send(visitor, tmp_path, script, "train.py", "table.csv")
        states, log = watch(visitor, task)
        assert states[-1] == "succeeded", (states, log, page(visitor, task))
        assert "steps ['--name', 'two words'] 1,2" in log
        assert "no network: OSError" in log
        result = visitor.get(f"/tasks/{task}/result/").text
        assert 'id="trace-phases"' in result or 'id="trace-lanes"' in result
        assert "MatrixMul" in result
        trace = json.loads(visitor.artifact(task, "chrome_timeline.json"))
        assert trace["traceEvents"]
        assert b"<svg" in visitor.artifact(task, "memory_flow.svg")[:400]


def test_a_script_that_fails_says_why(scripted: Site, tmp_path):
    scripted.manage("workers", "allow-scripts", "local")
    (tmp_path / "train.py").write_text("import megengine\nraise ValueError('no <loss> today')\n")
    with scripted.login() as visitor:
        task = send(visitor, tmp_path, {}, "train.py")
        states, _ = watch(visitor, task)
        shown = page(visitor, task)
        assert states[-1] == "failed"
        assert "The script ended with an error." in shown
        assert "ValueError: no &lt;loss&gt; today" in shown
