"""Users: each asks for a task, uploads its files, perhaps cancels it, and waits for its end.

They behave as `webprofile submit` does: what fails for a moment is said again, with the same
Idempotency-Key, and a broken upload gets new addresses.
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

from bench.chaos.plan import AGENTS
from bench.chaos.rows import TaskRow
from bench.chaos.settling import Watch
from bench.chaos.world import VERSION, World

MODEL = Path(__file__).resolve().parents[2] / "tasks" / "health.mge"
SHAPE = (1, 8, 32, 32)
#: what is wished -> how often
WISHES = {"good": 74, "cancel": 12, "bad-model": 8, "bad-data": 6}
#: run time of a simulated device: 0.2 to 3 s
ITERATIONS = (20, 300)
_AGAIN_S = 0.4
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass
class RequestedTask:
    """A task and what its user wanted. `refused`: the site's word when it was submitted."""

    wish: str
    id: int
    is_submitted: bool = False
    is_cancelled: bool = False
    refused: str = ""

    def deserves(self, row: TaskRow) -> bool:
        """Whether it ended as its input and its user deserve."""
        end = (row.outcome, row.reason)
        if self.wish == "bad-model":
            return end == ("failed", "model_invalid")
        if self.wish == "bad-data":
            return row.outcome == "failed" and row.reason.startswith("input_")
        if self.is_cancelled:
            # who cancels what has just ended keeps the result
            return row.outcome in ("cancelled", "succeeded")
        return row.outcome == "succeeded"


@dataclass
class Load:
    """All users."""

    world: World
    seed: int
    watch: Watch
    requested: dict[int, RequestedTask] = field(default_factory=dict)
    again: int = 0

    def __post_init__(self) -> None:
        self.ending = asyncio.Event()

    async def run(self, places: int) -> None:
        """Keep `places` tasks alive until `ending` is set and all of them have ended."""
        client = httpx2.AsyncClient(trust_env=False, timeout=20.0)
        async with client as http, asyncio.TaskGroup() as group:
            for place in range(places):
                group.create_task(self._user(http, place))

    async def _user(self, http: httpx2.AsyncClient, place: int) -> None:
        drawing = random.Random(f"{self.seed} {place}")
        token = self.world.users[place % len(self.world.users)]
        talk = _Talk(self, http, token)
        number = 0
        while not self.ending.is_set():
            number += 1
            await talk.one_task(drawing, f"chaos-{self.seed}-{place}-{number}")


class _Talk:
    """One user's requests."""

    def __init__(self, load: Load, http: httpx2.AsyncClient, token: str) -> None:
        self._load, self._http = load, http
        self._site = f"{load.world.site.address}/api/v1"
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}

    async def one_task(self, drawing: random.Random, key: str) -> None:
        wish = drawing.choices(list(WISHES), list(WISHES.values()))[0]
        contents = _contents(wish, drawing)
        body = _body(contents, drawing)
        pause_s = drawing.uniform(0, 4)
        answer = await self._post("tasks/", body, key=key)
        if answer.status_code != 201:
            # its device is away: a user chooses another one
            await asyncio.sleep(_AGAIN_S)
            return
        task = answer.json()
        requested = self._load.requested[task["id"]] = RequestedTask(wish, task["id"])
        await self._upload(requested, task["uploads"], contents)
        if wish == "cancel" and requested.is_submitted:
            await asyncio.sleep(pause_s)
            await self._post(f"tasks/{requested.id}/cancel/", {})
            requested.is_cancelled = True
        await self._load.watch.ended(requested.id)

    async def _upload(
        self, requested: RequestedTask, targets: list[dict[str, Any]], contents: list[bytes]
    ) -> None:
        """Put the files and submit, until the site has them or will not have them."""
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
            self._load.again += 1

    async def _submit(self, task: int) -> str:
        """Why the task is not in the queue; empty if it is. Half of them go as one of several."""
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
            await asyncio.sleep(_AGAIN_S)
            return False
        if not answer.is_success:
            await asyncio.sleep(_AGAIN_S)
        return answer.is_success

    async def _post(self, path: str, body: dict[str, Any], *, key: str = "") -> httpx2.Response:
        """The first answer that is final. All that is posted here may be said twice."""
        headers = {**self._headers, **({"Idempotency-Key": key} if key else {})}
        while True:
            try:
                answer = await self._http.post(f"{self._site}/{path}", json=body, headers=headers)
            except httpx2.TransportError:
                self._load.again += 1
            else:
                in_progress = b"idempotency_in_progress" in answer.content
                if answer.status_code not in _PASSING and not in_progress:
                    return answer
                self._load.again += 1
            await asyncio.sleep(_AGAIN_S)


def _contents(wish: str, drawing: random.Random) -> list[bytes]:
    """The model and its data."""
    model = MODEL.read_bytes()
    numbers = np.random.default_rng(drawing.getrandbits(32)).random(SHAPE, np.float32)
    data = io.BytesIO()
    np.save(data, numbers)
    content = data.getvalue()
    if wish == "bad-model":
        model = drawing.randbytes(len(model))
    if wish == "bad-data":
        content = content[: drawing.randrange(20, len(content))]
    return [model, content]


def _body(contents: list[bytes], drawing: random.Random) -> dict[str, Any]:
    """Most tasks name their device, some take any that has the label."""
    names = ("health.mge", "data.npy")
    kinds: tuple[dict[str, str], ...] = ({"kind": "model"}, {"kind": "data", "input": "data"})
    files = [
        {**kind, "name": name, "size_bytes": len(content), "md5": _md5(content)}
        for kind, name, content in zip(kinds, names, contents, strict=True)
    ]
    worker, anywhere = drawing.choice(AGENTS), drawing.random() < 0.25
    iterations = drawing.randint(*ITERATIONS)
    place: dict[str, Any] = {"worker": worker, "runtime_version": VERSION}
    if anywhere:
        place = {"target": {"labels": {"chaos": "simulated"}}}
    body = {**place, "options": {"iter": iterations}, "files": files}
    return {**body, "plan": {"preset": "quick"}}


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
