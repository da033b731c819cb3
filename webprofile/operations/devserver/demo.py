"""Demo that acts as a user: log in, upload a model, follow the task and print the result.

Arguments of `python -m webprofile.operations.devserver.demo`: ADDRESS ACCOUNT_FILE EXAMPLES_FOLDER
MEGENGINE_PYTHON
"""

import hashlib
import html
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
from websockets.sync.client import connect
from websockets.typing import Origin

from webprofile.operations.devserver.device import VERSION, WORKER
from webprofile.operations.devserver.layout import REPOSITORY
from webprofile.terminal.output import complain, say

TASKS = "/api/v1/tasks/"
ROWS = 10
OPTIONS = {"iter": 10, "warmup_iter": 1}
#: long enough for the first start, which also measures the machine's peak performance
ONLINE_WITHIN_S = 180.0
FINISHED_WITHIN_S = 600.0


class DemoError(Exception):
    """The demo failed; the text is the server's message."""


def make_sample(folder: Path, python: str) -> tuple[Path, Path]:
    """Return a model and its input, which MegEngine creates at the first call."""
    model, data = folder / "resnet.mge", folder / "data.npy"
    if not (model.exists() and data.exists()):
        say("Creating the sample model with MegEngine.")
        script = REPOSITORY / "examples" / "make_resnet.py"
        result = subprocess.run(
            [python, str(script), str(folder)], capture_output=True, text=True, check=False
        )
        if result.returncode:
            raise DemoError(f"examples/make_resnet.py failed:\n{result.stderr.strip()[-2000:]}")
    return model, data


class Visitor:
    """HTTP client with the session of a user."""

    def __init__(self, address: str, account: dict[str, str]) -> None:
        self.address = address
        # ignores proxies of the environment, as the site is on this machine
        self._client = httpx2.Client(base_url=address, trust_env=False, timeout=60.0)
        page = self._client.get("/accounts/login/").text
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        if token is None:
            raise DemoError("The login page has no form.")
        form = {"login": account["email"], "password": account["password"]}
        self._client.post("/accounts/login/", data={**form, "csrfmiddlewaretoken": token[1]})
        if "sessionid" not in self._client.cookies:
            raise DemoError(f"{account['email']} cannot log in.")

    def close(self) -> None:
        self._client.close()

    def get(self, path: str) -> httpx2.Response:
        return _checked(self._client.get(path))

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {"X-CSRFToken": self._client.cookies["csrftoken"], "Accept": "application/json"}
        answer: dict[str, Any] = _checked(
            self._client.post(path, json=body, headers=headers)
        ).json()
        return answer

    def put(self, url: str, headers: dict[str, str], file: Path) -> None:
        """Upload a file to object storage with a presigned URL, without the site's cookies."""
        response = httpx2.put(url, headers=headers, content=file.read_bytes(), trust_env=False)
        if response.status_code != 200:
            text = f"{response.status_code} {response.text[:300]}"
            raise DemoError(f"Storage refused {file.name}: {text}")

    def artifact(self, task: int, name: str) -> bytes:
        """Download an artifact of a task's last attempt."""
        answer = self._client.get(f"/tasks/{task}/artifacts/{name}", follow_redirects=False)
        if not answer.is_redirect:
            _checked(answer)
        file = httpx2.get(answer.headers["Location"], trust_env=False, timeout=60.0)
        return bytes(_checked(file).content)

    def device(self, name: str = WORKER, within_s: float = ONLINE_WITHIN_S) -> dict[str, Any]:
        """Wait until a device is online and return it. Raises DemoError."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            for worker in self.get("/api/v1/workers/").json()["results"]:
                if worker["name"] == name and worker["is_online"]:
                    device: dict[str, Any] = worker
                    return device
            time.sleep(0.5)
        raise DemoError(f"The device {name!r} did not come online within {within_s:.0f} s.")

    def events(self, task: int) -> Iterator[dict[str, Any]]:
        """Yield the live messages of the task's page."""
        cookies = "; ".join(f"{name}={value}" for name, value in self._client.cookies.items())
        url = f"{self.address.replace('http', 'ws', 1)}/ws/tasks/{task}/"
        headers = {"Cookie": cookies}
        deadline = time.monotonic() + FINISHED_WITHIN_S
        origin = Origin(self.address)
        with connect(url, origin=origin, additional_headers=headers, proxy=None) as socket:
            socket.send(json.dumps({"after": 0, "log_after": 0}))
            while True:
                try:
                    yield json.loads(socket.recv(timeout=deadline - time.monotonic()))
                except TimeoutError:
                    message = f"The task did not end within {FINISHED_WITHIN_S:.0f} s."
                    raise DemoError(message) from None


