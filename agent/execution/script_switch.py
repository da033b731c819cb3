"""Apply changes of the [scripts] section of the configuration while the agent runs.

An owner who forbids scripts expects an immediate effect, and one who allows them does not expect
that the agent needs a restart. Other sections are read only at the start.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from agent.config import ConfigError, load_config
from agent.execution.manager import AttemptManager
from agent.execution.script_rules import ScriptRules

log = logging.getLogger(__name__)

_Stamp = tuple[int, int, int]


class ScriptSwitch:
    """Follows changes of the configuration file `file`.

    `determine` returns the rules if scripts are allowed, after a trial of their sandbox.
    `greet_again` reports a change to the server.
    """

    def __init__(
        self,
        file: Path,
        attempts: AttemptManager,
        *,
        determine: Callable[[], ScriptRules],
        greet_again: Callable[[], Awaitable[None]],
        every_s: float,
    ) -> None:
        self._file, self._attempts, self._every_s = file, attempts, every_s
        self._determine, self._greet_again = determine, greet_again
        self._stamp: _Stamp | None = None
        self._is_allowed = attempts.scripts.allowed

    async def run(self) -> None:
        """Check the file periodically until cancelled."""
        while True:
            await asyncio.sleep(self._every_s)
            self._read()
            if self._is_allowed != self._attempts.scripts.allowed:
                await self._apply()

    def _read(self) -> None:
        """Read the file if it has changed; ignore an invalid one, which may be half written.

        Reading a stamp and occasionally a file of 2 kB is fast enough to need no thread.
        """
        try:
            status = self._file.stat()
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            if stamp == self._stamp:
                return
            self._stamp = stamp
            self._is_allowed = load_config(self._file).allow_scripts
        except (ConfigError, OSError) as exc:
            log.warning("config_not_taken_up text=%r", str(exc))

    async def _apply(self) -> None:
        """Forbid at once; allow when no attempt is held, since the sandbox trial takes a second."""
        rules = ScriptRules()
        if self._is_allowed:
            if self._attempts.held():
                return
            rules = await asyncio.to_thread(self._determine)
        self._attempts.scripts = rules
        log.info("scripts_changed allowed=%s", rules.allowed)
        await self._greet_again()
