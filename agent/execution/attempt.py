"""Run an attempt on the device: accept the order, download files, measure, and end.

`delivery` uploads the results afterwards.
"""

import asyncio
import logging
import shlex
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NoReturn
from uuid import UUID

from agent.device.canary import CanaryChecks, DeviceCanary
from agent.device.disk_usage import DiskUsage, measure_folder
from agent.device.quiet import QuietMode
from agent.device.state import read_counters
from agent.device.waits import WaitSampler
from agent.execution.artifacts import ResultError, check_files, end_of_log, keep_artifacts
from agent.execution.delivery import Delivery
from agent.execution.measure import KnownInputs, PassFailed, PassRunner, Runner
from agent.execution.paired import Arm, PairedRuns, arm_folder, arm_orders
from agent.execution.plan import PassBuilder
from agent.execution.process_pool import Launcher, WarmPool, WarmProcess
from agent.execution.report import Report
from agent.execution.runner import Limits, RunResult, build_environment
from agent.execution.sandbox import Sandbox
from agent.execution.script_rules import NOT_ALLOWED, ScriptRules
from agent.execution.script_runs import ScriptRuns
from agent.execution.spool import Folder, Spool
from agent.execution.watchdog import Watchdog, signal_name
from agent.halting import Halted, unless_halted
from agent.inputs.prepare import prepare_order
from agent.inventory import LocalRuntime
from agent.link.downloads import TransferError
from agent.link.outbox import Outbox, fit_end
from agent.link.progress import Progress
from agent.link.retries import Policies
from agent.link.transfers import Transfer
from agent.protocol.artifacts import MEASUREMENT_NAME, PROFILE_NAME
from agent.protocol.inputs import InputError
from agent.protocol.messages import (
    MAX_RECEIVED,
    AttemptAccepted,
    AttemptFinished,
    EndReason,
    Facts,
    Start,
)
from agent.protocol.notes import Note
from agent.protocol.options import OptionError
from agent.protocol.pairs import ARM_NAMES, check_paired_options

log = logging.getLogger(__name__)

DISK_FULL = Note.of("disk_full")
#: reasons that are outcomes of the run itself
_OF_THE_RUN = frozenset({EndReason.EXITED, EndReason.NO_PROFILE, EndReason.NOTHING_TIMED})


#: the server ends a cancelled attempt after this time, and then does not need its files
KEPT_S = 300.0
#: time of two equal series of passes, with a reserve, as a multiple of the time of the first one
_TWICE = 2.5


@dataclass(frozen=True)
class Tools:
    """Services and settings that all attempts share.

    `stop_grace_s` is the grace period of processes when the agent shuts down. `libraries` maps the
    names of C operator libraries to paths. `require_sandbox`: refuse attempts if there is no
    sandbox.
    """

    outbox: Outbox
    spool: Spool
    transfer: Transfer
    policies: Policies
    runtimes: dict[str, LocalRuntime]
    warm: WarmPool
    quiet_mode: QuietMode
    facts: Facts
    canary: DeviceCanary | None
    libraries: dict[str, str]
    limits: Limits
    sandbox: Sandbox
    require_sandbox: bool
    scripts: ScriptRules
    log_limit_bytes: int
    stop_grace_s: float
    known_inputs: KnownInputs = field(default_factory=KnownInputs)


class Ending(Exception):
    """The attempt ends early, for a reason that the server has a message for."""

    def __init__(self, reason: EndReason, note: Note | None = None, cause: str = "") -> None:
        self.reason, self.note, self.cause = reason, note, cause
        super().__init__(reason.value)


class Stopped(Exception):
    """The agent shuts down; the next agent process finds the attempt in the spool."""


