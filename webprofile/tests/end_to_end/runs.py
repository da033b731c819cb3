"""Send a task to a running site and watch it until it ends."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from webprofile.operations.devserver.demo import Visitor, announce, confirm, upload
from webprofile.operations.devserver.device import WORKER


def submit(
    visitor: Visitor, files: Mapping[Path, Mapping[str, str]], *, on: str = WORKER, **body: Any
) -> int:
    """Submit a task as the page does; return its id. `files`: path -> fields of its upload."""
    task = announce(visitor, visitor.device(on)["id"], files, **body)
    upload(visitor, task, files)
    confirm(visitor, task)
    return int(task["id"])


def send(visitor: Visitor, model: Path, data: Mapping[str, Path], **options: Any) -> int:
    """Submit a model with the plan "quick"; return its id."""
    inputs = {path: {"kind": "data", "input": name} for name, path in data.items()}
    return submit(
        visitor,
        {model: {"kind": "model"}} | inputs,
        options={"iter": 3} | options,
        plan={"preset": "quick"},
    )


def watch(visitor: Visitor, task: int) -> tuple[list[str], str]:
    """Follow a task until it ends; return its states as shown on the page, and its log."""
    states, log = [], ""
    for message in visitor.events(task):
        if message["type"] == "log":
            log += message["text"]
        elif message["type"] == "event":
            states.append(message["outcome"] or message["state"])
            if message["state"] == "finished":
                if states[-1] != "succeeded":
                    # printed so that pytest shows the reason if the test fails
                    print(re.sub(r"<[^>]*>|\s+", " ", page(visitor, task)), log[-2000:], sep="\n")
                return states, log
    raise AssertionError("the socket ended before the task")


def submit_form(visitor: Visitor, path: str, **fields: str) -> str:
    """Send a form of a page; return the next page."""
    fields["csrfmiddlewaretoken"] = visitor._client.cookies["csrftoken"]
    return visitor._client.post(path, data=fields, follow_redirects=True).text


def page(visitor: Visitor, task: int) -> str:
    return visitor.get(f"/tasks/{task}/").text


def whole(visitor: Visitor, task: int) -> str:
    """Return the page of a task with a result, followed by its other views."""
    text = page(visitor, task)
    tabs = re.findall(r'<a class="tabs__tab" href="([^"]+)" data-view', text)
    return "".join([text, *(visitor.get(f"{tab}?part=1").text for tab in tabs)])
