"""Measuring: the passes of a plan one after the other, with nothing of ours in between.

What is found is kept raw: each process's times as load_and_run logged them, one profile for each
profiled pass, and the state of the device before, during and after.
"""

import asyncio
import logging
import shlex
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent.execution.artifacts import keep_profile, make_folders
from agent.execution.plan import Pass, Recipe
from agent.execution.runner import RunResult
from agent.execution.spool import Folder
from agent.inventory import Runtime
from agent.link.log_tail import PASS_HEAD
from agent.protocol import EndReason, Plan, Start
from agent.protocol.artifacts import profile_name
from agent.protocol.inputs import InputError
from agent.protocol.measurement import PassRecord
from agent.protocol.run_log import RunLog, TensorInfo, parse_log

log = logging.getLogger(__name__)

#: the profile's name in the process's folder
MADE_PROFILE = "profile.json"
#: of a pass's output, as much is read for its times
_READ_BYTES = 64 << 20
#: models whose inputs are known
_MOST_KNOWN = 256
#: a clean pass that is too short is made anew with more iterations, but not for ever
_MOST_TRIES = 4

_CANNOT_TELL = (
    "This load_and_run does not tell what the model's inputs are, so nothing can be made up for "
    "them. Give each input, or choose a MegEngine version from 1.5 on."
)

#: runs one command to its end
Runner = Callable[[list[str]], Awaitable[RunResult]]
#: makes files for load_and_run's `--input` of what the order and the model want
Feeder = Callable[[tuple[TensorInfo, ...] | None], Mapping[str, str]]


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
    notes: list[str] = field(default_factory=list)

    @property
    def kept(self) -> int:
        """How many passes count: without those that only prepared others."""
        return sum(record.kept for record in self.records)

    def commands(self) -> tuple[str, ...]:
        return tuple(shlex.join(record.argv) for record in self.records)

    def distinct_commands(self) -> tuple[str, ...]:
        """One of each kind of pass that counts, and the last one, which may have failed.

        Of a script all: each run records something else.
        """
        counted = [record for record in self.records if record.kept] or self.records
        by_kind = {
            (record.kind, record.number if record.kind == "script" else 0): record
            for record in (*counted, *self.records[-1:])
        }
        return tuple(shlex.join(record.argv) for record in by_kind.values())


class KnownInputs:
    """What this agent has learnt of models' inputs, so that it need not ask a process again.

    Inputs by the model's MD5 and size and the runtime that told them; the oldest go first.
    """

    def __init__(self) -> None:
        self._found: OrderedDict[tuple[str, int, str, bool], tuple[TensorInfo, ...]] = OrderedDict()

    def get(self, order: Start) -> tuple[TensorInfo, ...] | None:
        """None if nothing is known; an empty tuple is a model without inputs."""
        entry = self._found.get(_key(order))
        if entry is not None:
            self._found.move_to_end(_key(order))
        return entry

    def put(self, order: Start, inputs: tuple[TensorInfo, ...]) -> None:
        self._found[_key(order)] = inputs
        while len(self._found) > _MOST_KNOWN:
            self._found.popitem(last=False)


