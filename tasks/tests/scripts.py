"""Plain functions that make scripts, and devices that run them, for tests."""

import hashlib
import io
import zipfile
from typing import Any

from accounts.models import User
from agent.protocol import FEATURE_SCRIPTS, Hello, Script
from tasks.models import Task
from tasks.submission.request import FileRequest
from tasks.tests.make import FACTS, MD5, RUNTIMES, make_task, make_waiting_task, make_worker
from workers.models import Worker

PROGRAM = b"import megengine\nprint('step')\n"
#: of an agent whose owner allows scripts
SCRIPTS_HELLO = Hello(
    agent_version="1", facts=FACTS, runtimes=RUNTIMES, features=frozenset({FEATURE_SCRIPTS})
)


def program_file(**changes: Any) -> FileRequest:
    return FileRequest(
        **{"kind": "model", "name": "train.py", "size_bytes": 11, "md5": MD5} | changes
    )


def make_script_worker(name: str = "", **extra: Any) -> Worker:
    """A device on which both its owner and an administrator let scripts run."""
    return make_worker(name, **{"allows_scripts": True, "offers_scripts": True} | extra)


def make_script_task(
    owner: User | None = None, worker: Worker | None = None, *, waits: bool = True, **changes: Any
) -> Task:
    """A waiting task of a script, or one in state initiated."""
    worker = worker or Worker.objects.filter(allows_scripts=True).first() or make_script_worker()
    request = {"script": Script(arguments=("--steps", "3")), "files": [program_file()]} | changes
    return (make_waiting_task if waits else make_task)(owner, worker, **request)


def zip_of(**files: str) -> bytes:
    """A zip whose entries are called as the arguments, with `__` for a slash, and end in .py."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/") + ".py", text)
    return made.getvalue()


def announced(content: bytes, name: str, kind: str = "model") -> dict[str, Any]:
    """A file as requests announce it."""
    digest = hashlib.md5(content).hexdigest()
    return {"kind": kind, "name": name, "size_bytes": len(content), "md5": digest}
