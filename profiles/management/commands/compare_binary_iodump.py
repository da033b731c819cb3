"""`manage.py compare_binary_iodump A B`: compare the values of all variables of two runs."""

import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from agent.protocol.artifacts import limit_of
from profiles.analysis.io_dump import MAX_ERROR, Producer, TensorDifference, compare, index_of
from profiles.comparison.dumps import execution_order
from profiles.formats.tensor_dump import Dump, DumpError, open_folder, open_zip
from profiles.selectors import IO_DUMP_NAME, dump_of
from tasks.models import Artifact, Task
from webprofile.errors import DomainError
from webprofile.messages.errors import word
from webprofile.storage import storage
from webprofile.terminal.output import plain, plain_lines

EQUAL, DIFFERENT, FAILED = 0, 1, 2


class Command(BaseCommand):
    """Exit code: 0 equal within the tolerance, 1 different, 2 a dump cannot be read."""

    help = "Compare two binary dumps of all variables: folders, zip files or numbers of tasks."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("a", help="folder, zip file, or number of a task")
        parser.add_argument("b", help="the same for the other run")
        parser.add_argument(
            "-e",
            "--max-err",
            type=float,
            default=MAX_ERROR,
            help="largest |a-b| / max(|a|, |b|, 1) of equal values (default: %(default)s)",
        )
        parser.add_argument("--all", action="store_true", help="also list equal variables")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with ExitStack() as stack:
                a, order = _open(options["a"], stack)
                b, _ = _open(options["b"], stack)
                code = self._report(
                    compare(a, b, order=order, max_error=options["max_err"]), all_=options["all"]
                )
        except (DumpError, DomainError, OSError) as error:
            text = word(error) if isinstance(error, DomainError) else str(error)
            self.stderr.write(plain_lines(text))
            code = FAILED
        sys.exit(code)

    def _report(self, differences: Iterator[TensorDifference], *, all_: bool) -> int:
        total = differing = 0
        for difference in differences:
            total += 1
            if difference.differs or all_:
                mark = "first " if difference.differs and not differing else ""
                self.stdout.write(plain(mark + line_of(difference)))
            differing += difference.differs
        self.stdout.write(f"{differing} of {total} variables differ")
        return DIFFERENT if differing else EQUAL


def line_of(diff: TensorDifference) -> str:
    """Format the difference of a pair of tensors as one line."""
    step = "" if diff.step is None else f"#{diff.step} "
    line = f"{diff.status}: {step}{diff.operator} {diff.operator_type} {diff.one.name} "
    line += f"[{diff.one.file}]"
    if diff.a and diff.b and diff.status in ("shape", "dtype"):
        line += f" {diff.a.dtype} {diff.a.shape} / {diff.b.dtype} {diff.b.shape}"
    if diff.first is not None:
        index = index_of(diff.first, diff.one.shape)
        line += f" max_abs={diff.max_abs:.6g} max_rel={diff.max_rel:.6g}"
        line += f" differing={diff.differing}/{diff.numbers} first={index}"
    if diff.nan_a or diff.nan_b:
        line += f" nan={diff.nan_a}/{diff.nan_b}"
    return line


def _open(name: str, stack: ExitStack) -> tuple[Dump, dict[int, Producer]]:
    """Open the dump of an argument, with the execution order, which is known for tasks only."""
    path = Path(name)
    if path.is_dir():
        return open_folder(path), {}
    if path.is_file():
        return open_zip(stack.enter_context(path.open("rb"))), {}
    artifact = _of_task(name)
    file = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 the stack closes it
    storage.read_into(artifact.object_key, file, limit_bytes=limit_of(IO_DUMP_NAME) or 0)
    return open_zip(file), execution_order(artifact)


def _of_task(name: str) -> Artifact:
    task = Task.objects.filter(pk=int(name)).first() if name.isdecimal() else None
    if task is None:
        raise DumpError(
            "unreadable", f"{name} is not a folder, a zip file or the number of a task."
        )
    artifact = dump_of(task)
    if artifact is None:
        raise DumpError(
            "empty", f"Task {name} has no {IO_DUMP_NAME}: run it with the option bin_io_dump."
        )
    return artifact
