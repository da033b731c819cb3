"""Run a paired comparison: pairs of new processes, one for each arm, that take turns.

First each arm is run once alone: its outputs are compared with those of the baseline, and its
iteration time determines the number of iterations in a turn. Then pairs are measured until every
verdict is clear or the budget is used up. After these turns, most pairs have profiled ones, which
measure each operator. The figures behind the design are in docs/decisions/measured-in-pairs.md.
"""

import asyncio
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from agent.device.disturbance import PAIR_WAITED_PERCENT, pass_disturbances
from agent.device.state import read_counters
from agent.execution.artifacts import keep_profile, make_folders, size_of_plain_file
from agent.execution.measure import (
    PassFailed,
    PassResults,
    PassRunner,
    Runner,
    has_succeeded,
    read_output,
)
from agent.execution.outputs import differences, read_outputs
from agent.execution.plan import MADE_PROFILE, PassBuilder
from agent.execution.runner import RunResult
from agent.execution.slowest import device_times_us
from agent.execution.spool import Folder
from agent.inventory import LocalRuntime
from agent.link.log_tail import STEP_HEAD
from agent.protocol.artifacts import arm_profile_name
from agent.protocol.inputs import InputError
from agent.protocol.messages import EndReason, Start
from agent.protocol.notes import Note
from agent.protocol.numbers import LimitedInteger, LimitedMilliseconds, LimitedNumber
from agent.protocol.pairs import (
    ARM_NAMES,
    MOST_ARMS,
    MOST_OPERATORS,
    MOST_PAIRS,
    MOST_PROFILED_PAIRS,
    OPERATORS_NAME,
    PAIRED_NAME,
    ArmOperators,
    ArmRecord,
    ArmVerdict,
    Microseconds,
    OperatorTimes,
    PairedMeasurement,
    Pairing,
    PairRecord,
    Turn,
)
from agent.protocol.run_log import CoreWaits, parse_log
from agent.statistics.paired import (
    Look,
    PairedResult,
    compare_pairs,
    log_ratio_of_pair,
    next_look,
    operator_pairs,
)

#: fewest and most blocks of turns in a pair; each block has every arm twice, in an order and its
#: reverse. A compiled program has the fewest, since it starts a process for each turn
_LEAST_BLOCKS, _MOST_BLOCKS = 2, 4
#: target duration of all turns of a pair, ms
_TURNS_MS = 800.0
#: usual and longest duration of a turn, ms
_USUAL_MS, _LONG_MS = 45.0, 100.0
#: iterations of a turn where they fit into the longest turn
_WANTED = 5
_MOST_ITERATIONS = 10_000
#: iterations of a profiled turn, if the turn of the arm has several
_PROFILED_ITERATIONS = 3
#: largest share of the measuring time that profiled turns may use: in the first minute, which the
#: usual budget has for its verdict, and later
_PROFILED_SHARE, _LATER_SHARE, _FIRST_S = 1 / 8, 1 / 3, 60.0
#: the program that runs a pair, and the first argument of its processes
_RUNNER = Path(__file__).resolve().parent.parent / "pair_runner"
_TAKE_TURNS = "--take-turns"
#: bytes of the answer of the pair runner; 32 turns of 1000 times have a megabyte
_LONGEST_ANSWER = 8 << 20


class _TurnAnswer(BaseModel):
    """What `agent/load_and_run/turns.py` answers after a turn. It is the output of a run."""

    arm: int = Field(ge=0, lt=MOST_ARMS)
    ms: tuple[LimitedMilliseconds, ...] = Field(min_length=1)
    waited_ms: LimitedMilliseconds | None
    elapsed_ms: LimitedMilliseconds
    stolen_ms: LimitedMilliseconds
    switches: LimitedInteger


class _ProfiledTurnAnswer(_TurnAnswer):
    us: tuple[tuple[Microseconds, ...], ...] = Field(min_length=1, max_length=_PROFILED_ITERATIONS)


