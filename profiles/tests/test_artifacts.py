"""Artifacts of attempts: which names and sizes are accepted, links to them, comparison of dumps."""

import io

import numpy as np
import pytest
from django.core.management import call_command

from agent.protocol.artifacts import LIMITS, TOTAL_LIMIT_BYTES, limit_of
from agent.protocol.messages import (
    AttemptFinished,
    AttemptUploads,
    EndReason,
    FileOffer,
    StoredFile,
)
from agent.protocol.notes import Note
from profiles.analysis.io_dump import compare
from profiles.presenters.attempt_messages import ARTIFACTS, artifact_title
from profiles.tests.dumps import make_files, write_folder, zip_bytes
from tasks.dispatch import gateway
from tasks.lifecycle.artifacts import offer_artifacts, record_artifacts
from tasks.lifecycle.attempts import assign_attempt, lose_attempt
from tasks.models import Artifact, Task, TaskFile, artifact_key
from tasks.selectors import files_with_sums
from tasks.tests.make import MD5, fail_run, make_attempt, make_user, make_waiting_task
from webprofile.storage import storage as object_store

pytestmark = [pytest.mark.django_db, pytest.mark.database, pytest.mark.object_storage]

MIB = 1 << 20


def offer(name: str, size_bytes: int = 10) -> FileOffer:
    return FileOffer(name=name, size_bytes=size_bytes, md5=MD5)


def signed_names(attempt, *offers: FileOffer) -> list[str]:
    """Request upload URLs for the offers, and return the names that received one."""
    request = AttemptUploads(attempt=attempt.pk, files=offers)
    (reply,) = gateway.on_uploads(attempt.worker, request)
    return [target.name for target in reply.targets if target.url]


def finish(attempt, *files: FileOffer, **more) -> None:
    """End an attempt, after which storage holds these files."""
    offer_artifacts(attempt, files)
    record_artifacts(attempt, files)
    fields = {"at": 0.0, "reason": EndReason.EXITED, "exit_code": 1} | more
    report = AttemptFinished(attempt=attempt.pk, **fields)
    gateway.handle(attempt.worker, report)


def test_known_names_within_their_size_limits_get_an_upload_url():
    attempt = make_attempt()
    offers = [
        offer("log.txt"),
        offer("profile.json"),
        offer("profile-50.json"),
        offer("profile-51.json"),
        offer("profile-02.json"),
        offer("columns.npz"),
        offer("manifest.json", limit_of("manifest.json") + 1),
    ]
    assert signed_names(attempt, *offers) == ["log.txt", "profile.json", "profile-50.json"]


def test_the_total_size_limit_counts_files_of_several_requests():
    attempt = make_attempt()
    large = 2048 * MIB
    assert signed_names(attempt, offer("bin_io_dump.zip", large)) == ["bin_io_dump.zip"]
    assert signed_names(attempt, offer("model_dump.mge", large)) == ["model_dump.mge"]
    assert large * 2 == TOTAL_LIMIT_BYTES
    assert signed_names(attempt, offer("log.txt")) == []
    # the same file again, and a smaller version of it
    assert signed_names(attempt, offer("model_dump.mge", large)) == ["model_dump.mge"]
    assert signed_names(attempt, offer("model_dump.mge", 1), offer("log.txt")) == [
        "model_dump.mge",
        "log.txt",
    ]


def test_an_artifact_exists_after_the_agent_has_reported_it(client):
    attempt = make_attempt()
    signed_names(attempt, offer("log.txt", 1))
    client.force_login(attempt.task.owner)
    address = f"/tasks/{attempt.task_id}/artifacts/log.txt"
    assert client.get(address).status_code == 404
    assert "No attempt of this task has files" not in client.get(f"/tasks/{attempt.task_id}/").text
    finish(attempt, offer("log.txt", 7))
    assert artifact_key(str(attempt.pk), "log.txt") in client.get(address)["Location"]
    assert list(Artifact.objects.values_list("name", "size_bytes")) == [("log.txt", 7)]


