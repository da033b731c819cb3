"""Simulated users who create tasks, upload their files, cancel some, and wait for their end.

They behave as `webprofile submit` does: a request that fails with a transient error is repeated
with the same Idempotency-Key, and a broken upload gets new addresses.
"""

import asyncio
import hashlib
import io
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import numpy as np

from bench.chaos.chaos_site import VERSION, ChaosSite
from bench.chaos.plan import AGENTS
from bench.chaos.rows import TaskSnapshot
from bench.chaos.settling import TaskMonitor

MODEL = Path(__file__).resolve().parents[2] / "tasks" / "health.mge"
SHAPE = (1, 8, 32, 32)
#: scenario -> relative frequency
SCENARIOS = {"good": 74, "cancel": 12, "bad-model": 8, "bad-data": 6}
#: run time of a simulated device: 0.2 to 3 s
ITERATIONS = (20, 300)
_RETRY_PAUSE_S = 0.4
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass
class RequestedTask:
    """A task with its scenario. `refused`: the error code if the site refused to queue it."""

    scenario: str
    id: int
    is_submitted: bool = False
    is_cancelled: bool = False
    refused: str = ""

    def has_expected_end(self, row: TaskSnapshot) -> bool:
        """Whether the task ended as its scenario requires."""
        end = (row.outcome, row.reason)
        if self.scenario == "bad-model":
            return end == ("failed", "model_refused")
        if self.scenario == "bad-data":
            return row.outcome == "failed" and row.reason.startswith("input_")
        if self.is_cancelled:
            # a task that ends just before it is cancelled keeps its result
            return row.outcome in ("cancelled", "succeeded")
        return row.outcome == "succeeded"


@dataclass
class LoadGenerator:
    """Runs all users. `retries`: how many requests had to be repeated."""

    chaos_site: ChaosSite
    seed: int
    monitor: TaskMonitor
    requested: dict[int, RequestedTask] = field(default_factory=dict)
    retries: int = 0

    def __post_init__(self) -> None:
        self.ending = asyncio.Event()

    async def run(self, places: int) -> None:
        """Keep `places` tasks alive until `ending` is set and all of them have ended."""
        client = httpx2.AsyncClient(trust_env=False, timeout=20.0)
        async with client as http, asyncio.TaskGroup() as group:
            for place in range(places):
                group.create_task(self._user(http, place))

    async def _user(self, http: httpx2.AsyncClient, place: int) -> None:
        rng = random.Random(f"{self.seed} {place}")
        token = self.chaos_site.users[place % len(self.chaos_site.users)]
        user_client = _UserClient(self, http, token)
        number = 0
        while not self.ending.is_set():
            number += 1
            await user_client.one_task(rng, f"chaos-{self.seed}-{place}-{number}")


class _UserClient:
    """The API requests of one user."""

    def __init__(self, load: LoadGenerator, http: httpx2.AsyncClient, token: str) -> None:
        self._load, self._http = load, http
        self._site = f"{load.chaos_site.site.address}/api/v1"
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}

    async def one_task(self, rng: random.Random, key: str) -> None:
        scenario = rng.choices(list(SCENARIOS), list(SCENARIOS.values()))[0]
        contents = _contents(scenario, rng)
        body = _body(contents, rng)
        pause_s = rng.uniform(0, 4)
        answer = await self._post("tasks/", body, key=key)
        if answer.status_code != 201:
            # its device is offline: the user chooses another one next time
            await asyncio.sleep(_RETRY_PAUSE_S)
            return
        task = answer.json()
        requested = self._load.requested[task["id"]] = RequestedTask(scenario, task["id"])
        await self._upload(requested, task["uploads"], contents)
        if scenario == "cancel" and requested.is_submitted:
            await asyncio.sleep(pause_s)
            await self._post(f"tasks/{requested.id}/cancel/", {})
            requested.is_cancelled = True
        await self._load.monitor.ended(requested.id)

    async def _upload(
        self, requested: RequestedTask, targets: list[dict[str, Any]], contents: list[bytes]
    ) -> None:
        """Upload the files and submit the task until the site accepts or refuses it."""
        while True:
            if all([await self._put(*upload) for upload in zip(targets, contents, strict=True)]):
                code = await self._submit(requested.id)
                if not code:
                    requested.is_submitted = True
                    return
                if not code.startswith("upload_"):
                    requested.refused = code
                    return
            renewed = await self._post(f"tasks/{requested.id}/uploads/", {})
            if not renewed.is_success:
                requested.refused = renewed.json().get("code", "")
                return
            targets = renewed.json()["uploads"]
            self._load.retries += 1

    async def _submit(self, task: int) -> str:
        """Submit a task and return the code of the refusal, or "".

        Every second task uses the endpoint that submits several tasks at once.
        """
        if task % 2:
            answer = await self._post(f"tasks/{task}/submit/", {})
            refusal = None if answer.is_success else answer.json()
        else:
            answer = await self._post("tasks/submit/", {"tasks": [task]})
            refusal = answer.json()["tasks"][0]["refusal"] if answer.is_success else answer.json()
        return str(refusal["code"]) if refusal else ""

    async def _put(self, target: dict[str, Any], content: bytes) -> bool:
        try:
            answer = await self._http.put(target["url"], headers=target["headers"], content=content)
        except httpx2.TransportError:
            await asyncio.sleep(_RETRY_PAUSE_S)
            return False
        if not answer.is_success:
            await asyncio.sleep(_RETRY_PAUSE_S)
        return answer.is_success

    async def _post(self, path: str, body: dict[str, Any], *, key: str = "") -> httpx2.Response:
        """Post until the response is final. Every request made here is safe to repeat."""
        headers = {**self._headers, **({"Idempotency-Key": key} if key else {})}
        while True:
            try:
                answer = await self._http.post(f"{self._site}/{path}", json=body, headers=headers)
            except httpx2.TransportError:
                self._load.retries += 1
            else:
                in_progress = b"idempotency_in_progress" in answer.content
                if answer.status_code not in _TRANSIENT and not in_progress:
                    return answer
                self._load.retries += 1
            await asyncio.sleep(_RETRY_PAUSE_S)


def _contents(scenario: str, rng: random.Random) -> list[bytes]:
    """Return the content of the model and of its data file."""
    model = MODEL.read_bytes()
    numbers = np.random.default_rng(rng.getrandbits(32)).random(SHAPE, np.float32)
    data = io.BytesIO()
    np.save(data, numbers)
    content = data.getvalue()
    if scenario == "bad-model":
        model = rng.randbytes(len(model))
    if scenario == "bad-data":
        content = content[: rng.randrange(20, len(content))]
    return [model, content]


def _body(contents: list[bytes], rng: random.Random) -> dict[str, Any]:
    """Return the request for a task: three of four name a device, the others a label."""
    names = ("health.mge", "data.npy")
    kinds: tuple[dict[str, str], ...] = ({"kind": "model"}, {"kind": "data", "input": "data"})
    files = [
        {**kind, "name": name, "size_bytes": len(content), "md5": _md5(content)}
        for kind, name, content in zip(kinds, names, contents, strict=True)
    ]
    worker, anywhere = rng.choice(AGENTS), rng.random() < 0.25
    iterations = rng.randint(*ITERATIONS)
    place: dict[str, Any] = {"worker": worker, "runtime_version": VERSION}
    if anywhere:
        place = {"target": {"labels": {"chaos": "simulated"}}}
    body = {**place, "options": {"iter": iterations}, "files": files}
    return {**body, "plan": {"preset": "custom", "profiled": 1}}


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