class _RunnerAnswer(BaseModel):
    """What `agent/pair_runner` writes: the turns, or which arm failed."""

    failed: int | None = Field(default=None, ge=0)
    usual_ms: LimitedMilliseconds = 0.0
    operators: tuple[Annotated[str, Field(max_length=40)], ...] = Field(
        default=(), max_length=MOST_OPERATORS
    )
    turns: tuple[_TurnAnswer, ...] = ()
    profiled: tuple[_ProfiledTurnAnswer, ...] = ()
    profiling_s: LimitedNumber = 0.0


@dataclass
class PairedResults(PassResults):
    """The passes so far, and the pairs. `arms` are those of `PairedMeasurement`."""

    arms: list[ArmRecord] = field(default_factory=list)
    pairs: list[PairRecord] = field(default_factory=list)
    measuring_s: float = 0.0

    @property
    def succeeded(self) -> int:
        return super().succeeded + len(self.pairs)


@dataclass
class Arm:
    """One arm: its order, with files in `folder`. `passes` prepares its inputs."""

    number: int
    order: Start
    builder: PassBuilder
    folder: Folder
    runtime: LocalRuntime
    passes: PassRunner
    inputs: Mapping[str, str] = field(default_factory=dict)
    #: of a turn; 1 until the calibration
    iterations: int = 1
    #: ids of those whose times are measured; empty if the model cannot be profiled
    operators: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name in the log: `A` is the baseline."""
        return ARM_NAMES[self.number]

    def command(self, *, first: bool = False) -> list[str]:
        """Return the command of a process that runs one turn."""
        step = self.builder.clean(self.inputs, first=first, iterations=self.iterations)
        return self.runtime.command_line(step.arguments)

    def command_of_turns(self, *, first: bool = False) -> list[str]:
        """Return the command of a wheel's process, which takes turns."""
        command = self.command(first=first)
        command.insert(len(self.runtime.command), _TAKE_TURNS)
        return command

    def outputs_command(self) -> list[str] | None:
        """Return the command with which a compiled binary writes its outputs; None if it cannot."""
        if self.order.options.get("lite"):  # load_and_run aborts with both options
            return None
        step = self.builder.dump(self.inputs, bin_out_dump=True)
        return self.runtime.command_line(step.arguments)

    def profiled_command(self) -> list[str]:
        """Return the command of a process that runs one profiled turn."""
        iterations = self.profiled_iterations
        step = self.builder.profiled(self.inputs, first=False, iterations=iterations)
        return self.runtime.command_line(step.arguments)

    @property
    def profiled_iterations(self) -> int:
        """Iterations of a profiled turn. The first of several does not count."""
        return min(self.iterations, _PROFILED_ITERATIONS)

    @property
    def takes_turns(self) -> bool:
        """Whether its process waits between turns; a compiled binary has a process per turn."""
        return self.runtime.info.kind == "wheel"


def arm_orders(order: Start) -> Iterator[Start]:
    """Yield the order of each arm, as for a run of this arm alone; the first is the baseline."""
    yield order.model_copy(update={"arms": (), "pairing": None})
    for arm in order.arms:
        changes = {name: getattr(arm, name) for name in type(arm).model_fields}
        yield order.model_copy(update={**changes, "arms": (), "pairing": None})


def arm_folder(folder: Folder, number: int) -> Folder:
    """Return the folder of an arm inside the attempt's; its log is the attempt's."""
    inner = Folder(folder.path, folder.record)
    inner.work = folder.work / f"arm-{number}"
    inner.work.mkdir(mode=0o700, exist_ok=True)
    return inner


def turn_iterations(usual_ms: float) -> int:
    """Return the iterations of a turn, given the usual time of one.

    A turn lasts 45 to 100 ms. It has 5 iterations if they fit, else at least 2; one for a model
    that takes more than 50 ms. The first of several is dropped: another arm has used the caches
    before it.
    """
    if usual_ms <= 0:
        return _MOST_ITERATIONS
    if usual_ms * _WANTED <= _LONG_MS:
        wanted = max(_WANTED, math.ceil(_USUAL_MS / usual_ms))
        return min(wanted, _MOST_ITERATIONS)
    return max(int(_LONG_MS / usual_ms), 1)