def test_files_of_earlier_attempts_stay_on_the_page(client):
    first = make_attempt()
    offer_artifacts(first, [offer("log.txt", 1)])
    record_artifacts(first, [offer("log.txt", 1)])
    lose_attempt(first, reason="lease_expired")
    task = Task.objects.get(pk=first.task_id)
    # where transactions commit, it was assigned already
    second = task.attempts.filter(number=2).first() or assign_attempt(task, slot=0)
    finish(second, offer("log.txt", 2), offer("algo_cache.bin", 3))
    client.force_login(first.task.owner)
    page = client.get(f"/tasks/{first.task_id}/").text
    for number, name in ((1, "log.txt"), (2, "log.txt"), (2, "algo_cache.bin")):
        address = f"/tasks/{first.task_id}/attempts/{number}/artifacts/{name}"
        assert address in page
        assert client.get(address).status_code == 302
    assert str(ARTIFACTS["algo_cache.bin"][0]) in page
    client.force_login(make_user("carol"))
    assert client.get(address).status_code == 404


def test_the_page_of_a_finished_task_without_files_says_so(client):
    attempt = make_attempt()
    fail_run(attempt)
    client.force_login(attempt.task.owner)
    assert "No attempt of this task has files" in client.get(f"/tasks/{attempt.task_id}/").text


def test_every_artifact_has_a_title():
    assert set(ARTIFACTS) == set(LIMITS)
    assert artifact_title("profile-7.json") == "Profile 7"


def known_sha256(file: TaskFile) -> str:
    return files_with_sums().get(pk=file.pk).known_sha256


def test_sha256_from_an_agent_applies_to_equal_files_of_the_same_owner():
    alice = make_user()
    attempt = make_attempt(make_waiting_task(alice))
    model = attempt.task.files.get(kind="model")
    assert known_sha256(model) == ""
    finish(attempt, received=(StoredFile(name="model.mge", sha256="a" * 64),))
    assert TaskFile.objects.get(pk=model.pk).sha256 == "a" * 64
    again = make_waiting_task(alice).files.get(kind="model")
    assert known_sha256(again) == "a" * 64
    stranger = make_waiting_task(make_user("carol")).files.get(kind="model")
    assert known_sha256(stranger) == ""


X = np.ones((2, 3), np.float32)


@pytest.fixture
def tasks(storage):
    """Two tasks of the same user with dumps that differ in one of two variables."""
    alice, tasks = make_user(), []
    for value in (1.0, 2.0):
        attempt = make_attempt(make_waiting_task(alice))
        data = zip_bytes(make_files({(1, "conv"): X, (3, "RELU"): X * value}))
        object_store.write(artifact_key(str(attempt.pk), "bin_io_dump.zip"), data)
        finish(attempt, offer("bin_io_dump.zip", len(data)))
        tasks.append(attempt.task)
    return tasks


@pytest.fixture
def address(client, tasks):
    """The page that compares the dumps; `client` is logged in as the owner."""
    a, b = tasks
    client.force_login(a.owner)
    return f"/tasks/{a.pk}/compare-io/{b.pk}/"


def test_the_dumps_of_two_tasks_are_compared_on_a_page(client, tasks, address):
    a, b = tasks
    assert f'value="{b.pk}"' in client.get(f"/tasks/{a.pk}/").text
    redirect = client.get(f"/tasks/{a.pk}/compare-io/", {"other": b.pk})
    assert redirect["Location"] == address
    page = client.get(address)
    assert [row["status"] for row in page.context["page"]] == ["equal", "values"]
    assert 'id="first"' in page.text
    assert "1 of 2 variables differs." in page.text
    filtered = client.get(address, {"differing": "1"})
    assert [row["variable"] for row in filtered.context["page"]] == ["RELU"]
    equal = client.get(f"/tasks/{a.pk}/compare-io/{a.pk}/")
    assert "equal within the tolerance" in equal.text


def test_dumps_that_are_missing_foreign_or_damaged_are_refused(client, tasks, address):
    a, b = tasks
    without_dump = make_waiting_task(a.owner)
    assert client.get(f"/tasks/{a.pk}/compare-io/{without_dump.pk}/").status_code == 404
    assert client.get(f"/tasks/{a.pk}/compare-io/", {"other": "x"}).status_code == 404
    artifact = b.attempts.get().artifacts.get()
    object_store.write(artifact.object_key, b"no zip")
    Artifact.objects.filter(pk=artifact.pk).update(md5="0" * 32)
    assert client.get(address).status_code == 422
    client.force_login(make_user("carol"))
    assert client.get(address).status_code == 404


