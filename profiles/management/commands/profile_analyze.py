"""`manage.py profile_analyze FILE [options]`: `megengine.tools.profile_analyze`, without MegEngine.

Options, output and exit codes are the original's; an error is one line instead of a traceback. On a
terminal, control characters are replaced.
"""

import os
import re
import sys
from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser, Namespace
from mmap import ACCESS_READ, mmap
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from profiles.analysis.errors import AnalysisError
from profiles.analysis.select import Query
from profiles.analysis.text import PrintOptions, report
from profiles.formats.columns import ProfileColumns
from profiles.formats.errors import ProfileFormatError
from profiles.formats.load_and_run.reader import parse
from webprofile.terminal.output import plain_lines


class Command(BaseCommand):
    """Exit code: 0 if printed, 1 for an invalid profile or query, 2 for unknown options."""

    help = "analyze analyzer result"
    requires_system_checks: list[str] = []

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Define only the original's options; Django's own would change the abbreviations."""
        parser = CommandParser(
            prog=f"{subcommand}.py",
            description=self.help,
            formatter_class=ArgumentDefaultsHelpFormatter,
            called_from_command_line=getattr(self, "_called_from_command_line", False),
        )
        add_options(parser)
        parser.set_defaults(
            settings=None, pythonpath=None, traceback=False, no_color=False, force_color=False
        )
        return parser

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            text = analysis(Namespace(**options))
        except (AnalysisError, ProfileFormatError, re.error) as error:
            raise CommandError(" ".join(str(error).split())) from error
        except OSError as error:
            raise CommandError(f"{options['dump']} cannot be read: {error.strerror}.") from error
        if self.stdout.isatty():
            text = plain_lines(text)
        try:
            self.stdout.write(text, ending="")
            self.stdout.flush()
        except UnicodeEncodeError as error:
            raise CommandError(
                f"The terminal's encoding ({error.encoding}) lacks letters of the table: set "
                "PYTHONIOENCODING=utf-8."
            ) from error
        except BrokenPipeError:
            # the interpreter would try to flush once more at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def add_options(parser: ArgumentParser) -> None:
    """Add the original's options with their original help texts."""
    parser.add_argument("dump")
    parser.add_argument(
        *("-t", "--top"),
        type=int,
        default=3,
        help="number of most time-consuming operators to print",
    )
    parser.add_argument("--type", action="append", help="filter oprs in the top list by type")
    parser.add_argument("--aggregate-by", choices=["type"], help="aggragate profiling result by")
    parser.add_argument("--opr-name", help="filter oprs in the top list by regex of name")
    parser.add_argument("--input-dtype", help="filter oprs in the top list by input dtype")
    parser.add_argument(
        "--top-end-key",
        default="end",
        choices=["end", "kern"],
        help="how time in top is calculated; end corresponds to total device time, and kern "
        "corresponds to only wait time",
    )
    parser.add_argument(
        "--aggregate", choices=["max", "min", "sum", "mean"], help="aggregate operations"
    )
    parser.add_argument(
        "--order-by",
        default="time",
        help="sort result according to given column; the param can be <col_name> or +<col_name>, "
        "meaning sorting in descending or ascending order respectively",
    )
    parser.add_argument("--copy-time", action="store_true", help="show copy time related result")
    for name, limit in (("min", "-inf"), ("max", "inf")):
        parser.add_argument(
            f"--{name}-time",
            type=float,
            default=float(limit),
            help=f"{name}imal time of a result to be printed",
        )
    parser.add_argument("--show-host", action="store_true", help="show host profiling info")
    parser.add_argument(
        "--dump-only-opr",
        action="store_true",
        help="only dump operator info as plaintext; useful for diff between two filtered profile "
        "results",
    )
    parser.add_argument(
        *("--confluence", "--wiki"),
        action="store_true",
        help="output confluence-markdown-compatible table",
    )
    parser.add_argument(
        "--print-only", choices=["summary", "device", "host"], help="print only chosen info"
    )


def analysis(options: Namespace) -> str:
    """Return the output.

    Raises OSError, ProfileFormatError, AnalysisError, and re.error for a bad pattern.
    """
    column = options.order_by
    query = Query(
        types=tuple(options.type or ()),
        name=options.opr_name or "",
        input_dtype=options.input_dtype or "",
        top_end=options.top_end_key,
        min_s=options.min_time,
        max_s=options.max_time,
        aggregate=options.aggregate or "",
        by_type=options.aggregate_by is not None,
        order=column.removeprefix("+"),
        ascending=column.startswith("+"),
    )
    printed = PrintOptions(
        top=options.top,
        show_host=options.show_host,
        print_only=options.print_only or "",
        copy_time=options.copy_time,
        only_operators=options.dump_only_opr,
        wiki=options.confluence,
    )
    pattern = re.compile(query.name)
    columns = _columns(options.dump, dtypes=bool(query.input_dtype))
    return report(columns, query, printed, matches=lambda _: pattern.match)


def _columns(path: str, *, dtypes: bool) -> ProfileColumns:
    limit = settings.PROFILE_SIZE_LIMIT_BYTES
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise ProfileFormatError(
                "too_large",
                f"The file has {size} bytes; the limit (PROFILE_SIZE_LIMIT_BYTES) is {limit}.",
            )
        # a file that is not regular has no size, and cannot be mapped
        data = mmap(file.fileno(), 0, access=ACCESS_READ) if size else file.read(limit + 1)
    return parse(data, max_bytes=limit, checked=False, dtypes=dtypes)
