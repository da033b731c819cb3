"""A world of two simulated devices for tests, and what a user does in it."""

import asyncio
import contextlib
import hashlib
import io
import os
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import httpx2
import numpy as np

from bench.chaos.load import MODEL, SHAPE
from bench.chaos.rows import Rows, TaskRow
from bench.chaos.world import VERSION, World
from webprofile.embedded.layout import open_home
from webprofile.embedded.lock import HomeLock

AGENTS = ("sim-1", "sim-2")
#: a deadline with room: a machine that tests something else too is slow
SOON_S = 120.0


class SmallWorld:
    """Lives in a thread with a loop of its own; tests call it from theirs."""

    def __init__(self, home: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        layout = open_home(home)
        self._lock = HomeLock(layout.lock)
        self.world = self._do(self._make(layout))
        self.rows = Rows(layout.database)

    async def _make(self, layout) -> World:
        world = World(layout, self._lock, "", agents=AGENTS, bare=True)
        await world.bring_up()
        return world

    def close(self) -> None:
        self._do(self.world.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._lock.release()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def on_link(self, name: str, what: str) -> None:
        """Do something to a link: cut, silence, heal."""
        done = threading.Event()
        act = getattr(self.world.links[name], what)
        self._loop.call_soon_threadsafe(lambda: (act(), done.set()))
        done.wait()

    def signal(self, part: str, number: int) -> None:
        """Send a signal to all processes of a part."""
        os.killpg(self.world.supervisor.pid(part), number)

    def runs(self) -> list[int]:
        """Processes of load_and_run that this world's agents run now."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                is_run = any(word.endswith(b"replay.py") for word in words[1:3])
                if is_run and str(self.world.layout.home).encode() in os.fsencode(
                    os.readlink(entry / "cwd")
                ):
                    found.append(int(entry.name))
        return found

    # -- a user ---------------------------------------------------------------------------------

    def submit(self, iterations: int, **place: Any) -> int:
        """Ask for a task whose run takes `iterations` times 10 ms; return its number."""
        data = io.BytesIO()
        np.save(data, np.ones(SHAPE, np.float32))
        contents = [MODEL.read_bytes(), data.getvalue()]
        kinds = [{"kind": "model", "name": "m.mge"}, {"kind": "data", "name": "d.npy"}]
        files = [
            {**kind, "size_bytes": len(content), "md5": hashlib.md5(content).hexdigest()}
            for kind, content in zip(kinds, contents, strict=True)
        ]
        files[1]["input"] = "data"
        place = {"runtime_version": VERSION, **place} if "worker" in place else place
        if "worker" in place:
            self.until(lambda: self.get(f"workers/{place['worker']}/")["is_online"])
        body = {**place, "options": {"iter": iterations}, "files": files}
        made = self.post("tasks/", {**body, "plan": {"preset": "quick"}})
        for target, content in zip(made["uploads"], contents, strict=True):
            headers = target["headers"]
            sent = httpx2.put(target["url"], headers=headers, content=content, trust_env=False)
            assert sent.is_success
        self.post(f"tasks/{made['id']}/submit/", {})
        return int(made["id"])

    def get(self, path: str) -> dict[str, Any]:
        return self._ask("GET", path)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._ask("POST", path, json=body)

    def _ask(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.world.users[0]}"}
        url = f"{self.world.site.address}/api/v1/{path}"
        answer = httpx2.request(method, url, headers=headers, trust_env=False, timeout=60, **more)
        assert answer.is_success, answer.text
        return dict(answer.json())

    def task(self, number: int) -> TaskRow:
        return self.rows.tasks()[number]

    def until(self, what: Callable[[], object]) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + SOON_S
        while not what():
            assert time.monotonic() < deadline, self.rows.tasks()
            time.sleep(0.1)


@contextlib.contextmanager
def small_world(home: Path) -> Iterator[SmallWorld]:
    world = SmallWorld(home)
    try:
        world.until(lambda: world.rows.introduced() == len(AGENTS))
        yield world
    finally:
        world.close()