def announce(
    visitor: Visitor, worker: int, files: Mapping[Path, Mapping[str, str]], **body: Any
) -> dict[str, Any]:
    """Create a task; return the API's response with its number and the presigned uploads.

    files: the API fields of each file
    """
    described = [{**file_fields(path), **use} for path, use in files.items()]
    body = {"worker": worker, "runtime_version": VERSION, **body, "files": described}
    return visitor.post(TASKS, body)


def upload(visitor: Visitor, task: dict[str, Any], files: Iterable[Path]) -> None:
    """Put the files of a task into storage."""
    for target, file in zip(task["uploads"], files, strict=True):
        visitor.put(target["url"], target["headers"], file)


def confirm(visitor: Visitor, task: dict[str, Any]) -> None:
    """Submit the task after all files are uploaded."""
    visitor.post(f"{TASKS}{task['id']}/submit/", {})


def follow(visitor: Visitor, task: int) -> None:
    """Print the task's states until it has ended. Raises DemoError unless it succeeded."""
    started, last_status = time.monotonic(), None
    for event in visitor.events(task):
        if event["type"] != "event":
            continue
        status = visitor.get(f"/api/v1/tasks/{task}/").json()["status"]
        if status != last_status:
            last_status = status
            say(f"  {time.monotonic() - started:6.2f} s  {status}")
        if event["state"] == "finished":
            if event["outcome"] != "succeeded":
                raise DemoError(f"Task {task} {event['outcome']}: {explain(visitor, task)}")
            return


def explain(visitor: Visitor, task: int) -> str:
    """Return the text of the task's page, without HTML tags."""
    page = visitor.get(f"/tasks/{task}/status/").text
    return " ".join(html.unescape(re.sub(r"<[^<>]*>", " ", page)).split())


def table(visitor: Visitor, task: int, rows: int) -> str:
    """Return the first rows of a task's result in the format of profile_analyze."""
    profile = visitor.get(f"/api/v1/profiles/of-task/{task}/").json()["id"]
    return visitor.get(f"/api/v1/profiles/{profile}/text/?rows={rows}").text


def run(address: str, account: Path, examples: Path, python: str) -> None:
    """Run the demo. Raises DemoError, or an exception of the network."""
    visitor = Visitor(address, json.loads(account.read_text(encoding="utf-8")))
    try:
        model, data = make_sample(examples, python)
        worker = visitor.device()
        files = {model: {"kind": "model"}, data: {"kind": "data", "input": "data"}}
        task = announce(visitor, worker["id"], files, options=OPTIONS)
        upload(visitor, task, files)
        confirm(visitor, task)
        say(f"Task {task['id']}: {model.name} on {worker['name']}, MegEngine {VERSION}")
        follow(visitor, task["id"])
        say(table(visitor, task["id"], ROWS))
        say(f"The result is at {address}/tasks/{task['id']}/")
    finally:
        visitor.close()


def file_fields(file: Path) -> dict[str, Any]:
    """Return the API fields of a new file: name, size and MD5."""
    content = file.read_bytes()
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    return {"name": file.name, "size_bytes": len(content), "md5": digest}


def _checked(answer: httpx2.Response) -> httpx2.Response:
    """Return a successful response; raise DemoError with the server's message otherwise."""
    if answer.is_success:
        return answer
    try:
        problem = answer.json()
        text = " ".join([problem["detail"], *(item["detail"] for item in problem["errors"])])
    except (ValueError, KeyError, TypeError):
        text = answer.text[:300]
    raise DemoError(f"{answer.request.method} {answer.url.path}: {answer.status_code} {text}")


def main() -> int:
    address, account, examples, python = sys.argv[1:]
    try:
        run(address, Path(account), Path(examples), python)
    except (DemoError, httpx2.HTTPError, OSError) as error:
        complain(f"The demo failed. {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
