"""Run a script once per trace format, because MegEngine 1.13 crashes if it writes two formats."""

import asyncio
import re
import shlex
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from agent.device.disk_usage import measure_folder
from agent.execution.artifacts import size_of_plain_file
from agent.execution.measure import PassFailed, PassResults, Runner
from agent.execution.runner import FILE_LIMIT_BYTES, RunResult
from agent.execution.script_sandbox import PROGRAM, RUNNER, TRACES, ClosedSandbox, make_folders
from agent.execution.spool import Folder, remove_tree
from agent.execution.unpack import unpack
from agent.execution.watchdog import LimitHit, amount
from agent.inventory import LocalRuntime
from agent.link.log_tail import STEP_HEAD
from agent.protocol.artifacts import limit_of
from agent.protocol.inputs import InputError
from agent.protocol.measurement import PassRecord
from agent.protocol.messages import EndReason, Script, Start, TraceFormat
from agent.protocol.notes import Note
from agent.protocol.run_log import ESCAPE

#: default programs of a zip, in this order
_DEFAULT_PROGRAMS = ("__main__.py", "main.py")
#: most programs that an error message lists
_MOST_LISTED = 20
_END_BYTES = 16 << 10
#: file to which the runner writes the uncaught exception of the program, in one line
RAISED = "raised"
_RAISED_BYTES = 4 << 10
_RAISED = re.compile(
    r"^[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning)\b.*$", re.MULTILINE
)


class ScriptRuns:
    """The runs of one attempt. `done` may be read at any time, also after a failure."""

    #: scripts are traced, not measured
    samples_waits = False

    def __init__(
        self, order: Start, folder: Folder, runtime: LocalRuntime, sandbox: ClosedSandbox
    ) -> None:
        self.done = PassResults()
        self._sandbox = sandbox
        self._order, self._script = order, order.script or Script()
        self._folder, self._runtime = folder, runtime

    async def run(self, run: Runner) -> None:
        """Execute all runs. Raises PassFailed, InputError, OSError, and the errors of `run`."""
        formats = self._script.formats
        for number, kind in enumerate(formats, start=1):
            program = await asyncio.to_thread(self._lay_out, last=number == len(formats))
            await self._once(run, number, kind, program)

    def expected(self) -> int:
        """Return the number of runs."""
        return len(self._script.formats)

    def promised(self) -> list[str]:
        """Return the options whose artifacts must exist: scripts have no options."""
        return []

    def _lay_out(self, *, last: bool) -> str:
        folder = self._folder
        program = lay_out(self._order, folder.script_files, folder.work, last=last)
        self._sandbox.hand_over(folder.work, folder.output)
        return program

    async def _once(self, run: Runner, number: int, kind: TraceFormat, program: str) -> None:
        command = self._command(kind, program)
        self._say(number, kind, program)
        output = self._folder.output
        offset = output.stat().st_size if output.exists() else 0
        started_at = time.time()
        result = self._with_file_limit(await run(command, self._folder.work))
        self.done.run_s += result.run_s
        # also for a failed script, since its trace shows what was run before the failure
        problem = await asyncio.to_thread(self._keep_trace, kind)
        self.done.records.append(
            PassRecord(
                number=number,
                kind="script",
                argv=tuple(command),
                started_at=started_at,
                run_s=result.run_s,
                exit_code=result.exit_code,
                profile="" if problem else kind,
                **asdict(result.memory),
            )
        )
        if result.reason is not EndReason.EXITED or result.limit:
            raise PassFailed(result, result.reason)
        if result.exit_code:
            raise PassFailed(result, result.reason, self._exception(offset))
        if problem:
            raise PassFailed(result, EndReason.NO_PROFILE, problem)

    def _command(self, kind: TraceFormat, program: str) -> list[str]:
        script = self._script
        flags = [
            f"--format={kind}",
            f"--sample_rate={script.sample_rate}",
            f"--profile_device={int(script.profile_device)}",
        ]
        return [self._runtime.path, str(RUNNER), *flags, program, *script.arguments]

    def _say(self, number: int, kind: TraceFormat, program: str) -> None:
        """Write a heading for the run to the log if there are several runs."""
        count = len(self._script.formats)
        if count == 1:
            return
        call = shlex.join([program, *self._script.arguments])[:1000]
        line = f"{STEP_HEAD}run {number} of {count} ({kind}): {call}\n"
        with self._folder.output.open("ab") as sink:
            sink.write(line.encode())

    def _with_file_limit(self, result: RunResult) -> RunResult:
        """Add the limit of the file size to the result if it caused the failure.

        Python ignores SIGXFSZ, so that a write over the limit raises an OSError.
        """
        failed = result.reason is EndReason.EXITED and result.exit_code and not result.limit
        if failed and measure_folder(self._folder.work).largest_bytes >= FILE_LIMIT_BYTES:
            hit = LimitHit(EndReason.OUTPUT_TOO_LARGE, Note.of("file_limit"))
            return replace(result, limit=hit)
        return result

    def _keep_trace(self, kind: TraceFormat) -> Note | None:
        """Move the trace to the results; return the reason if there is none.

        If there are several, use the latest: the processes of a program that forks write their own.
        """
        traces, folder = [], self._folder.work / TRACES
        # not through a link, which could lead to the files of another attempt
        for path in () if folder.is_symlink() else folder.glob(f"*.{kind}"):
            size = size_of_plain_file(path) if path.name.split(".")[0].isdigit() else None
            if size:
                traces.append((path.stat().st_mtime_ns, size, path))
        if not traces:
            return Note.of("no_trace", format=kind)
        _, size, path = max(traces)
        limit = limit_of(kind) or 0
        if size >= limit:
            return Note.of("trace_limit", name=kind, size=amount(size), limit=amount(limit))
        path.rename(self._folder.result / kind)
        return None

    def _exception(self, offset: int) -> str:
        """Return the exception that ended the program, in one line; empty if there is none."""
        line = self._caught_exception() or self._printed_exception(offset)
        return "".join(character for character in line[:300] if character.isprintable())

    def _caught_exception(self) -> str:
        """Return the exception that the runner caught.

        It is preferred because the output after a traceback may be longer than the log.
        """
        folder = self._folder.work / TRACES
        path = folder / RAISED
        if folder.is_symlink() or not size_of_plain_file(path):
            return ""
        with path.open("rb") as source:
            return source.read(_RAISED_BYTES).decode("utf-8", errors="replace")

    def _printed_exception(self, offset: int) -> str:
        """Return the last exception in the output, e.g. of a child process or a thread."""
        try:
            with self._folder.output.open("rb") as source:
                source.seek(0, 2)
                source.seek(max(offset, source.tell() - _END_BYTES))
                text = ESCAPE.sub("", source.read(_END_BYTES).decode("utf-8", errors="replace"))
        except OSError:
            return ""
        lines = _RAISED.findall(text)
        if not lines or "Traceback (most recent call last)" not in text:
            return ""
        return str(lines[-1])


