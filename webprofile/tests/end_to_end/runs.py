"""Send a task to a running site and watch it until it ends."""

import hashlib
import re
from pathlib import Path

from webprofile.embedded.demo import Visitor


def described(kind: str, path: Path, **more: str) -> dict[str, object]:
    content = path.read_bytes()
    digest = hashlib.md5(content).hexdigest()
    return {"kind": kind, "name": path.name, "size_bytes": len(content), "md5": digest} | more


def send(visitor: Visitor, model: Path, data: dict[str, Path], **options) -> int:
    """Do what the page does; returns the task's number."""
    files = [described("model", model)]
    files += [described("data", path, input=name) for name, path in data.items()]
    body = {
        "worker": visitor.device()["id"],
        "runtime_version": "1.13.0",
        "options": {"iter": 3} | options,
        "plan": {"preset": "quick"},
        "files": files,
    }
    made = visitor.post("/api/v1/tasks/", body)
    for target, path in zip(made["uploads"], [model, *data.values()], strict=True):
        visitor.put(target["url"], target["headers"], path)
    visitor.post(f"/api/v1/tasks/{made['id']}/submit/", {})
    return int(made["id"])


def watch(visitor: Visitor, task: int) -> tuple[list[str], str]:
    """The states that the page shows until the end, and the log that it shows."""
    states, log = [], ""
    for message in visitor.events(task):
        if message["type"] == "log":
            log += message["text"]
        elif message["type"] == "event":
            states.append(message["outcome"] or message["state"])
            if message["state"] == "finished":
                if states[-1] != "succeeded":
                    # pytest shows why where a test did not expect it
                    print(re.sub(r"<[^>]*>|\s+", " ", page(visitor, task)), log[-2000:], sep="\n")
                return states, log
    raise AssertionError("the socket ended before the task")


def page(visitor: Visitor, task: int) -> str:
    return visitor.get(f"/tasks/{task}/").text
