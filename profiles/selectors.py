"""Selectors of profiles, imports, measurements and artifacts, limited to what a user may see."""

from typing import Any

from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from accounts.models import User
from agent.protocol.artifacts import profile_number
from profiles.analysis.numbers import share
from profiles.comparison.paired_operators import ArmChanges
from profiles.imports.local_files import attempts_to_open
from profiles.models import AttemptMeasurement, PairedResult, Profile, ProfileUpload
from profiles.presenters.attempt_messages import (
    DISTURBED_RUN,
    artifact_help,
    artifact_title,
    device_rows,
    device_share_text,
    device_speed_text,
    disturbance_notes,
    disturbance_word,
    pass_words,
)
from profiles.presenters.explanations import EXPLANATIONS
from profiles.presenters.statistics import has_noisy_overhead, latency_words, overhead_percent
from profiles.retention.deletion import refuse_removed
from tasks.baselines import baseline_of
from tasks.models import Artifact, Purpose, Task
from tasks.selectors import listed_tasks
from tasks.submission.plans import plan_rows
from webprofile.errors import DomainError
from webprofile.messages.notes import details_text, note_text

IO_DUMP_NAME = "bin_io_dump.zip"
#: maximum number of tasks that are offered for a comparison
MOST_CHOICES = 50


def visible_profiles(user: User) -> QuerySet[Profile]:
    """Return the profiles of the user's tasks and imports; all profiles for administrators."""
    profiles = Profile.objects.select_related(
        "attempt__task__worker", "attempt__task__owner", "upload__owner"
    )
    if user.is_staff:
        return profiles
    return profiles.filter(Q(attempt__task__owner=user) | Q(upload__owner=user))


def profile_of(task: Task) -> Profile | None:
    """Return the profile of the task's successful attempt."""
    return Profile.objects.filter(attempt__task=task).select_related("attempt").first()


def baseline_profile(task: Task) -> Profile | None:
    """Return the profile of the baseline pinned for the task's owner, model and device.

    None if none is pinned, if it is the task itself, and if it has no profiled pass. It has the
    same owner, so every user who may see the task may see it; a share link covers its own task
    only. `measurement_of(baseline_of(task))` is the measurement.
    """
    baseline = baseline_of(task)
    return profile_of(baseline) if baseline and baseline != task else None


def measurement_of(task: Task) -> AttemptMeasurement | None:
    """Return the measurement of the task's successful attempt; None if the agent sent none."""
    measurements = AttemptMeasurement.objects.filter(attempt__task=task)
    return measurements.select_related("attempt").first()


def paired_of(task: Task) -> PairedResult | None:
    """Return the result of a paired comparison; None if the task is none, or has none (yet)."""
    return PairedResult.objects.filter(attempt__task=task).first() if task.is_paired else None


def paired_changes(profile: Profile) -> ArmChanges | None:
    """Return what arm B of a paired comparison changed, of which this is the baseline's profile.

    None for other profiles, and if the arms could not be profiled.
    """
    paired = paired_of(profile.task) if profile.task else None
    return paired.operators[0] if paired and paired.operators else None


def plan_title(task: Task) -> str:
    """Return the title that the submission form has for the task's plan, or the limit of pairs."""
    if task.pairing is not None:
        return _("pairs, at most %(seconds)s s") % {"seconds": task.pairing["budget_s"]}
    titles = {row["preset"]: row["title"] for row in plan_rows()}
    preset = str(task.plan.get("preset", ""))
    return str(titles.get(preset, preset))