def check_script(order: Start) -> None:
    """Check the names in the order of a script. Raises ValueError."""
    name, script = order.model.name, order.script
    if script is None or not name.endswith((".py", ".zip")):
        raise ValueError(f"{name}: a script must be a .py file or a zip file that contains one")
    if name.endswith(".py") and script.entry not in (None, name):
        raise ValueError(f"{name} is a single file: it does not contain {script.entry}")
    names = [name, *(file.name for file in order.data)]
    if len(set(names)) != len(names):
        raise ValueError("two files have the same name")


def lay_out(order: Start, source: Path, work: Path, *, last: bool) -> str:
    """Create the folder `work` with the files of the order; return the program's path in PROGRAM.

    The folder of an earlier run is deleted, so that runs do not influence each other. The files are
    copied from `source`, or moved for the last run. Raises InputError, OSError.
    """
    remove_tree(work)
    work.mkdir(mode=0o700)
    make_folders(work)
    folder, name = work / PROGRAM, order.model.name
    transfer = shutil.move if last else shutil.copyfile
    if name.endswith(".zip"):
        files = unpack(source / name, folder)
        entry = order.script.entry if order.script else None
        program = choose_program(name, files, entry)
    else:
        transfer(source / name, folder / name)
        program = name
    for file in order.data:
        if (folder / file.name).exists():
            raise InputError.of("name", "script_file_twice", name=file.name, archive=name)
        transfer(source / file.name, folder / file.name)
    return program


def choose_program(archive: str, files: Sequence[str], entry: str | None) -> str:
    """Return the program of a zip. Raises InputError, which lists the candidates."""
    programs = [path for path in files if path.endswith(".py")]
    if entry is not None:
        if entry in files:
            return entry
        if programs:
            raise InputError.of(
                "unreadable",
                "script_entry",
                archive=archive,
                entry=entry,
                names=_list(programs),
            )
        raise InputError.of("unreadable", "script_none", archive=archive)
    for name in _DEFAULT_PROGRAMS:
        if name in programs:
            return name
    if len(programs) == 1 and not programs[0].startswith("-"):
        return programs[0]
    if not programs:
        raise InputError.of("unreadable", "script_none", archive=archive)
    raise InputError.of("unreadable", "script_unclear", archive=archive, names=_list(programs))


def _list(programs: Sequence[str]) -> str:
    more = ", …" if len(programs) > _MOST_LISTED else ""
    return f"{', '.join(programs[:_MOST_LISTED])}{more}"