def _key(order: Start) -> tuple[str, int, str, bool]:
    # mdl has no words for some dtypes, lite has
    return (order.model.md5, order.model.size_bytes, order.runtime, bool(order.options.get("lite")))


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

    async def run(self, run: Runner, feed: Feeder) -> None:
        """Do the plan. Raises PassFailed, and what `run` and `feed` raise."""
        tensors, plan = await self._wanted(run), self._order.plan
        has_inputs = self._order.inputs or any(not file.option for file in self._order.data)
        if tensors is None and self._order.fill and not has_inputs:
            raise InputError("shape", _CANNOT_TELL)
        inputs = await asyncio.to_thread(feed, tensors)
        if plan.clean:
            await self._clean(run, inputs)
        for number in range(1, plan.profiled + 1):
            step = self._recipe.profiled(inputs, MADE_PROFILE, first=self._is_first())
            await self._pass(run, step, profile_name(number))
        if self._recipe.dumps:
            await self._pass(run, self._recipe.dump(inputs))

    def promised(self) -> list[str]:
        """Options whose artifacts must be there when all passes have succeeded."""
        return self._recipe.promised()

    def expected(self) -> int:
        """How many processes the plan is, if none must be made anew."""
        return self._order.plan.passes + self._recipe.dumps

    async def _wanted(self, run: Runner) -> tuple[TensorInfo, ...] | None:
        """The model's inputs, asked of a process of its own if this agent does not know them yet.

        None if they need not or cannot be known: then what is not given is not filled.
        """
        known = self._known.get(self._order)
        if known is not None or not self._order.fill or not self._runtime.tells_inputs:
            return known
        run_log = await self._pass(run, self._recipe.inspect())
        if not run_log.outputs:
            return None  # every model has an output: what was printed was not understood
        self._known.put(self._order, run_log.inputs)
        return run_log.inputs

    def _is_first(self) -> bool:
        return all(record.kind == "inspect" for record in self.done.records)

    async def _clean(self, run: Runner, inputs: Mapping[str, str]) -> None:
        iterations = self._recipe.first_iterations
        for tries_left in range(_MOST_TRIES - 1, -1, -1):
            step = self._recipe.clean(inputs, first=self._is_first(), iterations=iterations)
            run_log = await self._pass(run, step)
            iterations = 0 if run_log.trials else self._recipe.enough_iterations(run_log)
            if not iterations:
                return
            if not tries_left or iterations <= len(run_log.e2e_ms):
                self.done.notes.append(_too_short(run_log, self._order.plan))
                return
            # it only told how many iterations are needed
            last = self.done.records[-1]
            self.done.records[-1] = last.model_copy(update={"kept": False})

    def _say(self, step: Pass) -> int:
        """Head the pass in the log, if there are several; return where its own output begins.

        It is counted as for the page: of the plan's passes, a clean one that is made anew once.
        """
        count, output = self.expected(), self._folder.output
        if not self.done.records and count == 1 and step.kind != "inspect":
            return 0
        place = f"{PASS_HEAD}{self.done.kept + 1} of {count}"
        tries = sum(record.kind == "clean" for record in self.done.records) + 1
        what = f"clean, try {tries}" if step.kind == "clean" and tries > 1 else step.kind
        with output.open("ab") as sink:
            sink.write(f"{place} ({what}): load_and_run {shlex.join(step.arguments)}\n".encode())
            return sink.tell()

    async def _pass(self, run: Runner, step: Pass, profile: str = "") -> RunLog:
        """Run one process and note what it did; `profile` is what its profile is kept as."""
        number = len(self.done.records) + 1
        command = self._runtime.command_line(step.arguments)
        output = self._folder.output
        offset = self._say(step)
        started_at = time.time()
        (self._folder.work / MADE_PROFILE).unlink(missing_ok=True)
        make_folders(self._folder, step.arguments)
        result = await run(command)
        run_log = parse_log(_read(output, offset))
        self.done.run_s += result.run_s
        kept = bool(profile) and _succeeded(result)
        if kept:
            kept = keep_profile(self._folder, step.profile, profile)
        self.done.records.append(
            PassRecord(
                number=number,
                kind=step.kind,
                kept=step.kind != "inspect",
                argv=tuple(command),
                started_at=started_at,
                run_s=result.run_s,
                start_s=_start_s(result, run_log),
                exit_code=result.exit_code,
                load_ms=run_log.load_ms,
                prepare_ms=run_log.prepare_ms,
                warmup_ms=run_log.warmup_ms,
                e2e_ms=run_log.e2e_ms,
                host_ms=run_log.host_ms,
                profile=profile if kept else "",
            )
        )
        if not _succeeded(result):
            raise PassFailed(result, result.reason)
        if profile and not kept:
            raise PassFailed(result, EndReason.NO_PROFILE, "load_and_run wrote no profile")
        if step.kind == "clean" and not run_log.e2e_ms and not run_log.trials:
            raise PassFailed(result, EndReason.NOTHING_TIMED, "load_and_run timed no iteration")
        return run_log


def _too_short(run_log: RunLog, plan: Plan) -> str:
    seconds = sum(run_log.e2e_ms) / 1000
    return (
        f"The pass without profiling lasted {seconds:.2f} s in {len(run_log.e2e_ms)} iterations, "
        f"less than the {plan.clean_min_s:g} s that the plan asks for."
    )


def _succeeded(result: RunResult) -> bool:
    return result.reason is EndReason.EXITED and result.exit_code == 0 and not result.limit


def _start_s(result: RunResult, run_log: RunLog) -> float:
    """What the process did beside iterations: imports, load, compile, its end."""
    iterations_s = (sum(run_log.warmup_ms) + sum(run_log.e2e_ms)) / 1000
    return max(result.run_s - iterations_s, 0.0)


def _read(output: Path, offset: int) -> str:
    try:
        with output.open("rb") as source:
            source.seek(offset)
            return source.read(_READ_BYTES).decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""