class Attempt:
    """An attempt, from the server's order to the acknowledged end.

    `cancel`, `enough` and `stop` may be called at any time.
    """

    def __init__(self, order: Start, tools: Tools) -> None:
        self.id: UUID = order.attempt
        self.task, self.trace = order.task, order.traceparent[3:35]
        self._order, self._tools = order, tools
        #: time of the first `cancel`, of `time.monotonic`
        self._cancelled_at: float | None = None
        #: set by `cancel` and `stop`: the process must end
        self._halted = asyncio.Event()
        #: set by `cancel` once all processes have ended: files need not be uploaded any more
        self._abandoned = asyncio.Event()
        self._stopping = False
        #: set by `enough`: the run ends after its current pass
        self._has_enough = False
        self._folder: Folder | None = None
        self._on_disk = False
        self._report: Report | None = None
        #: all passes have ended, and their files are being collected
        self._is_measured = False
        #: by earlier passes, which share the limits of the disk
        self._added = DiskUsage()
        self.delivering = False

    def cancel(self) -> None:
        """Cancel the attempt on behalf of the server, which repeats the order until the end.

        A repeated order does not discard what the first one keeps, except after KEPT_S.
        """
        now = time.monotonic()
        is_first = self._cancelled_at is None and not self._halted.is_set()
        self._cancelled_at = self._cancelled_at or now
        is_over = self.delivering or self._is_measured
        if (is_first and is_over) or now - self._cancelled_at > KEPT_S:
            self._abandoned.set()
        self._halted.set()

    def enough(self) -> None:
        """End the run after its current pass, and keep what is measured."""
        self._has_enough = True
        if self._report is not None:
            self._report.passes.has_enough = True

    def stop(self) -> None:
        """End the process because the agent shuts down; the next agent delivers the result."""
        self._stopping = True
        self._halted.set()

    def announce(self) -> None:
        """Tell the server that the order is on disk; called again for a repeated order."""
        if self._on_disk:
            self._tools.outbox.ask(AttemptAccepted(attempt=self.id))

    async def live(self) -> None:
        """Run the attempt until the server has acknowledged its end, or until `stop`."""
        try:
            end = await self._end_of_run()
        except Stopped:
            return
        if self._report is not None:
            memory = self._report.passes.peak_memory()
            end = end.model_copy(
                update={
                    "phases": self._report.phases(),
                    "host_memory_bytes": memory.host_memory_bytes,
                    "gpu_memory_bytes": memory.gpu_memory_bytes,
                }
            )
        detail = "; ".join(filter(None, [*map(str, end.notes), end.detail]))
        log.info("attempt_ended attempt=%s reason=%s detail=%r", self.id, end.reason, detail)
        folder = self._folder
        if folder is None or not self._on_disk:
            self.delivering = True
            # the order was never accepted, so the server repeats it if this message is lost
            await self._tools.outbox.deliver(fit_end(end))
            if folder is not None:
                await asyncio.to_thread(folder.remove)
            return
        await asyncio.to_thread(folder.remove_work)
        if self._stopping:
            await asyncio.to_thread(lambda: folder.write(ended=end))
            return
        self.delivering = True
        tools = self._tools
        delivery = Delivery(folder, tools.outbox, tools.transfer, tools.policies)
        await delivery.run(end, self._abandoned)

    async def _end_of_run(self) -> AttemptFinished:
        try:
            return await self._run()
        except Ending as end:
            ended = self._finished(end.reason, detail=end.note or "", cause=end.cause)
        except Stopped:
            raise
        except Exception as exc:
            # broad on purpose: a bug in one attempt must not take the device offline
            ended = self._broke(exc)
        if self._report is not None and self._folder is not None:
            await asyncio.to_thread(self._report.write, self._folder.result)
        return ended

    def _broke(self, error: Exception) -> AttemptFinished:
        log.error("attempt_broke attempt=%s", self.id, exc_info=error)
        # leave out the path of an OSError: users must not see the device's file system
        text = error.strerror if isinstance(error, OSError) else str(error)
        return self._finished(EndReason.AGENT_ERROR, detail=f"{type(error).__name__}: {text}")

    async def _run(self) -> AttemptFinished:
        # pre-started processes are in the sandbox of models and in one folder; scripts and arms
        # need their own
        is_alone = self._order.script is None and self._order.pairing is None
        warm = self._tools.warm.take(self._order.runtime if is_alone else "")
        try:
            return await self._run_with(warm)
        finally:
            if warm is not None:
                await warm.end()

    async def _run_with(self, warm: WarmProcess | None) -> AttemptFinished:
        tools, order = self._tools, self._order
        spool = tools.spool
        folder = spool.adopt_folder(warm.folder, self.id) if warm else spool.make_folder(self.id)
        self._folder = folder
        opening = asyncio.create_task(self._open(folder))
        try:
            prepared = self._prepare()
            runtime, builder = prepared[0]
            box = tools.scripts.sandbox if order.script else tools.sandbox
            since = read_counters()
            limits = tools.limits.for_task(order.timeout_s)
            if order.script and tools.scripts.sandbox.owner is not None:
                limits = limits.for_a_user_of_its_own()
            options = builder.options if builder else {}
            report = self._report = Report(
                order, tools.facts, runtime, limits, box, spool.root, options
            )
            report.environment = build_environment(folder.work, self.id)
            # use disk and network concurrently, since the task has to wait for both
            download_s = await unless_halted(self._halted, self._download(folder, report))
        except Halted:
            self._raise_halted("cancelled_before_start")
        finally:
            await opening
        launcher = Launcher(folder, self.id, limits, box, tools.warm, warm)
        progress = Progress(order, folder, tools.outbox, tools.log_limit_bytes, download_s)
        pass_runner: PassRunner | ScriptRuns | PairedRuns
        if builder is None:
            pass_runner = ScriptRuns(order, folder, runtime, tools.scripts.sandbox)
        elif order.pairing is not None:
            pass_runner = self._paired_runs(prepared, folder, report)
        else:
            pass_runner = self._pass_runner(builder, folder, report)
        report.passes = pass_runner.done
        report.passes.has_enough = self._has_enough
        may_use_gpu = any(own is None or own.may_use_gpu for _, own in prepared)
        observer = report.observer = await tools.quiet_mode.begin(
            self._halted, since, may_use_gpu=may_use_gpu
        )
        # a script is not measured, and a plan without a clean pass is too short for the readings
        is_measured = order.plan.clean and not order.script
        canary = tools.canary if is_measured and not tools.quiet_mode.is_shared else None
        report.canary = CanaryChecks(canary, self._halted)
        try:
            await tools.warm.cleared()
            await report.canary.before()
            end = await self._measure(pass_runner, launcher, progress, report.canary)
        finally:
            await tools.quiet_mode.end(observer)
            progress.pause()
        await report.canary.end()
        self._is_measured = True
        await progress.finish(pass_runner.done)
        return await asyncio.to_thread(self._keep, end, folder, report, pass_runner)

    def _pass_runner(self, builder: PassBuilder, folder: Folder, report: Report) -> PassRunner:
        return PassRunner(
            report.order,
            builder,
            folder,
            self._tools.known_inputs,
            report.runtime,
            partial(prepare_order, report, folder.work),
            report.limits.cores,
        )

    def _paired_runs(
        self,
        prepared: Sequence[tuple[LocalRuntime, PassBuilder | None]],
        folder: Folder,
        report: Report,
    ) -> PairedRuns:
        arms = []
        orders = arm_orders(self._order)
        for number, (order, (runtime, builder)) in enumerate(zip(orders, prepared, strict=True)):
            if builder is None:
                raise TypeError("a script cannot be an arm")
            own = arm_folder(folder, number)
            about = report.add_arm(order, runtime, builder.options) if number else report
            passes = self._pass_runner(builder, own, about)
            arms.append(Arm(number, order, builder, own, runtime, passes))
        return PairedRuns(self._order, arms, folder, report.limits.cores)

    async def _measure(
        self,
        pass_runner: PassRunner | ScriptRuns | PairedRuns,
        launcher: Launcher,
        progress: Progress,
        canary: CanaryChecks,
    ) -> AttemptFinished:
        """Run all passes and return the end of the attempt; after a failure, results are kept."""
        folder, limits = launcher.folder, self._tools.limits

        async def run(command: list[str], work: Path) -> RunResult:
            if self._halted.is_set():
                self._raise_halted("cancelled_between_passes")
            progress.pass_ended(pass_runner.done)
            # files that earlier passes added count towards the limit; measured before the process
            # starts, which may overwrite some at once
            before, added = measure_folder(folder.work), self._added
            process = await launcher.start(command, work)
            progress.begin(shlex.join(command), pass_runner.expected())
            log.info("pass_started attempt=%s pid=%d", self.id, process.pid)
            # the timeout covers all passes, but neither the wait for an idle device nor the
            # preparation of inputs
            left_s = max(self._order.timeout_s - pass_runner.done.run_s, 0.0)
            watch = Watchdog(
                folder.work,
                folder.output,
                limits.watch,
                DiskUsage(before.bytes - added.bytes, before.files - added.files),
                wary=self._order.script is not None,
                gpus=self._tools.quiet_mode.gpus,
            )
            ending = process.wait(left_s, self._grace_s, self._halted, watch)
            result = await _sampled(ending, process.pid, samples_waits=pass_runner.samples_waits)
            if self._order.script is None:  # a script gets a new folder for each run
                after = measure_folder(folder.work)
                self._added = DiskUsage(
                    added.bytes + max(after.bytes - before.bytes, 0),
                    added.files + max(after.files - before.files, 0),
                )
            if self._stopping and result.reason is EndReason.CANCELLED:
                raise Stopped
            return result

        try:
            await self._run_passes(pass_runner, run, canary)
        except PassFailed as failure:
            pass_runner.done.has_failed = True
            return self._failed(failure, pass_runner.done.run_s)
        except InputError as error:
            return self._input_wrong(error)
        except Ending as end:
            return self._finished(end.reason, detail=end.note or "", run_s=pass_runner.done.run_s)
        except Stopped:
            raise
        except Exception as exc:
            # keep the log and the results of earlier passes
            return self._broke(exc)
        return self._finished(EndReason.EXITED, exit_code=0, run_s=pass_runner.done.run_s)

    async def _run_passes(
        self,
        pass_runner: PassRunner | ScriptRuns | PairedRuns,
        run: Runner,
        canary: CanaryChecks,
    ) -> None:
        """Run all passes, twice if the device is not as fast as usual after the first time.

        Passes are repeated only if they fit into the time limit twice and the user has not ended
        the run. Pairs are not repeated, since their arms share the state of the device.
        """
        await pass_runner.run(run)
        # while another attempt is measured, the device cannot be as fast as usual
        if self._tools.quiet_mode.is_shared or await canary.after():
            return
        if not isinstance(pass_runner, PassRunner):
            return
        done = pass_runner.done
        if self._halted.is_set() or done.has_enough or done.run_s * _TWICE > self._order.timeout_s:
            return
        canary.repeated()
        # otherwise the reading after the first time belongs to the results that are kept
        if await pass_runner.repeat(run):
            await canary.after()

    def _keep(
        self,
        end: AttemptFinished,
        folder: Folder,
        report: Report,
        pass_runner: PassRunner | ScriptRuns | PairedRuns,
    ) -> AttemptFinished:
        """Move the files to upload into the result folder. Blocks: call it in a thread."""
        report.write(folder.result)
        changes: dict[str, object] = {
            "received": report.received[:MAX_RECEIVED],
            "command": "\n".join(pass_runner.done.distinct_commands())[:8000],
        }
        if end.reason is EndReason.EXITED and end.exit_code == 0:
            try:
                keep_artifacts(folder, pass_runner.promised())
            except ResultError as error:
                reason = EndReason.FILE_MISSING if error.missing else EndReason.OUTPUT_TOO_LARGE
                changes |= {"reason": reason, "notes": (error.note,)}
            else:
                # a model run needs one of these files as its result; a script run needs none
                results = (folder.result / name for name in (MEASUREMENT_NAME, PROFILE_NAME))
                if not self._order.script and not any(path.exists() for path in results):
                    changes |= {"reason": EndReason.AGENT_ERROR, "notes": (DISK_FULL,)}
        else:
            changes["log_end"] = end_of_log(folder)
        return end.model_copy(update=changes)

    async def _open(self, folder: Folder) -> None:
        folder.record = folder.record.model_copy(update={"task": self.task})
        await asyncio.to_thread(self._tools.spool.open_attempt, folder)
        self._on_disk = True
        self.announce()

    async def _download(self, folder: Folder, report: Report) -> float:
        files, target = (self._order.model, *self._order.data), folder.work
        if self._order.script:
            target = folder.script_files
            target.mkdir(mode=0o700)
        elif self._order.pairing:
            target = arm_folder(folder, 0).work
        fetch_all = self._tools.transfer.fetch_all
        arm_name = ""
        try:
            report.begun_at, begin = time.time(), time.monotonic()
            report.received = await fetch_all(files, target)
            for number, arm in enumerate(self._order.arms, start=1):
                arm_name = ARM_NAMES[number]
                files, target = (arm.model, *arm.data), arm_folder(folder, number).work
                stored = await fetch_all(files, target)
                report.received += tuple(f.model_copy(update={"arm": number}) for f in stored)
        except TransferError as exc:
            # files of several arms can have the same name, so the server needs the arm
            values = exc.note.values | ({"arm": arm_name} if arm_name else {})
            note = exc.note.model_copy(update={"values": values})
            raise Ending(EndReason.DOWNLOAD_FAILED, note, exc.cause) from exc
        report.download_s = time.monotonic() - begin
        return report.download_s

    def _prepare(self) -> list[tuple[LocalRuntime, PassBuilder | None]]:
        """Check the order before any download; return runtime and builder of each arm.

        An order without `pairing` is one arm. The builder is None for a script. Raises Ending.
        """
        return [self._prepare_arm(order) for order in arm_orders(self._order)]

    def _prepare_arm(self, order: Start) -> tuple[LocalRuntime, PassBuilder | None]:
        tools = self._tools
        if order.script and not tools.scripts.allowed:
            raise Ending(EndReason.REFUSED, NOT_ALLOWED)
        runtime = tools.runtimes.get(order.runtime)
        if runtime is None or not runtime.command:
            note = Note.of("runtime_not_configured", version=order.runtime)
            if runtime is not None and (problem := runtime.info.problem):
                note = Note.of("runtime_unusable", version=order.runtime, problem=problem)
            raise Ending(EndReason.NO_RUNTIME, note)
        if order.script:
            if refusal := tools.scripts.refusal(order, runtime):
                raise Ending(*refusal)
            return runtime, None
        if tools.require_sandbox and not tools.sandbox.bwrap:
            raise Ending(EndReason.NO_SANDBOX, tools.sandbox.problem)
        try:
            check_files(order)
            if self._order.pairing:
                check_paired_options(order.options)
            return runtime, PassBuilder(order, runtime.capabilities(tools.facts), tools.libraries)
        except OptionError as exc:
            note = Note.of(
                f"option_{exc.code}",
                option=exc.option,
                limit="" if exc.limit is None else exc.limit,
            )
            raise Ending(EndReason.REFUSED, note) from exc
        except ValueError as exc:
            raise Ending(EndReason.REFUSED, Note.of("order_invalid", cause=str(exc))) from exc

    def _grace_s(self) -> float:
        return self._tools.stop_grace_s if self._stopping else self._order.grace_s

    def _failed(self, failure: PassFailed, run_s: float) -> AttemptFinished:
        """Success is exit code 0 and a profile: load_and_run may report its end and then abort."""
        result, reason = failure.result, failure.reason
        detail: Note | str = failure.detail or signal_name(result.exit_code)
        if result.limit:
            reason, detail = result.limit.reason, result.limit.note
        elif reason in _OF_THE_RUN and result.disk_was_full:
            reason, detail = EndReason.AGENT_ERROR, DISK_FULL
        elif reason is EndReason.TIMED_OUT:
            detail = Note.of("time_limit", seconds=self._order.timeout_s)
        return self._finished(reason, detail=detail, exit_code=result.exit_code, run_s=run_s)

    def _input_wrong(self, error: InputError) -> AttemptFinished:
        end = self._finished(EndReason.INPUT_WRONG, detail=error.note(), cause=error.code)
        arm = error.data.get("arm")
        notes = (Note.of("arm_failed", arm=arm),) if arm else ()
        return end.model_copy(update={"notes": (*notes, *end.notes)})

    def _raise_halted(self, code: str) -> NoReturn:
        """Raise Stopped, or Ending as cancelled with a note that has this code."""
        raise Stopped if self._stopping else Ending(EndReason.CANCELLED, Note.of(code))

    def _finished(
        self,
        reason: EndReason,
        *,
        detail: Note | str = "",
        cause: str = "",
        exit_code: int | None = None,
        run_s: float | None = None,
    ) -> AttemptFinished:
        return AttemptFinished(
            attempt=self.id,
            at=time.time(),
            reason=reason,
            notes=(detail,) if isinstance(detail, Note) else (),
            # a file's name need not be UTF-8, but a frame must
            detail=""
            if isinstance(detail, Note)
            else detail[:1000].encode("utf-8", "replace").decode(),
            cause=cause,
            exit_code=exit_code,
            run_s=run_s,
        )


async def _sampled(ending: Awaitable[RunResult], pid: int, *, samples_waits: bool) -> RunResult:
    """Wait for the end of a process, and sample how long its threads wait for a core."""
    if not samples_waits:
        return await ending
    sampler = WaitSampler(pid)
    sampling = asyncio.create_task(sampler.sample_repeatedly())
    try:
        result = await ending
    finally:
        sampling.cancel()
    return replace(result, waits=sampler.waits())
