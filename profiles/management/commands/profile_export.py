"""`manage.py profile_export TASK|FILE`: profiles as files, for a whole night of them in a loop."""

import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.http import QueryDict
from django.utils import timezone

from profiles.analysis.data import ProfileData
from profiles.analysis.errors import AnalysisError
from profiles.analysis.merging import merge
from profiles.derived.loading import profile_data
from profiles.exports import FORMATS, exported
from profiles.models import Profile
from profiles.parsers.errors import ProfileFormatError
from profiles.parsers.graph_json import parse_graph
from profiles.parsers.load_and_run import parse
from profiles.provenance import provenance
from webprofile.errors import DomainError
from webprofile.wording import word


class Command(BaseCommand):
    help = "Writes a profile as CSV, JSON, Chrome trace, HTML report or text."
    # files are exported on a machine without storage too
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "sources",
            nargs="+",
            metavar="TASK|FILE",
            help="The number of a task, or profiles of load_and_run, one for each pass.",
        )
        parser.add_argument("--format", choices=sorted(FORMATS), default="csv")
        parser.add_argument("-o", "--output", help="Where to; by default to standard output.")
        parser.add_argument(
            "--query",
            default="",
            help="As in the address of a result page: type=Concat&order=memory",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        wanted = FORMATS[options["format"]]
        try:
            data, meta, profile = _read(options["sources"])
            question = QueryDict(options["query"].removeprefix("?"))
            pieces = wanted.make(exported(question, data, meta, profile))
        except (ProfileFormatError, AnalysisError, OSError) as error:
            raise CommandError(str(error)) from error
        except DomainError as error:
            raise CommandError(word(error)) from error
        if options["output"]:
            with Path(options["output"]).open("wb") as file:
                file.writelines(pieces)
        else:
            sys.stdout.buffer.writelines(pieces)


def _read(sources: list[str]) -> tuple[ProfileData, dict[str, Any], Profile | None]:
    if len(sources) == 1 and sources[0].isdecimal() and not Path(sources[0]).exists():
        profile = Profile.objects.filter(attempt__task_id=int(sources[0])).first()
        if profile is None:
            raise CommandError(f"Task {sources[0]} has no profile.")
        return profile_data(profile), provenance(profile), profile
    limit = settings.PROFILE_SIZE_LIMIT_BYTES
    files = [(Path(source).name, Path(source).read_bytes()) for source in sources]
    passes = [(name, parse(data, max_bytes=limit)) for name, data in files]
    meta = {"title": files[0][0], "source": "file", "warnings": []}
    meta["exported_at"] = timezone.now().isoformat(timespec="seconds")
    return merge(passes, parse_graph(files[0][1], passes[0][1])), meta, None
