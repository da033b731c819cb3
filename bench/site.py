"""Submit tasks to a site as a browser does, and wait for them."""

import time
from pathlib import Path
from typing import Any

from agent.conftest import find_megengine_python
from webprofile.operations.devserver import demo
from webprofile.operations.devserver.demo import Visitor

#: what the settings have by default: an idle device measures its scatter and makes A/A runs. Sites
#: of tests make none
OWN_RUNS = {"SCATTER_RUNS": "5", "AA_RUN_S": "20"}


def sample(folder: Path) -> tuple[Path, Path]:
    """Write the sample model and its input; return their paths."""
    folder.mkdir()
    return demo.make_sample(folder, find_megengine_python())


def send(
    visitor: Visitor,
    worker: int,
    model: Path,
    data: Path,
    *,
    iterations: int,
    plan: dict[str, Any] | None = None,
) -> tuple[int, float]:
    """Submit a task, with one profiled process by default.

    Returns its id and the time of `time.perf_counter()` just before its files were confirmed.
    """
    plan = plan or {"preset": "custom", "profiled": 1}
    files = {model: {"kind": "model"}, data: {"kind": "data", "input": "data"}}
    task = demo.announce(visitor, worker, files, options={"iter": iterations}, plan=plan)
    demo.upload(visitor, task, files)
    begin = time.perf_counter()
    demo.confirm(visitor, task)
    return task["id"], begin


def wait_for_end(visitor: Visitor, task: int) -> str:
    """Follow a task until it succeeds and return its log. Raises AssertionError if it fails."""
    log = ""
    for message in visitor.events(task):
        if message["type"] == "log":
            log += message["text"]
        elif message.get("state") == "finished":
            assert message["outcome"] == "succeeded", message
            return log
    raise AssertionError("the socket ended before the task")
