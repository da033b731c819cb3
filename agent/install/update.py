"""Update the agent's zipapp to the version that the server serves, between two attempts.

An agent that runs from a clone only logs that it is outdated, since its owner updates it. The
parent process, `agent.install.launch`, starts the new file, and restores the previous one if the
server does not accept it.
"""

import asyncio
import hashlib
import json
import logging
import os
import platform
import sys
import time
from collections.abc import Callable, Sized
from pathlib import Path

import httpx2
from pydantic import BaseModel, ValidationError

from agent import __version__
from agent.install.launch import HOME_VARIABLE

log = logging.getLogger(__name__)

#: pause after a failed update
AGAIN_S = 600.0
_MANIFEST = "/agent/manifest.json"
_TIMEOUT_S = 60.0
_IDLE_POLL_S = 1.0
#: how long a download may let an order wait: less than its lease on the server (30 s), or the task
#: would lose an attempt
_ORDER_S = 10.0


class Replaced(Exception):
    """The new file is in place. The agent must exit, so that the launcher starts it."""


class UpdateFailed(RuntimeError):
    """The update failed, and can succeed later; the text contains the cause."""


class _AgentFile(BaseModel):
    name: str
    sha256: str
    size_bytes: int


class _AgentManifest(BaseModel):
    version: str
    files: dict[str, _AgentFile]


class Updater:
    """Updates the agent while it has no attempts.

    `held` returns the attempts that the agent has announced to the server. `allowed`: the device's
    owner allows updates.
    """

    def __init__(self, server: str, held: Callable[[], Sized], *, allowed: bool) -> None:
        home = os.environ.get(HOME_VARIABLE, "")
        self._home = Path(home) if home else None
        self._server, self._held, self._allowed = server, held, allowed
        self._version = ""
        self._offered = asyncio.Event()
        #: an update waits until no attempt is held, is being downloaded, or is in place
        self._is_due = False
        #: the timeout of the download, while there is one
        self._limit: asyncio.Timeout | None = None

    @property
    def can_update(self) -> bool:
        """Whether the agent has a launcher, and the owner allows updates."""
        return self._allowed and self._home is not None

    @property
    def is_on_trial(self) -> bool:
        """Whether the launcher restores the previous agent if this one ends."""
        return self._home is not None and (self._home / "trial").exists()

    @property
    def is_busy(self) -> bool:
        return bool(self._held())

    def leaves_order(self) -> bool:
        """Return whether an order that has arrived is left to the next agent.

        The server repeats the order. If the download takes too long, the update is given up.
        """
        if self._limit is not None and self._limit.when() is None:
            self._limit.reschedule(asyncio.get_running_loop().time() + _ORDER_S)
        return self._is_due

    def welcomed(self, served: str) -> None:
        """Handle the server's Welcome, which confirms this agent and offers version `served`.

        `served` is empty if the server offers none.
        """
        if self._home is not None:
            (self._home / "trial").unlink(missing_ok=True)
        if not is_other(served):
            self._offered.clear()
            return
        if not self.can_update:
            log.warning(
                "agent_behind own=%s served=%s update: run the command on the device's page again, "
                "or pull the repository",
                __version__,
                served,
            )
            return
        self._version = served
        self._offered.set()

    async def run(self) -> None:
        """Wait for an offered version, then update; try again after failures. Raises Replaced."""
        while True:
            await self._offered.wait()
            try:
                await self.replace()
            except (UpdateFailed, OSError) as problem:
                log.warning("update_failed wanted=%s text=%s", self._version, problem)
                await asyncio.sleep(AGAIN_S)

    async def replace(self) -> None:
        """Replace the agent's file once it has no attempts; it accepts none meanwhile.

        Raises Replaced, UpdateFailed, OSError.
        """
        if self._home is None:
            raise UpdateFailed("the agent has no launcher")
        # orders are left to the next agent only if there is one
        await self._find_file(self._home)
        self._is_due = True
        try:
            while self.is_busy:  # noqa: ASYNC110 - attempts end in many places; polling is simpler
                await asyncio.sleep(_IDLE_POLL_S)
            draft = self._home / "agent.pyz.new"
            async with asyncio.timeout(None) as self._limit:
                # the site may have another one by now
                await self._download(await self._find_file(self._home), draft)
            _put_in_place(self._home, draft)
        except TimeoutError as error:
            self._is_due = False
            raise UpdateFailed(f"the download delayed an order by {_ORDER_S:g} s") from error
        except (UpdateFailed, OSError):
            self._is_due = False
            raise
        finally:
            self._limit = None
        log.info("update_installed own=%s served=%s", __version__, self._version)
        raise Replaced

    async def _find_file(self, home: Path) -> _AgentFile:
        """Return the manifest's entry for this kind of device. Raises UpdateFailed."""
        kind = f"linux-{platform.machine()}-cp3{sys.version_info[1]}"
        try:
            async with httpx2.AsyncClient(timeout=_TIMEOUT_S) as client:
                response = await client.get(self._server + _MANIFEST)
            manifest = _AgentManifest.model_validate_json(response.content)
        except (httpx2.HTTPError, ValidationError) as error:
            raise UpdateFailed(f"cannot read the manifest: {type(error).__name__}") from error
        file = manifest.files.get(kind)
        if file is None or not is_other(manifest.version):
            raise UpdateFailed(f"the site has no other agent for {kind}")
        pause_s = _refused_for(home, file.sha256)
        if pause_s > 0:
            raise UpdateFailed(f"{manifest.version} did not work; next try in {pause_s:.0f} s")
        return file

    async def _download(self, file: _AgentFile, draft: Path) -> None:
        """Download the file and verify its digest. Raises UpdateFailed."""
        digest = hashlib.sha256()
        url = f"{self._server}/agent/{file.name}"
        try:
            async with (
                httpx2.AsyncClient(timeout=_TIMEOUT_S) as client,
                client.stream("GET", url) as response,
            ):
                if response.status_code != 200:
                    raise UpdateFailed(f"{file.name}: {response.status_code}")
                with draft.open("wb") as target:
                    async for chunk in response.aiter_bytes(1 << 16):
                        digest.update(chunk)
                        target.write(chunk)
        except httpx2.HTTPError as error:
            raise UpdateFailed(f"{file.name}: {type(error).__name__}") from error
        if digest.hexdigest() != file.sha256:
            raise UpdateFailed(f"{file.name} is damaged")


def is_other(served: str) -> bool:
    """Return whether the server serves another build.

    A clone, whose version has no build suffix, compares only the version number.
    """
    if not served or served == __version__:
        return False
    return "+" in __version__ or served.partition("+")[0] != __version__


def _put_in_place(home: Path, draft: Path) -> None:
    """Replace the agent with the draft, and keep the old file for the launcher.

    After each step an agent can be started.
    """
    with draft.open("rb") as file:
        os.fsync(file.fileno())
    draft.chmod(0o700)
    agent, before, spare = home / "agent.pyz", home / "agent.before.pyz", home / "agent.spare"
    spare.unlink(missing_ok=True)
    os.link(agent, spare)
    spare.replace(before)
    (home / "trial").touch()
    draft.replace(agent)


def _refused_for(home: Path, sha256: str) -> float:
    """Return the seconds until a file that did not work may be tried again, 0 for other files."""
    try:
        refused = json.loads((home / "refused.json").read_bytes())
        return float(refused["until"]) - time.time() if refused["sha256"] == sha256 else 0.0
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0
