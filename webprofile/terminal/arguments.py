"""Types of command line arguments, and help texts with examples."""

import argparse
import math
import textwrap
from collections.abc import Sequence

#: filters of tasks: query parameters of `GET /api/v1/tasks/`
TASK_FILTERS = (
    "status", "kind", "worker_name", "version", "model_name", "title", "owner", "created_after",
    "created_before",
)  # fmt: skip
_WIDTH = 79


def seconds(text: str) -> float:
    """Parse a time limit in seconds. Raises ArgumentTypeError for other text, such as nan."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"“{text}” is not a number of seconds")
    return value


def count(text: str) -> int:
    """Parse a non-negative integer. Raises ArgumentTypeError."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"“{text}” is not a non-negative integer")
    return int(text)


def add_task_filters(parser: argparse.ArgumentParser, statuses: Sequence[str]) -> None:
    """Add an argument for each of `TASK_FILTERS`, which are combined with AND."""
    add = parser.add_argument
    add(
        "--status",
        action="append",
        choices=statuses,
        help="tasks with one of these statuses; may be repeated",
    )
    add("--kind", choices=("model", "script"), help="tasks that profile a model, or a script")
    add("--worker", dest="worker_name", metavar="NAME", help="tasks on this device")
    add(
        "--megengine",
        dest="version",
        metavar="VERSION",
        help="tasks with this version of MegEngine",
    )
    add(
        "--model",
        dest="model_name",
        metavar="TEXT",
        help="part of the file name of the model or script",
    )
    add("--title", metavar="TEXT", help="part of the title")
    add("--owner", metavar="E-MAIL", help="tasks of the user with this e-mail address")
    add(
        "--created-after",
        metavar="TIME",
        help="tasks created after this time (ISO 8601), such as 2026-11-21T10:00+08:00",
    )
    add("--created-before", metavar="TIME", help="tasks created before this time")


def explain(
    parser: argparse.ArgumentParser,
    *examples: str,
    notes: str = "",
    formatter: type[argparse.HelpFormatter] = argparse.RawDescriptionHelpFormatter,
) -> None:
    """Add examples to the end of `--help`.

    notes: text below the examples, printed unchanged
    formatter: a formatter class that does not wrap the description
    """
    parser.formatter_class = formatter
    if parser.description:
        # the formatter does not wrap lines
        parser.description = textwrap.fill(parser.description, _WIDTH)
    title = "example:" if len(examples) == 1 else "examples:"
    text = "\n".join([title, *(f"  {line}" for line in examples)])
    parser.epilog = "\n\n".join(filter(None, [text, notes]))
