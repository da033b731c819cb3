"""Functions that create script tasks and devices that run scripts, for tests."""

import hashlib
import io
import zipfile
from typing import Any

from accounts.models import User
from agent.protocol.messages import FEATURE_SCRIPTS, Hello, Script
from tasks.models import Task
from tasks.submission.request import FileRequest
from tasks.tests.make import FACTS, MD5, RUNTIMES, make_task, make_waiting_task, make_worker
from workers.models import Worker

PROGRAM = b"import megengine\nprint('step')\n"
#: hello of an agent whose owner allows scripts
SCRIPTS_HELLO = Hello(
    agent_version="1", facts=FACTS, runtimes=RUNTIMES, features=frozenset({FEATURE_SCRIPTS})
)


def program_file(**changes: Any) -> FileRequest:
    return FileRequest(
        **{"kind": "model", "name": "train.py", "size_bytes": 11, "md5": MD5} | changes
    )


def make_script_worker(name: str = "", **extra: Any) -> Worker:
    """Create a device on which its owner and an administrator allow scripts."""
    return make_worker(name, **{"allows_scripts": True, "offers_scripts": True} | extra)


def make_script_task(
    owner: User | None = None, worker: Worker | None = None, *, waits: bool = True, **changes: Any
) -> Task:
    """Create a script task that waits, or with waits=False one in state initiated."""
    worker = worker or Worker.objects.filter(allows_scripts=True).first() or make_script_worker()
    request = {"script": Script(arguments=("--steps", "3")), "files": [program_file()]} | changes
    return (make_waiting_task if waits else make_task)(owner, worker, **request)


def script_request(content: bytes = PROGRAM, name: str = "train.py", **changes: Any) -> dict:
    """Return the body of a request that creates a script task."""
    body = {"runtime_version": "1.13.0", "script": {}, "files": [file_entry(content, name)]}
    if "worker" not in changes and "target" not in changes:
        body["worker"] = make_script_worker().pk
    return body | changes


def zip_of(**files: str) -> bytes:
    """Return a zip of Python files: `zip_of(pkg__main="1")` contains pkg/main.py."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/") + ".py", text)
    return buffer.getvalue()


def file_entry(content: bytes, name: str, kind: str = "model") -> dict[str, Any]:
    """Return the entry of a file in the body of a request that creates a task."""
    digest = hashlib.md5(content).hexdigest()
    return {"kind": kind, "name": name, "size_bytes": len(content), "md5": digest}
