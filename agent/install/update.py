"""The agent of a bundle replaces itself with what its server serves, between two attempts.

Where it runs from a clone it only says that it is behind: that is its owner's to change. The other
half is `agent.install.launch`, which starts the new file, and goes back if it is not welcomed.
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
from pydantic import BaseModel, ConfigDict, ValidationError

from agent import __version__

log = logging.getLogger(__name__)

#: what the launcher understands as "start me again"; the same number stands there
EXIT_CODE = 75
#: tells that a launcher watches, and in which folder
HOME_VARIABLE = "MGW_AGENT_HOME"
#: between two tries, after one that failed
AGAIN_S = 600.0
_MANIFEST = "/agent/manifest.json"
_TIMEOUT_S = 60.0
_IDLE_POLL_S = 1.0


class Replaced(Exception):
    """The new file is in place: end, so that the launcher starts it."""


class UpdateFailed(RuntimeError):
    """This time; the text says why."""


class _File(BaseModel):
    model_config = ConfigDict(extra="ignore")

    name: str
    sha256: str
    size_bytes: int


class _Manifest(BaseModel):
    model_config = ConfigDict(extra="ignore")

    version: str
    files: dict[str, _File]


class Updater:
    """`held` are the attempts that the server knows to be here: nothing is done beside them."""

    def __init__(self, server: str, held: Callable[[], Sized], *, allowed: bool) -> None:
        home = os.environ.get(HOME_VARIABLE, "")
        self._home = Path(home) if home else None
        self._server, self._held, self._allowed = server, held, allowed
        self._wanted = ""
        self._offered = asyncio.Event()

    @property
    def can_update(self) -> bool:
        """Whether a launcher watches, and the owner lets it."""
        return self._allowed and self._home is not None

    @property
    def is_on_trial(self) -> bool:
        """Whether the launcher goes back to the agent before, should this one end."""
        return self._home is not None and (self._home / "trial").exists()

    @property
    def is_busy(self) -> bool:
        return bool(self._held())

    def welcomed(self, served: str) -> None:
        """The server took this agent, and serves version `served` (empty: it does not say)."""
        if self._home is not None:
            (self._home / "trial").unlink(missing_ok=True)
        if not is_other(served):
            return
        if not self.can_update:
            log.warning(
                "agent_behind own=%s served=%s update: run the line of the device's page again, or "
                "pull the repository",
                __version__,
                served,
            )
            return
        self._wanted = served
        self._offered.set()

    async def run(self) -> None:
        """Wait for a version to be offered, then for peace, then replace. Raises Replaced."""
        while True:
            await self._offered.wait()
            try:
                await self.replace()
            except (UpdateFailed, OSError) as problem:
                log.warning("update_failed wanted=%s text=%s", self._wanted, problem)
                await asyncio.sleep(AGAIN_S)

    async def replace(self) -> None:
        """Do it as soon as no attempt is here. Raises Replaced, UpdateFailed, OSError."""
        if self._home is None:
            raise UpdateFailed("no launcher watches")
        while True:
            await self._idle()
            file = await self._look()
            draft = self._home / "agent.pyz.new"
            try:
                await self._download(file, draft)
            except _Disturbed:
                continue
            # from here on nothing waits, so no order can come between
            if not self.is_busy:
                _put_in_place(self._home, draft)
                log.info("update_installed own=%s served=%s", __version__, self._wanted)
                raise Replaced

    async def _idle(self) -> None:
        """Wait until no attempt is here; a second more does not matter."""
        while self.is_busy:  # noqa: ASYNC110 - attempts end in many places, and none should tell us
            await asyncio.sleep(_IDLE_POLL_S)

    async def _look(self) -> _File:
        kind = f"linux-{platform.machine()}-cp3{sys.version_info[1]}"
        try:
            async with httpx2.AsyncClient(timeout=_TIMEOUT_S) as client:
                answer = await client.get(self._server + _MANIFEST)
            manifest = _Manifest.model_validate_json(answer.content)
        except (httpx2.HTTPError, ValidationError) as error:
            raise UpdateFailed(f"the manifest: {type(error).__name__}") from error
        file = manifest.files.get(kind)
        if file is None or not is_other(manifest.version):
            raise UpdateFailed(f"the site has no other agent for {kind}")
        pause_s = _refused_for(self._home, file.sha256)
        if pause_s > 0:
            raise UpdateFailed(f"{manifest.version} did not work; next try in {pause_s:.0f} s")
        return file

    async def _download(self, file: _File, draft: Path) -> None:
        """Fetch and check. Raises UpdateFailed, _Disturbed as soon as an attempt is here."""
        digest = hashlib.sha256()
        url = f"{self._server}/agent/{file.name}"
        try:
            async with (
                httpx2.AsyncClient(timeout=_TIMEOUT_S) as client,
                client.stream("GET", url) as answer,
            ):
                if answer.status_code != 200:
                    raise UpdateFailed(f"{file.name}: {answer.status_code}")
                with draft.open("wb") as target:
                    async for piece in answer.aiter_bytes(1 << 16):
                        if self.is_busy:
                            raise _Disturbed
                        digest.update(piece)
                        target.write(piece)
        except httpx2.HTTPError as error:
            raise UpdateFailed(f"{file.name}: {type(error).__name__}") from error
        if digest.hexdigest() != file.sha256:
            raise UpdateFailed(f"{file.name} arrived damaged")


class _Disturbed(Exception):
    """An attempt came: it has precedence."""


def is_other(served: str) -> bool:
    """Whether the server serves another build than this one; a clone goes by its number alone."""
    if not served or served == __version__:
        return False
    return "+" in __version__ or served.partition("+")[0] != __version__


def _put_in_place(home: Path, draft: Path) -> None:
    """The old file stays for the launcher; each step leaves an agent that can be started."""
    with draft.open("rb") as file:
        os.fsync(file.fileno())
    draft.chmod(0o700)
    agent, before, spare = home / "agent.pyz", home / "agent.before.pyz", home / "agent.spare"
    spare.unlink(missing_ok=True)
    os.link(agent, spare)
    spare.replace(before)
    (home / "trial").touch()
    draft.replace(agent)


def _refused_for(home: Path | None, sha256: str) -> float:
    """Seconds for which the launcher wants this file left alone."""
    if home is None:
        return 0.0
    try:
        refused = json.loads((home / "refused.json").read_bytes())
        return float(refused["until"]) - time.time() if refused["sha256"] == sha256 else 0.0
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0
