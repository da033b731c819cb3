"""Run the passes of a plan one after the other, and collect their raw measurements.

The results are the times that load_and_run logged in each process, and one profile for each
profiled pass. Nothing is aggregated here.
"""

import asyncio
import dataclasses
import logging
import shlex
import statistics
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from agent.device.cores import oversubscription
from agent.device.disturbance import pass_disturbances
from agent.device.state import read_counters
from agent.execution.artifacts import keep_profile, make_folders
from agent.execution.memory import PeakMemory
from agent.execution.plan import (
    MADE_PROFILE,
    MOST_CLEAN_ITERATIONS,
    Pass,
    PassBuilder,
    PassKind,
)
from agent.execution.runner import RunResult
from agent.execution.slowest import slowest_operators
from agent.execution.spool import Folder
from agent.inventory import LocalRuntime
from agent.link.log_tail import STEP_HEAD
from agent.protocol.artifacts import PROFILE_NAME, profile_name
from agent.protocol.inputs import InputError
from agent.protocol.measurement import PassRecord, used_records
from agent.protocol.messages import EndReason, LatencySoFar, SlowestOperators, Start
from agent.protocol.notes import Note
from agent.protocol.options import DISTURBING
from agent.protocol.pairs import ArmVerdict
from agent.protocol.plan import MOST_CLEAN, Plan
from agent.protocol.run_log import RunLog, TensorInfo, parse_log
from agent.statistics.processes import MedianInterval, median_interval

log = logging.getLogger(__name__)

#: most bytes of the output of a pass that are parsed
_READ_BYTES = 64 << 20
#: most models whose inputs are remembered
_MOST_KNOWN = 256
#: most tries of a clean pass, which is repeated with more iterations if it was too short
_MOST_TRIES = 4

#: notes about clean passes
_OF_CLEAN = {"clean_too_short", "interval_narrow", "interval_wide", "interval_unknown"}
#: fewest clean passes whose interval ends the measurement because it is narrow: of fewer, some are
#: equal by chance
_LEAST_FOR_NARROW = 8

#: titles of passes in the log, which the page translates (`static/js/tasks/detail/log_pane.js`)
_TITLES: Mapping[PassKind, str] = {
    "inspect": "model inputs",
    "clean": "latency",
    "profiled": "profile",
    "dump": "dumps",
}

#: runs a command in a folder until it ends
Runner = Callable[[list[str], Path], Awaitable[RunResult]]
#: prepares the files for load_and_run's `--input`, given the model's inputs
PrepareInputs = Callable[[tuple[TensorInfo, ...] | None], Mapping[str, str]]


class PassFailed(Exception):
    """A pass failed, so the attempt ends. `detail` is a note, or a line of the program's output."""

    def __init__(self, result: RunResult, reason: EndReason, detail: Note | str = "") -> None:
        self.result, self.reason, self.detail = result, reason, detail
        super().__init__(reason.value)


@dataclass
class PassResults:
    """The passes that have been run so far.

    has_failed: the last one failed
    slowest: operators of the first profiled pass; None before its end, or if they are not known
    """

    records: list[PassRecord] = field(default_factory=list)
    #: number of passes that succeeded and were discarded, because all are repeated
    discarded: int = 0
    run_s: float = 0.0
    notes: list[Note] = field(default_factory=list)
    has_failed: bool = False
    slowest: SlowestOperators | None = None
    #: of the clean passes, so far
    latency: LatencySoFar | None = None
    #: of a paired comparison, so far
    verdicts: list[ArmVerdict] = field(default_factory=list)
    #: the user wants no further passes; may be set at any time
    has_enough: bool = False
    #: passes of the plan were left out because of that
    is_cut: bool = False

    @property
    def succeeded(self) -> int:
        """Number of passes that succeeded and whose results are kept (no preparatory ones)."""
        ended = self.records[:-1] if self.has_failed else self.records
        return sum(record.kept for record in ended)

    def peak_memory(self) -> PeakMemory:
        """Return the largest memory of the passes that count for the figure of the attempt."""
        counted = [record for record in self.records if record.kept and record.kind != "dump"]
        host, gpu = (
            [size for record in counted if (size := getattr(record, name)) is not None]
            for name in ("host_memory_bytes", "gpu_memory_bytes")
        )
        return PeakMemory(max(host, default=None), gpu_memory_bytes=max(gpu, default=None))

    def commands(self) -> tuple[str, ...]:
        return tuple(shlex.join(record.argv) for record in self.records)

    def distinct_commands(self) -> tuple[str, ...]:
        """Return one command line per kind of kept pass, and the last one, which may have failed.

        For a script, return the command lines of all runs, since each records another trace.
        """
        counted = [record for record in self.records if record.kept] or self.records
        by_kind = {
            (record.kind, record.number if record.kind == "script" else 0): record
            for record in (*counted, *self.records[-1:])
        }
        return tuple(shlex.join(record.argv) for record in by_kind.values())