def measurement_view(
    measurement: AttemptMeasurement | None, *, is_shared: bool = False
) -> dict[str, Any] | None:
    """Return the template context of a measurement, with translated texts.

    is_shared: without the names of other processes on the device
    """
    if measurement is None:
        return None
    return {
        "row": measurement,
        "passes": [
            {
                **row,
                "word": word,
                "waited_percent": share(row.get("waited"), absent=""),
                "disturbed": bool(row.get("disturbed_by")),
            }
            for row, word in zip(measurement.passes, pass_words(measurement), strict=True)
        ],
        "disturbed_title": str(DISTURBED_RUN["title"]) if measurement.disturbances else "",
        "disturbance_notes": disturbance_notes(measurement, with_names=not is_shared),
        "disturbances": [
            {
                "word": disturbance_word(disturbance["code"]),
                "detail": "" if is_shared else details_text(disturbance["details"] or ()),
            }
            for disturbance in measurement.disturbances
        ],
        "notes": [] if is_shared else [note_text(note) for note in measurement.notes],
        "is_cut": measurement.is_cut,
        "device": device_rows(measurement.device),
        "latency": latency_words(measurement),
        "cv_percent": share(measurement.cv, absent=""),
        "device_cv_percent": share(measurement.device_cv, absent=""),
        "overhead_percent": overhead_percent(measurement),
        "overhead_is_noise": has_noisy_overhead(measurement),
        "has_memory": bool(_known(measurement, "host_memory_bytes")),
        "has_gpu_memory": bool(_known(measurement, "gpu_memory_bytes")),
        "has_sampled_memory": "samples" in _known(measurement, "memory_method"),
        "waited_s": _seconds(measurement.gate.get("waited_s")),
        "device_speed": device_speed_text(measurement),
        "device_share": device_share_text(measurement),
        "explain": EXPLANATIONS,
    }


def _known(measurement: AttemptMeasurement, name: str) -> list[Any]:
    """Return the values of a column of the passes, without those that are missing."""
    return [value for row in measurement.passes if (value := row.get(name)) is not None]


def artifacts_of(task: Task) -> list[dict[str, Any]]:
    """Return the files of a task's attempts, stored or removed by retention; last attempt first."""
    known = Q(is_stored=True) | Q(removed_at__isnull=False)
    artifacts = Artifact.objects.filter(known, attempt__task=task).select_related("attempt")
    attempts: dict[int, list[dict[str, Any]]] = {}
    for artifact in sorted(artifacts, key=_sort_key):
        row = {
            "artifact": artifact,
            "title": artifact_title(artifact.name),
            "help": artifact_help(artifact.name, is_script=task.is_script),
        }
        attempts.setdefault(artifact.attempt.number, []).append(row)
    may_open = attempts_to_open(task)
    return [
        {"number": number, "files": files, "may_open": number in may_open}
        for number, files in attempts.items()
    ]


def _sort_key(artifact: Artifact) -> tuple[int, int, str]:
    """Sort the last attempt first, and its profiles last, by their numbers."""
    return (-artifact.attempt.number, profile_number(artifact.name) or 0, artifact.name)


def dump_of(task: Task) -> Artifact | None:
    """Return the latest binary dump of all variables of a task; None without one."""
    return _dumps().filter(attempt__task=task).order_by("-attempt__number").first()


def get_dump(task: Task) -> Artifact:
    """Return the latest binary dump of a task. Raises DomainError dump_missing, removed_by_rule."""
    dump = dump_of(task)
    if dump is None:
        removed = Artifact.objects.filter(attempt__task=task, name=IO_DUMP_NAME)
        refuse_removed(removed.exclude(removed_at=None).order_by("-attempt__number").first())
        raise DomainError("dump_missing", status=404, task=task.pk)
    return dump


def tasks_with_dumps(task: Task, user: User) -> list[Task]:
    """Return the user's other tasks whose dumps can be compared with this one's, newest first."""
    tasks = listed_tasks(user).exclude(pk=task.pk)
    with_dump = _dumps().values("attempt__task_id")
    return list(tasks.filter(pk__in=with_dump)[:MOST_CHOICES])


def _dumps() -> QuerySet[Artifact]:
    return Artifact.objects.filter(name=IO_DUMP_NAME, is_stored=True).select_related("attempt")


def _seconds(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 < value <= 2**63 else None


def visible_imports(user: User) -> QuerySet[ProfileUpload]:
    """Return the user's imports, newest first; those of all users for administrators."""
    uploads = ProfileUpload.objects.exclude(state=ProfileUpload.State.DELETED)
    uploads = uploads.select_related("owner", "profile").prefetch_related("files")
    return uploads if user.is_staff else uploads.filter(owner=user)


def latest_results(user: User) -> list[Profile]:
    """Return the ten newest profiles of the user's tasks."""
    own = Q(attempt__task__owner=user, attempt__task__purpose=Purpose.USER)
    profiles = visible_profiles(user).filter(own).order_by("-pk")
    return list(profiles.prefetch_related("attempt__task__files")[:10])
