"""Factories of results, which are tasks with real profiles, and requests of their pages."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from accounts.models import User
from agent.protocol.messages import AttemptFinished, EndReason, FileOffer
from profiles.models import AttemptMeasurement, Profile
from profiles.services import build_attempt_profile
from profiles.tests.response_checks import response_faults
from tasks.lifecycle.artifacts import offer_artifacts, record_artifacts
from tasks.models import Attempt, Task, artifact_key
from tasks.states import Outcome, TaskState
from tasks.tests.make import MODEL, make_attempt, make_user, make_waiting_task, receive_report
from webprofile.storage import storage

LOG = b"[20 22:51:34 @:88] iter 0/10: e2e=7.697 ms (host=0.224 ms)\n"


def policy_of(response: HttpResponse) -> dict[str, str]:
    """Return the directives of a response's Content-Security-Policy."""
    parts = response["Content-Security-Policy"].split(";")
    return dict(part.strip().split(" ", 1) for part in parts)


def get_page(client: Client, profile: Profile, query: str = "", language: str = "en") -> str:
    """Return all views of a profile's page, which must have no defects."""
    return whole_page(client, f"/profiles/{profile.pk}/{query}", language)


def whole_page(client: Client, address: str, language: str = "en") -> str:
    """Return the page of a result followed by its other views, which must have no defects."""
    headers = {"Accept-Language": language}
    response = client.get(address, headers=headers, follow=True)
    assert response.status_code == 200
    assert response_faults(response) == []
    query = address.partition("?")[2]
    texts = [response.text]
    for tab in re.findall(r'<a class="tabs__tab" href="([^"]+)" data-view="\w+">', response.text):
        view = client.get(f"{tab}?part=1&{query}", headers=headers)
        assert view.status_code == 200
        texts.append(view.text)
    return "".join(texts)


def make_result(*profiles: bytes, owner=None) -> Profile:
    """Return the profile of a succeeded task; `profiles` are the files of its profiled passes."""
    names = ["profile.json", *(f"profile-{number}.json" for number in range(2, len(profiles) + 1))]
    files = dict(zip(names, profiles, strict=True)) | {"log.txt": LOG}
    attempt = ended_attempt(files, owner)
    attempt.task.refresh_from_db()
    build_attempt_profile(attempt)
    return Profile.objects.get(attempt=attempt)


def ended_attempt(
    files: Mapping[str, bytes], owner: User | None = None, /, **task_fields: Any
) -> Attempt:
    """Return an attempt of a task in state processing whose files are in storage."""
    attempt = make_attempt(make_waiting_task(owner or make_user(), **task_fields))
    store_artifacts(attempt, files)
    report = AttemptFinished(attempt=attempt.pk, at=0.0, reason=EndReason.EXITED, exit_code=0)
    receive_report(attempt, report)
    return attempt


def store_models(task: Task) -> None:
    """Put the models of a task into storage, which its page draws."""
    for file in task.files.filter(kind="model"):
        storage.write(file.object_key, MODEL)


def store_artifacts(attempt: Attempt, files: Mapping[str, bytes]) -> None:
    """Store the files and record them as artifacts of the attempt."""
    offers = []
    for name, content in files.items():
        storage.write(artifact_key(str(attempt.pk), name), content)
        digest = hashlib.md5(content).hexdigest()
        offers.append(FileOffer(name=name, size_bytes=len(content), md5=digest))
    offer_artifacts(attempt, offers)
    record_artifacts(attempt, offers)


def add_measurement(
    profile: Profile, device_totals_s: Sequence[float] = (), **figures: Any
) -> AttemptMeasurement:
    """Create a measurement of a profile's attempt; `device_totals_s` has a total for each pass."""
    return AttemptMeasurement.objects.create(
        attempt=profile.attempt, device_totals_s=list(device_totals_s), **figures
    )


def make_equal_runs(profile: Profile, *runs: Sequence[float], **figures: Any) -> None:
    """Create finished runs equal to that of a profile; `runs` are device totals of passes, s."""
    task = Task.objects.get(pk=profile.attempt.task_id)
    files, now = list(task.files.all()), timezone.now()
    for totals_s in runs:
        task.pk, task.state, task.outcome = None, TaskState.FINISHED, Outcome.SUCCEEDED
        task.save(force_insert=True)
        for file in files:
            file.pk, file.task = None, task
            file.save(force_insert=True)
        attempt = Attempt.objects.create(
            task=task, worker=task.worker, number=1, slot=0, ended_at=now, lease_expires_at=now
        )
        AttemptMeasurement.objects.create(
            attempt=attempt, device_totals_s=list(totals_s), **figures
        )
