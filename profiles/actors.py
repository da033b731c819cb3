"""Dramatiq actors of profiles: load a row by its id and call one service."""

import dramatiq
import structlog
from django.db.utils import OperationalError
from structlog.contextvars import bind_contextvars

from profiles.imports.processing import read_import
from profiles.imports.uploads import fail_import
from profiles.ingest.rebuild import RebuildError, rebuild_derived
from profiles.models import Profile, ProfileUpload
from profiles.readings import claimed_reading, waiting_owners
from profiles.services import build_attempt_profile
from tasks.lifecycle.outcomes import fail_task
from tasks.lifecycle.reasons import Reason
from tasks.lifecycle.tracing import trace_result
from tasks.models import Attempt
from webprofile import background
from webprofile.errors import DomainError

log = structlog.get_logger()


@dramatiq.actor(
    queue_name="profiles", max_retries=5, min_backoff=1_000, max_backoff=30_000, time_limit=300_000
)
def build_profile(attempt_id: str) -> None:
    """Build the profile of an attempt. Idempotent; retried while storage is unreachable."""
    rows = Attempt.objects.select_related("task", "worker").prefetch_related("artifacts")
    attempt = rows.filter(pk=attempt_id).first()
    if attempt is None:
        return  # its task was deleted meanwhile
    bind_contextvars(task=attempt.task_id, attempt=attempt_id, worker=attempt.worker.name)
    try:
        with trace_result(attempt):
            build_attempt_profile(attempt)
    except (DomainError, OperationalError):
        raise  # storage or database do not answer, or the site is being stopped: Dramatiq retries
    except Exception:
        # a file that breaks our own code must not leave its task behind
        log.exception("profile_broke")
        fail_task(attempt.task, reason=Reason.PROFILE_UNREADABLE.code)


# results of runs have priority (their value is the default, 0)
@dramatiq.actor(
    queue_name="profiles",
    priority=10,
    max_retries=5,
    min_backoff=1_000,
    max_backoff=30_000,
    time_limit=300_000,
)
def build_opened(upload_id: int | None = None) -> None:
    """Read the import or rebuild the profile whose turn it is (`profiles.readings`).

    upload_id: the import that caused the message; another one may be read
    Idempotent; retried while storage is unreachable.
    """
    slots = background.long_work
    if not slots.acquire(blocking=False):
        return  # the thread that has finished its reading goes on with the next one
    try:
        with claimed_reading() as row:
            if isinstance(row, ProfileUpload):
                _read(row)
            elif row is not None:
                _rebuild(row)
    finally:
        slots.release()
    if waiting_owners():
        build_opened.send()


@dramatiq.actor(
    queue_name="profiles",
    priority=10,
    max_retries=5,
    min_backoff=1_000,
    max_backoff=30_000,
    time_limit=300_000,
)
def rebuild_profile(profile_id: int) -> None:
    """As `build_opened`; `profile_id` is the profile that caused the message."""
    build_opened()


def _read(upload: ProfileUpload) -> None:
    try:
        read_import(upload)
    except DomainError:
        raise  # storage is unreachable, or the site is being stopped: Dramatiq retries
    except Exception:
        # a file that breaks our own code must not leave its row behind
        log.exception("upload_broke", upload=upload.pk)
        fail_import(upload, "broke")


def _rebuild(profile: Profile) -> None:
    try:
        rebuild_derived(profile)
    except RebuildError as error:
        log.warning("profile_not_rebuilt", profile=profile.pk, error=str(error))
    except (DomainError, OperationalError, OSError):
        raise  # says nothing about the files: Dramatiq, and later the sweep, repeat it
    except Exception:
        # otherwise each reader would request it again and be told to wait
        log.exception("rebuild_broke", profile=profile.pk)
        Profile.objects.filter(pk=profile.pk).update(problem="broke", rebuild_hinted_at=None)
