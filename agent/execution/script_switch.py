"""Takes up what the owner changes below [scripts] while the agent runs; the rest waits for a start.

Whoever forbids scripts wants that now, and whoever allows them would look for the cause of a
refusal in all places but a process that read its configuration days ago.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from agent.config import ConfigError, load_config
from agent.execution.manager import Attempts
from agent.execution.script_rules import ScriptRules

log = logging.getLogger(__name__)

_Stamp = tuple[int, int, int]


class ScriptSwitch:
    """`look` tries what scripts need, `greet_again` tells the server. `file` is agent.toml."""

    def __init__(
        self,
        file: Path,
        attempts: Attempts,
        *,
        look: Callable[[], ScriptRules],
        greet_again: Callable[[], Awaitable[None]],
        every_s: float,
    ) -> None:
        self._file, self._attempts, self._every_s = file, attempts, every_s
        self._look, self._greet_again = look, greet_again
        self._seen: _Stamp | None = None
        self._wanted = attempts.scripts.allowed

    async def run(self) -> None:
        """Watch the file until cancelled."""
        while True:
            await asyncio.sleep(self._every_s)
            self._read()
            if self._wanted != self._attempts.scripts.allowed:
                await self._follow()

    def _read(self) -> None:
        """What the file wants; one that cannot be used changes nothing, for it may be half written.

        A look at a file's stamp and a file of 2 kB once in a while need no thread.
        """
        try:
            status = self._file.stat()
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            if stamp == self._seen:
                return
            self._seen = stamp
            self._wanted = load_config(self._file).allow_scripts
        except (ConfigError, OSError) as exc:
            log.warning("config_not_taken_up text=%r", str(exc))

    async def _follow(self) -> None:
        """Forbid at once; allow when nothing runs, since trying the sandbox costs a second."""
        rules = ScriptRules()
        if self._wanted:
            if self._attempts.held():
                return
            rules = await asyncio.to_thread(self._look)
        self._attempts.scripts = rules
        log.info("scripts_changed allowed=%s", rules.allowed)
        await self._greet_again()