def blocks_of_pair(block_ms: float) -> int:
    """Return the number of blocks in a pair of processes that take turns.

    block_ms: usual duration of the turns of a block
    """
    return min(max(round(_TURNS_MS / max(block_ms, 1.0)), _LEAST_BLOCKS), _MOST_BLOCKS)


def profiling_limit_s(measuring_s: float) -> float:
    """Return how much of the measuring time, s, profiled turns may use until the verdict."""
    later_s = max(measuring_s - _FIRST_S, 0)
    return _PROFILED_SHARE * (measuring_s - later_s) + _LATER_SHARE * later_s


def turn_ms(times: Sequence[float]) -> float:
    """Return the time of a turn: the median of its iterations without the first one."""
    return statistics.median(times[1:] or times)


class _Comparison:
    """The pairs of one arm with the baseline, and the interim analyses (looks) of them."""

    def __init__(self, arm: int, margin: float) -> None:
        self.arm, self._margin = arm, margin
        self._values: list[float] = []
        self._looks: list[Look] = []
        self._result: PairedResult | None = None

    @property
    def is_decided(self) -> bool:
        return self._result is not None and self._result.verdict != "not_enough"

    def add(self, value: float) -> None:
        self._values.append(value)

    def look(self, planned: int, *, is_last: bool) -> bool:
        """Look at the pairs if it is time to; return whether it was.

        `planned` is the number of pairs that fit into the budget in all. If time is up and all
        pairs since the last look were disturbed, that look is replaced by one that spends the rest.
        """
        count = len(self._values)
        seen = self._looks[-1].pairs if self._looks else 0
        is_new = count > seen
        if self.is_decided or not (is_new or (seen and is_last and planned == count)):
            return is_last
        if not is_last and count < next_look(seen, planned):
            return False
        if not is_new:
            self._looks.pop()
        self._looks.append(Look(count, max(planned, count)))
        self._result = compare_pairs(self._values, self._looks, margin=self._margin)
        return True

    def verdict(self, pair_s: float) -> ArmVerdict:
        """Return what is known so far; a pair that counts takes `pair_s`."""
        result = self._result
        if result is None:
            return ArmVerdict(arm=self.arm, verdict="not_enough", pairs=len(self._values))
        more = result.more_pairs
        return ArmVerdict(
            arm=self.arm,
            verdict=result.verdict,
            effect=result.effect,
            low=result.low,
            high=result.high,
            smallest=result.smallest_effect,
            more_s=None if more is None else more * pair_s,
            pairs=result.pairs,
        )


class _Operators:
    """The profiled turns of all pairs: which pairs have any, and the times of the operators."""

    def __init__(self, arms: Sequence[Arm]) -> None:
        self._arms = arms
        self._pairs: list[int] = []
        self._rows: list[list[tuple[float | None, ...]]] = [[] for _ in arms]
        self._spent_s, self._pair_s = 0.0, 0.0

    @property
    def are_known(self) -> bool:
        """Whether all arms can be profiled."""
        return all(arm.operators for arm in self._arms)

    def expect(self, turn_s: float) -> None:
        """Add the duration of a profiled turn of an arm to that of a pair's profiled turns."""
        self._pair_s += 2 * turn_s

    def are_next(self, used_s: float, *, is_decided: bool) -> bool:
        """Return whether the next pair has profiled turns, after `used_s` of measuring.

        Until the verdict, their share of the time is limited: with a large graph, they take longer
        than other turns.
        """
        is_cheap = self._spent_s + self._pair_s <= profiling_limit_s(used_s + self._pair_s)
        has_room = len(self._pairs) < MOST_PROFILED_PAIRS
        return self.are_known and has_room and (is_cheap or is_decided)

    def spend(self, profiling_s: float) -> None:
        self._spent_s += profiling_s
        self._pair_s = profiling_s

    def add(self, pair: int, samples: Sequence[tuple[int, Sequence[float | None]]]) -> None:
        """Add the samples of a pair's profiled turns: (arm, time of each operator in µs)."""
        self._pairs.append(pair)
        for arm in self._arms:
            columns = zip(*(us for number, us in samples if number == arm.number), strict=True)
            self._rows[arm.number].append(tuple(map(_median, columns)))

    def are_wanted(
        self, verdicts: Iterable[ArmVerdict], pairs: int, used_s: float, budget_s: float
    ) -> bool:
        """Return whether to continue after these verdicts; `pairs` took `used_s`.

        If an arm differs, even by less than the margin, the measurement continues until there are
        enough pairs to determine the operators that differ, unless the budget is too small.
        """
        differs = any(
            verdict.low is not None and verdict.high is not None and verdict.low * verdict.high > 0
            for verdict in verdicts
        )
        wanted = operator_pairs(max((len(arm.operators) for arm in self._arms), default=0))
        missing = wanted - len(self._pairs)
        pair_s = (used_s - self._spent_s) / pairs + self._pair_s
        return differs and self.are_known and 0 < missing * pair_s <= budget_s - used_s

    def times(self) -> OperatorTimes | None:
        """Return the content of `paired_operators.json`; None if there are no times."""
        if not self._pairs:
            return None
        arms = [
            ArmOperators(ids=arm.operators, us=tuple(self._rows[arm.number])) for arm in self._arms
        ]
        return OperatorTimes(pairs=tuple(self._pairs), arms=tuple(arms))


