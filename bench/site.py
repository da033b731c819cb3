"""Requests of the benchmarks to a site, as a browser sends them."""

import time
from pathlib import Path
from typing import Any

from agent.conftest import find_megengine_python
from webprofile.operations.devserver import demo
from webprofile.operations.devserver.demo import Visitor


def sample(folder: Path) -> tuple[Path, Path]:
    """The sample model and its input."""
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
    """Send a task, quick without a plan; returns its number and when its files were about to be
    confirmed.
    """
    plan = plan or {"preset": "quick"}
    files = {model: {"kind": "model"}, data: {"kind": "data", "input": "data"}}
    task = demo.announce(visitor, worker, files, options={"iter": iterations}, plan=plan)
    demo.upload(visitor, task, files)
    begin = time.perf_counter()
    demo.confirm(visitor, task)
    return task["id"], begin


def wait_for_end(visitor: Visitor, sent: tuple[int, float]) -> str:
    """Follow a task until it succeeded; returns its log."""
    log = ""
    for message in visitor.events(sent[0]):
        if message["type"] == "log":
            log += message["text"]
        elif message.get("state") == "finished":
            assert message["outcome"] == "succeeded", message
            return log
    raise AssertionError("the socket ended before the task")
