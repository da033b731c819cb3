"""The origin of a profile, which all exports contain."""

import re
from typing import Any

from django.conf import settings
from django.urls import reverse
from django.utils import timezone

from agent.protocol.artifacts import TRACE_NAMES, profile_number
from profiles.models import AttemptMeasurement, Profile
from tasks.models import Attempt

_NOT_IN_NAMES = re.compile(r"[^\w.+-]+")
_LONGEST_NAME = 80


def provenance(profile: Profile) -> dict[str, Any]:
    """Return title, source, and all known facts about device, versions, command, files, checksums,
    dates; of a task with a clean pass also its `latency`, else None.

    Times are ISO 8601 in UTC. No value names a user.
    """
    known = {
        "title": title_of(profile),
        "built_at": profile.built_at.isoformat(),
        "exported_at": timezone.now().isoformat(timespec="seconds"),
        "warnings": list(profile.warnings),
    }
    if profile.attempt is not None:
        return known | _of_attempt(profile.attempt)
    upload = profile.upload
    return known | {
        "source": "upload",
        "upload": profile.upload_id,
        "opened_at": upload.created_at.isoformat() if upload else None,
        "url": settings.SITE_URL + profile.page_url,
        "profiles": [
            {"name": file.name, "size_bytes": file.size_bytes, "md5": file.md5}
            for file in (upload.files.all() if upload else ())
        ],
    }


def _of_attempt(attempt: Attempt) -> dict[str, Any]:
    task = attempt.task
    facts, measurement = attempt.worker.facts, getattr(attempt, "measurement", None)
    return {
        "source": "task",
        "task": task.pk,
        "task_title": task.title,
        "attempt": attempt.number,
        "url": settings.SITE_URL + reverse("tasks:detail", args=[task.pk]),
        "finished_at": task.finished_at.isoformat() if task.finished_at else None,
        "device": attempt.worker.name,
        "cpu": str(facts.get("cpu_model", "")),
        "gpus": [str(gpu.get("name", "")) for gpu in facts.get("gpus") or []],
        "megengine": task.runtime_version,
        "kind": task.kind,
        "script": task.script,
        "plan": None if task.is_script else task.plan,
        "pairing": task.pairing,
        "options": task.options,
        "seed": task.seed,
        "command": attempt.command,
        "latency": _latency(measurement),
        "ended_early": measurement is not None and measurement.is_cut,
        "host_memory_bytes": attempt.host_memory_bytes,
        "gpu_memory_bytes": attempt.gpu_memory_bytes,
        "files": [
            {
                "name": file.name,
                "kind": file.kind,
                "arm": file.arm,
                "input": file.input,
                "option": file.option,
                "size_bytes": file.size_bytes,
                "md5": file.md5,
                "sha256": file.sha256,
            }
            for file in task.files.all()
        ],
        "profiles": [
            {"name": artifact.name, "size_bytes": artifact.size_bytes, "md5": artifact.md5}
            for artifact in attempt.artifacts.filter(is_stored=True).order_by("pk")
            if profile_number(artifact.name) or artifact.name in TRACE_NAMES
        ],
    }


#: fields of a measurement on the iterations without the profiler
_LATENCY = (
    "iterations", "median_ms", "mean_ms", "p90_ms", "p99_ms", "min_ms", "max_ms", "cv",
    "steady_state", "modes", "interval",
)  # fmt: skip


def _latency(measurement: AttemptMeasurement | None) -> dict[str, Any] | None:
    if measurement is None or measurement.median_ms is None:
        return None
    known = {name: getattr(measurement, name) for name in _LATENCY}
    # unknown ones are null, as in the API
    return known | {name: known[name] or None for name in ("steady_state", "interval")}


def title_of(profile: Profile) -> str:
    """Return the file name of the model or program, or the name that the owner gave an import."""
    if profile.task is not None:
        return profile.task.model_name
    return profile.upload.name if profile.upload else ""


def file_name(profile: Profile, ending: str) -> str:
    """Return a file name of letters, digits and `_.+-`: `resnet18-task-7.csv`."""
    stem = title_of(profile)
    for suffix in (".mge", ".json", ".py", ".zip"):
        stem = stem.removesuffix(suffix)
    clean = _NOT_IN_NAMES.sub("-", stem).strip("-.")[:_LONGEST_NAME] or "profile"
    if profile.attempt is not None:
        return f"{clean}-task-{profile.attempt.task_id}{ending}"
    return f"{clean}-opened-{profile.upload_id}{ending}"