def _median(times: Sequence[float | None]) -> float | None:
    known = [time_us for time_us in times if time_us is not None]
    return round(statistics.median(known), 2) if known else None


class PairedRuns:
    """Runs a paired comparison. `done` may be read at any time, also after a failure.

    `cores` are those that runs are bound to, empty for all.
    """

    #: the processes measure their waits themselves
    samples_waits = False

    def __init__(
        self,
        order: Start,
        arms: Sequence[Arm],
        folder: Folder,
        cores: tuple[int, ...],
    ) -> None:
        self.done = PairedResults()
        self.done.notes += [
            Note.of("of_arm", arm=arm.name, note=note)
            for arm in arms
            for note in arm.passes.done.notes
        ]
        # with more threads than cores, their waiting does not indicate other processes
        self._wait_for_themselves = bool(self.done.notes)
        self._pairing = order.pairing or Pairing()
        self._arms, self._folder, self._cores = arms, folder, cores
        self._operators = _Operators(arms)
        self._blocks = _LEAST_BLOCKS
        # known to the reader of the result, and different for each attempt
        self._seed = order.attempt.int & 0xFFFFFFFF
        self._random = random.Random(self._seed)

    def expected(self) -> int:
        """Return about how many pairs fit into the budget."""
        return min(self._pairing.budget_s, MOST_PAIRS)

    def promised(self) -> list[str]:
        return []

    async def run(self, run: Runner) -> None:
        """Compare the arms. Raises PassFailed, InputError, and the errors of `run`."""
        try:
            for arm in self._arms:
                await self._prepare(arm, run)
            for arm in self._arms:
                await self._look(arm, run)
            # the files are read now because no process could change them meanwhile
            await asyncio.to_thread(self._compare_outputs)
            await self._measure(run)
        finally:
            await asyncio.to_thread(self._write)

    async def _prepare(self, arm: Arm, run: Runner) -> None:
        arm.passes.done = self.done
        try:
            arm.inputs = await arm.passes.prepare(run)
        except InputError as error:
            error.data.setdefault("arm", arm.name)
            raise

    async def _look(self, arm: Arm, run: Runner) -> None:
        """Run an arm alone: write its outputs, choose the iterations of its turns, profile it."""
        self._say(f"arm {arm.number + 1} of {len(self._arms)}: outputs and iteration time")
        if arm.takes_turns:
            arms = [self._setup_of(arm, first=True)]
            setup = {"arms": arms, "look": True, "turns": [], "profiled": []}
            result = await self._run_together(run, [arm], setup)
            usual_ms = result.usual_ms
            arm.operators = result.operators
            self._operators.expect(result.profiling_s)
        else:
            if command := arm.outputs_command():
                make_folders(arm.folder, command)
                await self._run_alone(run, arm, command)
            arm.iterations = 10
            usual_ms = statistics.median(await self._run_alone(run, arm, arm.command(first=True)))
            await self._look_at_operators(arm, run)
        arm.iterations = turn_iterations(usual_ms)
        name = arm_profile_name(arm.number)
        if not self._has_own_folders() or not keep_profile(arm.folder, MADE_PROFILE, name):
            arm.operators = ()
        self.done.arms.append(
            ArmRecord(
                runtime=arm.runtime.info.version, iterations=arm.iterations, usual_ms=usual_ms
            )
        )

    async def _look_at_operators(self, arm: Arm, run: Runner) -> None:
        """Profile a compiled program; one that fails with the profiler is compared without."""
        begun = time.monotonic()
        try:
            times_us = await self._profile_alone(run, arm)
        except PassFailed as failure:
            if failure.result.reason is not EndReason.EXITED or failure.result.limit:
                raise
            return
        self._operators.expect(time.monotonic() - begun)
        slowest = sorted(times_us, key=lambda key: -times_us[key])
        arm.operators = tuple(slowest[:MOST_OPERATORS])

    def _compare_outputs(self) -> None:
        """Compare the outputs of each arm with those of the baseline. Reads files."""
        baseline = self._arms[0].folder.work
        for arm in self._arms[1:]:
            compared = differences(read_outputs(baseline), read_outputs(arm.folder.work))
            record = self.done.arms[arm.number]
            self.done.arms[arm.number] = record.model_copy(update={"outputs": compared})

    async def _measure(self, run: Runner) -> None:
        """Measure pairs until all verdicts are clear, or until the budget is used up."""
        self._say("pairs: processes that take turns")
        begun = time.monotonic()
        comparisons = [_Comparison(arm.number, self._pairing.margin) for arm in self._arms[1:]]
        budget_s, operators = self._pairing.budget_s, self._operators
        if self._take_turns():
            turns_ms = [
                arm.iterations * record.usual_ms
                for arm, record in zip(self._arms, self.done.arms, strict=True)
            ]
            self._blocks = blocks_of_pair(2 * math.fsum(turns_ms))
        usable, used_s, is_decided = 0, 0.0, False
        while True:
            pair = await self._pair(
                run, is_profiled=operators.are_next(used_s, is_decided=is_decided)
            )
            self.done.pairs.append(pair)
            used_s = time.monotonic() - begun
            pair_s = used_s / len(self.done.pairs)
            if not is_decided:
                self.done.measuring_s = used_s
            if not pair.disturbances:
                usable += 1
                for comparison in comparisons:
                    comparison.add(
                        log_ratio_of_pair(pair.times_ms(0), pair.times_ms(comparison.arm))
                    )
            is_over = used_s + pair_s > budget_s or len(self.done.pairs) == MOST_PAIRS
            # a user who ends the run has seen the values, so its last look spends no more error
            is_last = is_over or self.done.has_enough
            planned = usable if is_over else usable + int((budget_s - used_s) / pair_s)
            if any([comparison.look(planned, is_last=is_last) for comparison in comparisons]):
                counted_s = used_s / max(usable, 1)
                self.done.verdicts = [comparison.verdict(counted_s) for comparison in comparisons]
            was_decided = is_decided
            is_decided = all(comparison.is_decided for comparison in comparisons)
            is_done = is_decided and not operators.are_wanted(
                self.done.verdicts, len(self.done.pairs), used_s, budget_s
            )
            if is_last and not (is_over or is_done):
                self.done.is_cut = True
                self.done.notes.append(Note.of("ended_early"))
            if is_last or is_done:
                return
            if is_decided and not was_decided:
                self._say("the verdict is clear: more pairs to find the operators that differ")

    def _take_turns(self) -> bool:
        """Whether a pair has one process for each arm, not one for each turn."""
        return all(arm.takes_turns for arm in self._arms)

    def _order_of_turns(self, blocks: int) -> list[int]:
        """Return the arms of turns of a pair: blocks in random order, each with its reverse."""
        turns: list[int] = []
        for _ in range(blocks):
            order = [arm.number for arm in self._arms]
            self._random.shuffle(order)
            turns += [*order, *reversed(order)]
        return turns

    async def _pair(self, run: Runner, *, is_profiled: bool) -> PairRecord:
        order = self._order_of_turns(self._blocks)
        profiled = self._order_of_turns(1) if is_profiled else []
        started_at = time.time()
        before = read_counters(processes=False)
        begun = time.monotonic()
        samples: list[tuple[int, Sequence[float | None]]] = []
        if self._take_turns():
            setup = {
                "arms": [self._setup_of(arm) for arm in self._arms],
                "turns": order,
                "profiled": profiled,
            }
            result = await self._run_together(run, self._arms, setup)
            turns = [Turn(arm=turn.arm, ms=turn_ms(turn.ms)) for turn in result.turns]
            waits = _waits(result.turns)
            profiling_s, profiled_waits = result.profiling_s, _waits(result.profiled)
            samples = [(turn.arm, us) for turn in result.profiled for us in turn.us]
        else:
            turns, waits = [], None
            for number in order:
                times = await self._run_alone(run, self._arms[number])
                turns.append(Turn(arm=number, ms=turn_ms(times)))
            profiling_from, profiled_waits = time.monotonic(), None
            for number in profiled:
                arm = self._arms[number]
                times_us = await self._profile_alone(run, arm)
                samples.append((number, [times_us.get(key) for key in arm.operators]))
            profiling_s = time.monotonic() - profiling_from
        after = read_counters(processes=False)
        if self._wait_for_themselves:
            waits = profiled_waits = None
        disturbances = pass_disturbances(
            waits, before, after, self._cores, most_waited=PAIR_WAITED_PERCENT
        )
        if is_profiled:
            self._operators.spend(profiling_s)
            # waiting in the profiled turns affects only the times of the operators
            if not disturbances and not pass_disturbances(
                profiled_waits, before, after, self._cores, most_waited=PAIR_WAITED_PERCENT
            ):
                self._operators.add(len(self.done.pairs), samples)
        return PairRecord(
            started_at=started_at,
            run_s=time.monotonic() - begun,
            turns=tuple(turns),
            waited_ms=waits.waited_ms if waits else None,
            elapsed_ms=waits.elapsed_ms if waits else None,
            stolen_ms=waits.stolen_ms if waits else None,
            disturbances=tuple(disturbances),
        )

    def _setup_of(self, arm: Arm, *, first: bool = False) -> dict[str, Any]:
        command = arm.command_of_turns(first=first)
        return {
            "command": command,
            "folder": str(arm.folder.work),
            "count": arm.iterations,
            "profiled_count": _PROFILED_ITERATIONS if first else arm.profiled_iterations,
            "operators": arm.operators,
        }

    async def _run_together(
        self, run: Runner, arms: Sequence[Arm], setup: Mapping[str, Any]
    ) -> _RunnerAnswer:
        """Run `agent/pair_runner` with these arms; return its answer. Raises PassFailed."""
        work = self._folder.work
        (work / "setup.json").unlink(missing_ok=True)
        # a new file: an earlier process may have left a link
        with (work / "setup.json").open("x") as file:
            json.dump(setup, file)
        (work / "pair.json").unlink(missing_ok=True)
        # the sandbox shows the paths in a command, and those of the arms are in a file
        paths = dict.fromkeys(path for arm in arms for path in arm.runtime.command)
        command = [sys.executable, "-I", "-S", str(_RUNNER), "setup.json", "pair.json", *paths]
        result = await run(command, work)
        self.done.run_s += result.run_s
        answer = _read_answer(work / "pair.json")
        if has_succeeded(result):
            if self._has_own_folders() and answer and _is_complete(answer, setup):
                return answer
            raise _nothing_timed(result)
        failed = answer.failed if answer else None
        is_known = failed is not None and failed < len(arms)
        raise _failure(result, arms[failed or 0] if is_known else None)

    def _has_own_folders(self) -> bool:
        """Whether no process has replaced a folder with a link, which would open another folder."""
        folders = (arm.folder.work for arm in self._arms)
        return all(path.is_dir() and not path.is_symlink() for path in folders)

    async def _run_alone(
        self, run: Runner, arm: Arm, command: list[str] | None = None
    ) -> tuple[float, ...]:
        """Run one process of an arm; return its iteration times in ms. Raises PassFailed."""
        output = self._folder.output
        offset = output.stat().st_size if output.exists() else 0
        result = await run(command or arm.command(), arm.folder.work)
        self.done.run_s += result.run_s
        times = parse_log(read_output(output, offset)).e2e_ms
        if not has_succeeded(result):
            raise _failure(result, arm)
        if not times:
            raise _nothing_timed(result)
        return times

    async def _profile_alone(self, run: Runner, arm: Arm) -> dict[str, float]:
        """Run one profiled process of an arm; return the times of its operators in µs."""
        path = arm.folder.work / MADE_PROFILE
        # the earlier one is not deleted: deleted here, each one would count towards the disk limit
        earlier = _identity(path)
        await self._run_alone(run, arm, arm.profiled_command())
        if not self._has_own_folders() or not size_of_plain_file(path):
            return {}
        if _identity(path) == earlier:
            return {}
        return await asyncio.to_thread(device_times_us, path)

    def _say(self, title: str) -> None:
        with self._folder.output.open("ab") as sink:
            sink.write(f"{STEP_HEAD}{title}\n".encode())

    def _write(self) -> None:
        done = self.done
        content = PairedMeasurement(
            pairing=self._pairing,
            seed=self._seed,
            arms=tuple(done.arms),
            pairs=tuple(done.pairs),
            verdicts=tuple(done.verdicts),
            measuring_s=done.measuring_s,
        )
        result = self._folder.result
        (result / PAIRED_NAME).write_text(content.model_dump_json(), encoding="utf-8")
        if times := self._operators.times():
            (result / OPERATORS_NAME).write_text(times.model_dump_json(), encoding="utf-8")