def run_command(*arguments: str) -> tuple[int, str]:
    out = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("compare_binary_iodump", *arguments, stdout=out, stderr=out)
    return ended.value.code, out.getvalue()


def test_the_command_compares_tasks_zips_and_folders(tasks, tmp_path):
    a, b = (str(task.pk) for task in tasks)
    files = make_files({(1, "conv"): X, (3, "RELU"): X})
    folder = str(write_folder(tmp_path / "dump", files))
    (tmp_path / "dump.zip").write_bytes(zip_bytes(files))
    code, text = run_command(a, b)
    assert (code, "first values: op[7] Elemwise RELU [000003]" in text) == (1, True)
    assert "1 of 2 variables differ" in text
    assert run_command(a, folder) == (0, "0 of 2 variables differ\n")
    assert run_command(folder, str(tmp_path / "dump.zip"))[0] == 0
    assert run_command(a, b, "-e", "0.6")[0] == 0
    code, text = run_command(a, "999999")
    assert (code, "is not a folder" in text) == (2, True)


def test_the_command_shows_no_control_characters_of_names(tmp_path):
    folders = [
        str(write_folder(tmp_path / folder, make_files({(1, "x\x1b[2Jy"): X * value})))
        for folder, value in (("a", 1.0), ("b", 2.0))
    ]
    code, text = run_command(*folders)
    assert (code, "x\ufffd[2Jy" in text, "\x1b" in text) == (1, True, False)


def test_the_command_words_errors_of_storage(tasks):
    a, b = tasks
    object_store.delete(a.attempts.get().artifacts.get().object_key)
    code, text = run_command(str(a.pk), str(b.pk))
    assert (code, text) == (2, "The file is no longer in storage.\n")


def test_the_agent_receives_the_reason_for_a_refused_file():
    attempt = make_attempt()
    limit = limit_of("manifest.json")
    request = AttemptUploads(
        attempt=attempt.pk,
        files=(offer("log.txt"), offer("evil.sh"), offer("manifest.json", limit + 1)),
    )
    (reply,) = gateway.on_uploads(attempt.worker, request)
    assert [target.refused for target in reply.targets] == [
        None,
        Note.of("refused_name"),
        Note.of("refused_size", size=limit + 1, limit=limit),
    ]
    finish(attempt)
    (reply,) = gateway.on_uploads(attempt.worker, request)
    assert {(target.url, target.refused) for target in reply.targets} == {("", None)}


def test_the_link_to_the_first_difference_points_to_its_page(client, address, monkeypatch):
    monkeypatch.setattr("profiles.views.compare.COMPARE_ROWS", 1)
    assert 'href="?page=2#first"' in client.get(address).text
    assert 'id="first"' in client.get(address, {"page": 2}).text
    assert 'href="?page=1&amp;differing=1#first"' in client.get(address, {"differing": 1}).text


def test_a_second_request_during_a_comparison_returns_503(client, address, monkeypatch):
    responses = []

    def reload_and_compare(*sides, **more):
        responses.append(client.get(address))
        return compare(*sides, **more)

    monkeypatch.setattr("profiles.comparison.dumps.compare", reload_and_compare)
    assert client.get(address).status_code == 200
    (response,) = responses
    assert response.status_code == 503
    assert "being compared" in response.text
    assert client.get(address).status_code == 200
    assert len(responses) == 1


@pytest.mark.parametrize("limit", ["PACKED_LIMIT_BYTES", "UNPACKED_LIMIT_BYTES"])
def test_dumps_that_are_too_large_for_the_page_are_refused_with_a_command(
    client, address, monkeypatch, limit
):
    monkeypatch.setattr(f"profiles.comparison.dumps.{limit}", 100)
    response = client.get(address)
    assert response.status_code == 422
    assert "compare_binary_iodump" in response.text