class KnownInputs:
    """LRU cache of the inputs of models, so that each model is inspected only once.

    The key is the MD5 and size of the model, the runtime, and whether `lite` is used.
    """

    def __init__(self) -> None:
        self._found: OrderedDict[tuple[str, int, str, bool], tuple[TensorInfo, ...]] = OrderedDict()

    def get(self, order: Start) -> tuple[TensorInfo, ...] | None:
        """Return the model's inputs, None if they are unknown; () for a model without inputs."""
        entry = self._found.get(_key(order))
        if entry is not None:
            self._found.move_to_end(_key(order))
        return entry

    def put(self, order: Start, inputs: tuple[TensorInfo, ...]) -> None:
        self._found[_key(order)] = inputs
        while len(self._found) > _MOST_KNOWN:
            self._found.popitem(last=False)


def _key(order: Start) -> tuple[str, int, str, bool]:
    # the mdl interface does not name some dtypes that lite does
    return (order.model.md5, order.model.size_bytes, order.runtime, bool(order.options.get("lite")))


class PassRunner:
    """Runs the passes of an attempt. `done` may be read at any time, also after a failure.

    `cores` are those that runs are bound to, empty for all.
    """

    def __init__(
        self,
        order: Start,
        builder: PassBuilder,
        folder: Folder,
        known_inputs: KnownInputs,
        runtime: LocalRuntime,
        prepare_inputs: PrepareInputs,
        cores: tuple[int, ...],
    ) -> None:
        self.done = PassResults(notes=list(oversubscription(builder.options, cores)))
        # with more threads than cores, their waiting does not indicate other processes
        self._waits_for_itself = bool(self.done.notes)
        self._order, self._builder, self._folder = order, builder, folder
        self._known_inputs, self._runtime = known_inputs, runtime
        self._prepare_inputs, self._cores = prepare_inputs, cores
        #: files of the model's inputs
        self._inputs: Mapping[str, str] = {}
        #: our runner for wheels measures in its own process when it waits for a core
        self.samples_waits = runtime.info.kind == "binary"

    async def run(self, run: Runner) -> None:
        """Run all passes of the plan. Raises PassFailed, InputError, and the errors of `run`."""
        self._inputs = await self.prepare(run)
        await self._measure(run)
        if self._builder.dumps and self._goes_on():
            await self._pass(run, self._builder.dump(self._inputs))
        if self.done.is_cut:
            self.done.notes.append(Note.of("ended_early"))

    async def repeat(self, run: Runner) -> bool:
        """Run all passes again without their files; return whether their results are kept.

        If one fails, or the user ends or cancels the repetition before a profile that existed the
        first time, the earlier results are kept. Raises the errors of `run`, but PassFailed only if
        the attempt is cancelled.
        """
        done, before = self.done, dataclasses.replace(self.done)
        aside = self._folder.path / "before"
        aside.mkdir(mode=0o700)
        profiles = [record.profile for record in done.records if record.profile]
        for name in profiles:
            (self._folder.result / name).rename(aside / name)
        done.discarded += done.succeeded
        done.records = [record for record in done.records if record.kind == "inspect"]
        done.slowest = done.latency = None
        done.notes = [note for note in done.notes if note.code not in _OF_CLEAN]
        try:
            await self._measure(run)
        except Exception as failure:
            if isinstance(failure, PassFailed) and failure.reason is not EndReason.CANCELLED:
                log.warning("repetition_failed reason=%s", failure.reason)
                self._restore(before, aside, Note.of("repetition_failed"))
                return False
            if self._lacks_profiles(profiles):
                self._restore(before, aside)
            raise
        if self._lacks_profiles(profiles):
            self._restore(before, aside, Note.of("ended_early"))
            return False
        dumps = [record for record in before.records if record.kind == "dump"]
        done.records += [
            record.model_copy(update={"number": len(done.records) + 1}) for record in dumps
        ]
        done.notes.append(Note.of("passes_repeated"))
        if done.is_cut:
            done.notes.append(Note.of("ended_early"))
        return True

    def _lacks_profiles(self, before: Sequence[str]) -> bool:
        """Whether the passes have no profile, although the first time had those in `before`."""
        return bool(before) and not any(record.profile for record in self.done.records)

    def _restore(self, before: PassResults, aside: Path, *notes: Note) -> None:
        """Replace the results of a repetition with the first ones, in the folder `aside`."""
        done = self.done
        for record in done.records:
            if record.profile:
                (self._folder.result / record.profile).unlink(missing_ok=True)
        for path in aside.iterdir():
            path.rename(self._folder.result / path.name)
        for name in ("discarded", "records", "slowest", "latency"):
            setattr(done, name, getattr(before, name))
        done.notes = [*before.notes, *notes]

    async def _measure(self, run: Runner) -> None:
        """Run the clean and the profiled passes."""
        plan = self._order.plan
        if plan.clean:
            await self._clean(run)
        for number in range(1, plan.profiled + 1):
            if not self._goes_on():
                break
            step = self._builder.profiled(self._inputs, first=self._is_first())
            await self._pass(run, step, profile_name(number))
            if number == 1:
                profile = self._folder.result / PROFILE_NAME
                self.done.slowest = await asyncio.to_thread(slowest_operators, profile)

    async def prepare(self, run: Runner) -> Mapping[str, str]:
        """Write the files of the model's inputs; return them by input. Raises as `run`."""
        tensors = await self._model_inputs(run)
        has_inputs = self._order.inputs or any(not file.option for file in self._order.data)
        if tensors is None and self._order.fill and not has_inputs:
            raise InputError.of("shape", "inputs_unknown")
        return await asyncio.to_thread(self._prepare_inputs, tensors)

    def promised(self) -> list[str]:
        """Return the options whose artifacts must exist after all passes have succeeded.

        If the user ended the run early, these are not the ones that the dump pass would have
        written.
        """
        has_dumps = any(record.kind == "dump" for record in self.done.records)
        return [
            name
            for name in self._builder.promised()
            if has_dumps or not self.done.is_cut or name not in DISTURBING
        ]

    def expected(self) -> int:
        """Return the number of processes of the plan, not counting repetitions."""
        return self._builder.clean_passes + self._order.plan.profiled + self._builder.dumps

    async def _model_inputs(self, run: Runner) -> tuple[TensorInfo, ...] | None:
        """Return the model's inputs, from a separate process if they are not known yet.

        None if they are not needed or cannot be determined; missing inputs are then not filled.
        """
        tensors = self._known_inputs.get(self._order)
        if tensors is not None or not self._order.fill or not self._runtime.can_print_inputs:
            return tensors
        run_log = await self._pass(run, self._builder.inspect())
        if not run_log.outputs:
            return None  # every model has an output, so the log could not be parsed
        self._known_inputs.put(self._order, run_log.inputs)
        return run_log.inputs

    def _is_first(self) -> bool:
        """Whether no pass has run the model yet. The first one writes the files of `ONCE`."""
        is_first = all(record.kind == "inspect" for record in self.done.records)
        return is_first and not self.done.discarded

    def _goes_on(self) -> bool:
        """Whether to run the next pass of the plan."""
        if self.done.has_enough and self.done.succeeded:
            self.done.is_cut = True
        return not self.done.is_cut

    async def _clean(self, run: Runner) -> None:
        """Run the clean passes. The first one determines the number of iterations of all."""
        begun = time.monotonic()
        iterations = await self._first_clean(run)
        while self._another_clean(time.monotonic() - begun):
            step = self._builder.clean(self._inputs, first=False, iterations=iterations)
            await self._pass(run, step)

    def _another_clean(self, used_s: float) -> bool:
        """Whether another clean pass follows; all so far took `used_s`. Sets `done.latency`."""
        plan = self._order.plan
        ended = [record for record in self.done.records if record.kept and record.kind == "clean"]
        used, count = used_records(ended), len(ended)
        if not all(record.e2e_ms for record in used):
            return False  # `fitting` may print none
        interval = median_interval([statistics.median(record.e2e_ms) for record in used])
        if count < self._builder.clean_passes:
            goes_on = self._goes_on()
        elif not plan.budget_s or "fitting" in self._builder.options:
            goes_on = False
        else:
            is_narrow = (
                interval is not None
                and interval.processes >= _LEAST_FOR_NARROW
                and interval.half_width <= plan.half_width
            )
            iterations = sum(len(record.e2e_ms) for record in ended)
            is_over = (
                count == MOST_CLEAN
                or used_s * (count + 1) / count > plan.budget_s
                or iterations * (count + 1) / count > MOST_CLEAN_ITERATIONS
            )
            goes_on = not (is_narrow or is_over) and self._goes_on()
            if is_narrow or is_over:
                self.done.notes.append(_why_ended(interval, count, plan, is_narrow=is_narrow))
        self.done.latency = LatencySoFar(
            passes=count,
            used=len(used),
            median_ms=statistics.median([ms for record in used for ms in record.e2e_ms]),
            low_ms=interval.low_ms if interval else None,
            high_ms=interval.high_ms if interval else None,
            goes_on=goes_on,
        )
        return goes_on

    async def _first_clean(self, run: Runner) -> int:
        """Run the first clean pass until it is long enough; return its number of iterations."""
        iterations = self._builder.first_iterations
        for tries_left in range(_MOST_TRIES - 1, -1, -1):
            step = self._builder.clean(self._inputs, first=self._is_first(), iterations=iterations)
            run_log = await self._pass(run, step)
            needed = 0 if run_log.trials else self._builder.enough_iterations(run_log)
            if needed and (not tries_left or needed <= iterations):
                self.done.notes.append(_too_short(run_log, self._order.plan, self._builder.copies))
                needed = 0
            if not needed:
                break
            # this try only determined how many iterations are needed
            last = self.done.records[-1]
            self.done.records[-1] = last.model_copy(update={"kept": False})
            iterations = needed
        return iterations

    def _say(self, step: Pass) -> int:
        """Write a heading for the pass to the log if there are several; return its end offset.

        Clean and profiled passes are numbered, as in the result. The first clean pass may be
        repeated, and it is unknown how many a budget adds.
        """
        records, output = self.done.records, self._folder.output
        is_alone = self.expected() == 1 and not self._order.plan.budget_s
        if not records and is_alone and step.kind != "inspect":
            return 0
        earlier = [record for record in records if record.kind == step.kind]
        number = 1 + sum(record.kept for record in earlier)
        counts = {"clean": self._builder.clean_passes, "profiled": self._order.plan.profiled}
        count = max(counts.get(step.kind, 1), number)
        title = _TITLES[step.kind]
        if count > 1:
            title = f"{title} {number} of {count}"
        if number == 1 and earlier:
            title = f"{title}, try {len(earlier) + 1}"
        with output.open("ab") as sink:
            sink.write(f"{STEP_HEAD}{title}: load_and_run {shlex.join(step.arguments)}\n".encode())
            return sink.tell()

    async def _pass(self, run: Runner, step: Pass, profile: str = "") -> RunLog:
        """Run one process and record it; `profile` is the artifact name of its profile."""
        number = len(self.done.records) + 1
        command = self._runtime.command_line(step.arguments)
        output = self._folder.output
        offset = self._say(step)
        started_at = time.time()
        (self._folder.work / MADE_PROFILE).unlink(missing_ok=True)
        make_folders(self._folder, step.arguments)
        before = read_counters(processes=False)
        result = await run(command, self._folder.work)
        after = read_counters(processes=False)
        run_log = parse_log(read_output(output, offset))
        waits = run_log.waits or result.waits
        self.done.run_s += result.run_s
        iterations_s = (sum(run_log.warmup_ms) + sum(run_log.e2e_ms)) / 1000 / self._builder.copies
        is_kept = bool(profile) and has_succeeded(result)
        if is_kept:
            is_kept = keep_profile(self._folder, MADE_PROFILE, profile)
        self.done.records.append(
            PassRecord(
                number=number,
                kind=step.kind,
                kept=step.kind != "inspect",
                argv=tuple(command),
                started_at=started_at,
                run_s=result.run_s,
                start_s=None if result.is_prestarted else max(result.run_s - iterations_s, 0.0),
                exit_code=result.exit_code,
                load_ms=run_log.load_ms,
                prepare_ms=run_log.prepare_ms,
                warmup_ms=run_log.warmup_ms,
                e2e_ms=run_log.e2e_ms,
                host_ms=run_log.host_ms,
                profile=profile if is_kept else "",
                waited_ms=waits.waited_ms if waits else None,
                watched_ms=waits.elapsed_ms if waits else None,
                whole_waited_ms=waits.whole_waited_ms if waits else None,
                whole_ms=waits.whole_ms if waits else None,
                switches=waits.switches if waits else None,
                **asdict(result.memory),
                disturbances=tuple(
                    pass_disturbances(
                        None if self._waits_for_itself else waits, before, after, self._cores
                    )
                    if step.kind in ("clean", "profiled")
                    else ()
                ),
            )
        )
        if not has_succeeded(result):
            raise PassFailed(result, result.reason)
        if profile and not is_kept:
            raise PassFailed(result, EndReason.NO_PROFILE, Note.of("no_profile"))
        if step.kind == "clean" and not run_log.e2e_ms and not run_log.trials:
            raise PassFailed(result, EndReason.NOTHING_TIMED, Note.of("nothing_timed"))
        return run_log


def _why_ended(
    interval: MedianInterval | None, passes: int, plan: Plan, *, is_narrow: bool
) -> Note:
    """Return the note about why no further clean pass is measured."""
    if interval is None:
        return Note.of("interval_unknown", passes=passes)
    return Note.of(
        "interval_narrow" if is_narrow else "interval_wide",
        passes=passes,
        percent=f"{100 * interval.half_width:.2g}",
        wanted=f"{100 * plan.half_width:.2g}",
    )


def _too_short(run_log: RunLog, plan: Plan, copies: int) -> Note:
    return Note.of(
        "clean_too_short",
        seconds=round(sum(run_log.e2e_ms) / copies / 1000, 2),
        iterations=len(run_log.e2e_ms) // copies,
        least_s=plan.clean_min_s,
    )


def has_succeeded(result: RunResult) -> bool:
    """Return whether a process exited by itself with 0, within all limits."""
    return result.reason is EndReason.EXITED and result.exit_code == 0 and not result.limit


def read_output(output: Path, offset: int) -> str:
    """Return what was printed after `offset`, empty if nothing was."""
    try:
        with output.open("rb") as source:
            source.seek(offset)
            return source.read(_READ_BYTES).decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""