def _identity(path: Path) -> tuple[int, int] | None:
    """Return an identity that changes when a file is written again; None without a file."""
    try:
        state = path.lstat()
    except OSError:
        return None
    return state.st_ino, state.st_mtime_ns


def _is_complete(answer: _RunnerAnswer, setup: Mapping[str, Any]) -> bool:
    """Return whether an answer has all turns, and all operators of each profiled one."""
    sizes = [len(arm["operators"]) for arm in setup["arms"]]
    return (
        [turn.arm for turn in answer.turns] == setup["turns"]
        and [turn.arm for turn in answer.profiled] == setup["profiled"]
        and all(len(us) == sizes[turn.arm] for turn in answer.profiled for us in turn.us)
    )


def _failure(result: RunResult, arm: Arm | None) -> PassFailed:
    note = Note.of("arm_failed", arm=arm.name) if arm else ""
    return PassFailed(result, result.reason, note)


def _nothing_timed(result: RunResult) -> PassFailed:
    return PassFailed(result, EndReason.NOTHING_TIMED, Note.of("nothing_timed"))


def _waits(turns: Sequence[_TurnAnswer]) -> CoreWaits | None:
    """Add up the waits of the threads in all turns; None if the kernel does not count them."""
    waited = [turn.waited_ms for turn in turns if turn.waited_ms is not None]
    elapsed_ms = math.fsum(turn.elapsed_ms for turn in turns)
    if len(waited) < len(turns) or elapsed_ms <= 0:
        return None
    stolen_ms = math.fsum(turn.stolen_ms for turn in turns)
    switches = sum(turn.switches for turn in turns)
    return CoreWaits(math.fsum(waited), elapsed_ms, switches, stolen_ms)


def _read_answer(path: Path) -> _RunnerAnswer | None:
    """Return the answer of the pair runner; None if there is none."""
    # a process may have put anything in its place
    if not 0 < (size_of_plain_file(path) or 0) <= _LONGEST_ANSWER:
        return None
    try:
        return _RunnerAnswer.model_validate_json(path.read_bytes())
    except (OSError, ValueError):
        return None
