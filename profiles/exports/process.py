"""Write one large export to a file, in a process with limits (`profiles.exports.heavy`).

`python -m profiles.exports FD` is the fork server of these processes. Unlike the readers of
untrusted files, they have the settings of the site: they read its rows and derived data.
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec
from django.conf import settings
from django.http import QueryDict
from django.template.loader import get_template
from django.urls import reverse
from django.utils import translation

from profiles.analysis.errors import AnalysisError
from profiles.comparison.export import pieces_of as pieces_of_comparison
from profiles.exports.formats import pieces_of, printed_pieces
from profiles.exports.heavy import CONTENT, JOB, PROBLEM, ExportJob, ExportProblem
from profiles.ingest import limited_process
from profiles.models import Profile
from webprofile.errors import DomainError
from webprofile.storage import storage


def load_before_fork() -> None:
    """Load what every export would load again: clients of storage, addresses, texts, templates."""
    storage.prepare_clients()
    reverse("profiles:list")  # imports all pages, which takes 0.5 s
    for language, _ in settings.LANGUAGES:
        with translation.override(language):
            translation.gettext("Task")
    get_template("profiles/report.html")


def main(folder: Path) -> int:
    """Run the job in `folder` and return the exit code."""
    limited_process.limit(settings.PROFILE_PARSE_MEMORY_BYTES, settings.PROFILE_PARSE_TIME_S)
    return write_export(folder)


def write_export(folder: Path) -> int:
    """Write the content of the job in `folder`, or the problem, and return the exit code."""
    job = msgspec.json.decode((folder / JOB).read_bytes(), type=ExportJob)
    try:
        with translation.override(job.language), (folder / CONTENT).open("wb") as file:
            for piece in _pieces(job):
                file.write(piece)
    except MemoryError:
        return limited_process.OUT_OF_MEMORY
    except DomainError as error:
        problem = ExportProblem(error.code, True, error.field, error.status, error.data)
        (folder / PROBLEM).write_bytes(msgspec.json.encode(problem, enc_hook=str))
    except AnalysisError as error:
        problem = ExportProblem(error.code, False, data={"detail": error.detail})
        (folder / PROBLEM).write_bytes(msgspec.json.encode(problem))
    return 0


def _pieces(job: ExportJob) -> Iterable[bytes]:
    query = QueryDict(job.query)
    rows = Profile.objects.in_bulk(job.profiles)
    if len(rows) < len(set(job.profiles)):  # deleted since the request was checked
        raise DomainError("not_found", status=404)
    profiles = [rows[number] for number in job.profiles]
    if len(profiles) > 1:
        return pieces_of_comparison(profiles, query, job.name)
    if job.printed is not None:
        return printed_pieces(profiles[0], query, job.printed)
    return pieces_of(profiles[0], query, job.name)
