"""Measuring: the passes of a plan one after the other, with nothing of ours in between.

What is found is kept raw: each process's times as load_and_run logged them, one profile for each
profiled pass, and the state of the device before, during and after.
"""

import logging
import shlex
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent.inventory import Runtime
from agent.known_inputs import KnownInputs
from agent.passes import Pass, Recipe
from agent.protocol import EndReason, Start
from agent.protocol.artifacts import profile_name
from agent.protocol.measurement import PassRecord
from agent.protocol.run_log import RunLog, TensorInfo, parse_log
from agent.results import keep_profile
from agent.runner import RunResult
from agent.spool import Folder
from agent.tail import PASS_HEAD

log = logging.getLogger(__name__)

#: the profile's name in the process's folder
MADE_PROFILE = "profile.json"
#: of a pass's output, as much is read for its times
_READ_BYTES = 64 << 20

#: runs one command to its end
Runner = Callable[[list[str]], Awaitable[RunResult]]
#: makes files for load_and_run's `--input` of what the order and the model want
Feeder = Callable[[tuple[TensorInfo, ...] | None], Awaitable[Mapping[str, str]]]


class PassFailed(Exception):
    """A pass did not do what it was for, so the attempt ends."""

    def __init__(self, result: RunResult, reason: EndReason, detail: str = "") -> None:
        self.result, self.reason, self.detail = result, reason, detail
        super().__init__(reason.value)


@dataclass
class Passes:
    """What was run so far."""

    records: list[PassRecord] = field(default_factory=list)
    run_s: float = 0.0

    def commands(self) -> tuple[str, ...]:
        return tuple(shlex.join(record.argv) for record in self.records)


class Measuring:
    """One attempt's passes. `done` may be read at any time, also after a failure."""

    def __init__(
        self,
        order: Start,
        recipe: Recipe,
        folder: Folder,
        known: KnownInputs,
        runtime: Runtime,
    ) -> None:
        self.done = Passes()
        self._order, self._recipe, self._folder = order, recipe, folder
        self._known, self._runtime = known, runtime
        self._inputs: Mapping[str, str] = {}
        self._profiles = 0

    async def run(self, run: Runner, feed: Feeder) -> None:
        """Do the plan. Raises PassFailed, and what `run` and `feed` raise."""
        wanted = self._known.get(self._order)
        given = self._order.inputs or any(not file.option for file in self._order.data)
        if wanted is None and self._order.fill and not given:
            wanted = await self._ask(run)
        self._inputs = await feed(wanted)
        plan = self._order.plan
        if plan.clean:
            await self._clean(run, feed)
        for _ in range(plan.profiled):
            await self._profiled(run, feed)
        if self._recipe.dumps:
            await self._pass(run, self._recipe.dump(self._inputs))

    def promised(self) -> list[str]:
        """Options whose artifacts must be there when all passes have succeeded."""
        return self._recipe.promised()

    def expected(self) -> int:
        """How many processes the plan is, if none must be made anew."""
        return self._order.plan.passes + self._recipe.dumps

    async def _ask(self, run: Runner) -> tuple[TensorInfo, ...]:
        found = await self._pass(run, self._recipe.inspect())
        self._known.put(self._order, found.inputs)
        return found.inputs

    async def _clean(self, run: Runner, feed: Feeder) -> None:
        tried = await self._first_or_next(
            run,
            feed,
            lambda first, ask: self._recipe.clean(
                self._inputs, first=first, ask=ask, iterations=self._recipe.first_iterations
            ),
        )
        more = self._recipe.enough_iterations(tried)
        if more:
            self._drop_last()
            again = self._recipe.clean(self._inputs, first=False, ask=False, iterations=more)
            await self._pass(run, again)

    async def _profiled(self, run: Runner, feed: Feeder) -> None:
        self._profiles += 1
        await self._first_or_next(
            run,
            feed,
            lambda first, ask: self._recipe.profiled(
                self._inputs, MADE_PROFILE, first=first, ask=ask
            ),
        )

    async def _first_or_next(
        self, run: Runner, feed: Feeder, make: Callable[[bool, bool], Pass]
    ) -> RunLog:
        """Run a pass; the first one also finds out which inputs nothing feeds.

        With those it is made anew: figures with what memory happened to hold are none.
        """
        first = not any(record.kind != "inspect" for record in self.done.records)
        ask = first and self._order.fill and self._known.get(self._order) is None
        found = await self._pass(run, make(first, ask))
        if not ask:
            return found
        self._known.put(self._order, found.inputs)
        missing = {each.name for each in found.inputs} - set(self._inputs)
        if not missing:
            return found
        self._drop_last()
        self._inputs = await feed(found.inputs)
        return await self._pass(run, make(True, False))

    def _drop_last(self) -> None:
        """The last pass only told how to do it: nothing of it counts."""
        last = self.done.records[-1]
        self.done.records[-1] = last.model_copy(update={"kept": False, "profile": ""})
        if last.profile:
            (self._folder.result / last.profile).unlink(missing_ok=True)

    async def _pass(self, run: Runner, each: Pass) -> RunLog:
        number = len(self.done.records) + 1
        command = self._runtime.command_line(each.arguments)
        output = self._folder.output
        offset = _say(output, number, self.expected(), each)
        started_at = time.time()
        (self._folder.work / MADE_PROFILE).unlink(missing_ok=True)
        result = await run(command)
        found = parse_log(_read(output, offset))
        self.done.run_s += result.run_s
        name = profile_name(self._profiles) if each.profile else ""
        kept = bool(name) and _succeeded(result)
        if kept:
            kept = keep_profile(self._folder, each.profile, name)
        self.done.records.append(
            PassRecord(
                number=number,
                kind=each.kind,
                kept=each.kind != "inspect",
                argv=tuple(command),
                started_at=started_at,
                run_s=result.run_s,
                start_s=_start_s(result, found),
                exit_code=result.exit_code,
                load_ms=found.load_ms,
                prepare_ms=found.prepare_ms,
                warmup_ms=found.warmup_ms,
                e2e_ms=found.e2e_ms,
                host_ms=found.host_ms,
                profile=name if kept else "",
            )
        )
        if not _succeeded(result):
            raise PassFailed(result, result.reason)
        if name and not kept:
            raise PassFailed(result, EndReason.NO_PROFILE, "load_and_run wrote no profile")
        return found


def _succeeded(result: RunResult) -> bool:
    return result.reason is EndReason.EXITED and result.exit_code == 0 and not result.limit


def _start_s(result: RunResult, found: RunLog) -> float:
    """What the process did beside iterations: imports, load, compile, its end."""
    iterations_s = (sum(found.warmup_ms) + sum(found.e2e_ms)) / 1000
    return max(result.run_s - iterations_s, 0.0)


def _say(output: Path, number: int, expected: int, each: Pass) -> int:
    """Head the pass in the log, if there are several; return where its own output begins."""
    if number == 1 and expected == 1 and each.kind != "inspect":
        return 0
    line = f"{PASS_HEAD}{number} ({each.kind}): load_and_run {shlex.join(each.arguments)}\n"
    with output.open("ab") as sink:
        sink.write(line.encode())
        return sink.tell()


def _read(output: Path, offset: int) -> str:
    try:
        with output.open("rb") as source:
            source.seek(offset)
            return source.read(_READ_BYTES).decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""
