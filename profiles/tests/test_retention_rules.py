"""`RETENTION`: what rules remove and keep, and what rows, pages and the API show."""

import datetime
import io
import re

import httpx2
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.utils import timezone

from profiles.models import AttemptMeasurement, Profile, RemovedObjects
from profiles.retention.deletion import keep_task_files, sweep_removed_files
from profiles.retention.policy import DUMPS, POLICIES, retention_sweep
from profiles.tests.make import (
    SLOWER,
    finish_in_pairs,
    make_pairing,
    make_profile,
    operator_files,
    put_files,
    remove_expired_objects,
    to_json,
    verify,
)
from profiles.tests.pages import make_result, store_artifacts, whole_page
from tasks.models import Artifact, Attempt, LogChunk, Mark, Task, TaskFile, artifact_key
from tasks.tests.make import data_file, make_task, make_user, make_waiting_task, model_file
from webprofile.settings.environment import retention_rules
from webprofile.storage import storage as object_store
from webprofile.tests.documented_api import expect_problem

pytestmark = [pytest.mark.django_db, pytest.mark.database, pytest.mark.object_storage]

LONG_AGO = datetime.timedelta(days=40)
DUMP = b"values of all variables"


@pytest.fixture
def ended_task(storage, settings):
    """A task that ended 40 days ago; all its files are in storage."""
    # on a slow machine, the device must not become offline
    settings.HEARTBEAT_S = 600
    settings.RETENTION = retention_rules("dumps=30d files=30d logs=30d")
    return make_ended_task()


def make_ended_task(owner=None):
    profile = make_result(to_json(make_profile({"1": 0.25})), owner=owner)
    attempt = profile.attempt
    store_artifacts(attempt, dict.fromkeys(("bin_io_dump.zip", "algo_cache.bin"), DUMP))
    LogChunk.objects.create(attempt=attempt, seq=1, offset=0, size=4, text="done")
    put_files(attempt.task)
    Task.objects.filter(pk=attempt.task_id).update(finished_at=timezone.now() - LONG_AGO)
    return Task.objects.get(pk=attempt.task_id)


def stored_names(task):
    artifacts = Artifact.objects.filter(attempt__task=task, is_stored=True)
    return set(artifacts.values_list("name", flat=True))


def sweep_all():
    """Run the sweep until nothing is left to remove."""
    for _ in range(3):
        retention_sweep()
    Mark.objects.all().delete()


def purge(*arguments):
    out = io.StringIO()
    call_command("purge", *arguments, stdout=out)
    return out.getvalue()


def all_rows():
    models = (Task, Attempt, TaskFile, Artifact, LogChunk, Profile, RemovedObjects, Mark)
    return [list(model.objects.order_by("pk").values_list()) for model in models]


def test_a_dry_run_lists_removals_by_kind_and_owner_and_changes_nothing(ended_task):
    make_ended_task(make_user("bob"))
    before = all_rows()
    for text in (purge(), purge("--dry-run")):
        lines = text.splitlines()
        dumps = [line for line in lines if line.startswith("dumps, 30 days")]
        assert len(dumps) == 2
        assert any("bob@example.com" in line and "23" in line for line in dumps)
        assert any(line.startswith("files, 30 days") and "bob" in line for line in lines)
        assert lines[-1].startswith("Nothing was removed")
    assert all_rows() == before


def test_older_than_overrides_the_days_of_a_rule(ended_task):
    def purge_only(kind, days, *arguments):
        return purge("--older-than", days, "--only", kind, *arguments)

    assert "caches, 10 days" in purge_only("caches", "10")
    assert "total" in purge_only("dumps", "50")
    assert "dumps, 50 days" not in purge_only("dumps", "50")
    assert "Rows removed: 1." in purge_only("dumps", "20", "--yes")
    assert Artifact.objects.get(name="bin_io_dump.zip").kept_days == 20
    with pytest.raises(CommandError, match="needs --older-than"):
        purge("--only", "dumps")


def test_rules_remove_files_and_logs_but_not_the_result(ended_task, client):
    sweep_all()
    assert stored_names(ended_task) == {"profile.json", "log.txt", "algo_cache.bin"}
    dump = Artifact.objects.get(name="bin_io_dump.zip")
    assert (dump.kept_days, dump.size_bytes) == (30, len(DUMP))
    assert timezone.now() - dump.removed_at < datetime.timedelta(minutes=1)
    assert set(ended_task.files.values_list("kept_days", flat=True)) == {30}
    assert LogChunk.objects.count() == 0
    attempt = Attempt.objects.get()
    assert (attempt.log_kept_days, attempt.log_removed_at is None) == (30, False)
    client.force_login(ended_task.owner)
    assert client.get(f"/tasks/{ended_task.pk}/").status_code == 200


def test_rules_remove_the_files_of_all_arms_but_not_the_pairs(storage, settings, client):
    settings.RETENTION = retention_rules("dumps=30d failed=30d files=30d")
    files = [model_file(), model_file(name="new.mge", arm=1)]
    task = make_waiting_task(pairing=make_pairing(), files=files)
    operators = operator_files({"1": 1000.0}, {"1": 1100.0})
    finish_in_pairs(task, SLOWER, operators=operators)
    put_files(task)
    Task.objects.update(finished_at=timezone.now() - LONG_AGO)
    sweep_all()
    assert stored_names(task) == {"paired.json", "measurement.json", *operators}
    assert dict(task.files.values_list("arm", "kept_days")) == {0: 30, 1: 30}
    client.force_login(task.owner)
    assert "B is 10.0 % slower than A" in whole_page(client, f"/tasks/{task.pk}/")
    assert verify() == []
    remove_expired_objects()
    assert [object_store.head(file.object_key) for file in task.files.all()] == [None, None]


def test_objects_are_removed_after_their_presigned_urls_expire(ended_task):
    key = artifact_key(str(Attempt.objects.get().pk), "bin_io_dump.zip")
    address = object_store.presign_get(key)
    sweep_all()
    sweep_removed_files()
    assert httpx2.get(address).content == DUMP
    assert verify() == []
    remove_expired_objects()
    assert object_store.head(key) is None
    assert verify() == []
    # the second round removes an object that was written again
    object_store.write(key, DUMP)
    remove_expired_objects()
    assert object_store.head(key) is None
    assert RemovedObjects.objects.count() == 0
    assert verify() == []


def test_verify_reports_a_removed_object_that_is_still_stored(ended_task):
    sweep_all()
    RemovedObjects.objects.filter(prefix__endswith="bin_io_dump.zip").delete()
    ((promise, detail),) = verify()
    assert (promise, "bin_io_dump.zip" in detail) == ("orphan", True)


def test_a_second_sweep_changes_nothing_and_later_sweeps_pause(
    ended_task, django_assert_num_queries
):
    sweep_all()
    rows = all_rows()
    sweep_all()
    assert all_rows() == rows
    retention_sweep()
    with django_assert_num_queries(1):
        retention_sweep()


def test_without_rules_the_sweep_removes_no_files(ended_task, settings):
    settings.RETENTION = {}
    before = all_rows()
    sweep_all()
    assert all_rows() == before
    with pytest.raises(CommandError, match="RETENTION is empty: "):
        purge()


@pytest.mark.parametrize(
    "state", ["finished", "running", "waiting", "processing", "cancelling", "initiated"]
)
def test_recent_and_unfinished_tasks_are_not_changed(ended_task, state):
    if state == "finished":
        Task.objects.update(finished_at=timezone.now() - datetime.timedelta(days=29))
    else:
        Task.objects.update(state=state, outcome="", finished_at=None)
    before = all_rows()[:-1]
    sweep_all()
    assert all_rows()[:-1] == before


def test_files_of_an_attempt_that_has_not_ended_stay(ended_task):
    Attempt.objects.update(ended_at=None)
    sweep_all()
    assert "bin_io_dump.zip" in stored_names(ended_task)
    assert LogChunk.objects.count() == 1


def test_the_rule_for_failed_tasks_removes_profiles_without_a_result(ended_task, settings):
    settings.RETENTION = retention_rules("dumps=30d failed=30d")
    attempt = Attempt.objects.get()
    names = (
        "profile-2.json",
        "profile-b.json",
        "paired_operators.json",
        "chrome_timeline.json",
        "memory_flow.svg",
        "staticmeminfo.zip",
    )
    store_artifacts(attempt, dict.fromkeys(names, DUMP))
    before = stored_names(ended_task)
    sweep_all()
    # files from which the result was built stay as long as the result
    assert before - stored_names(ended_task) == {"bin_io_dump.zip"}
    AttemptMeasurement.objects.create(attempt=attempt)
    object_store.delete(Profile.objects.get().object_key("derived.npz"))
    Profile.objects.all().delete()
    Task.objects.update(outcome="failed", reason="script_failed")
    sweep_all()
    assert before - stored_names(ended_task) == {"bin_io_dump.zip"}
    AttemptMeasurement.objects.all().delete()
    keep_task_files(ended_task, keep=True)
    sweep_all()
    assert before - stored_names(ended_task) == {"bin_io_dump.zip"}
    keep_task_files(ended_task, keep=False)
    sweep_all()
    assert stored_names(ended_task) == {"log.txt", "algo_cache.bin"}
    remove_expired_objects()
    assert object_store.head(artifact_key(str(attempt.pk), "chrome_timeline.json")) is None
    assert verify() == []


def test_files_stay_until_a_retry_has_copied_them(ended_task):
    model = ended_task.files.get(kind="model")
    files = [model_file(md5=model.md5, size_bytes=model.size_bytes), data_file(md5="0" * 32)]
    repeat = make_task(owner=ended_task.owner, files=files)
    sweep_all()
    remaining = ended_task.files.filter(purged_at=None).values_list("kind", flat=True)
    assert list(remaining) == ["model"]
    repeat.files.update(stored_at=timezone.now())
    sweep_all()
    assert not ended_task.files.filter(purged_at=None).exists()


def test_a_cache_that_a_new_task_uses_stays(ended_task, settings):
    settings.RETENTION = retention_rules("caches=30d")
    cache = Artifact.objects.get(name="algo_cache.bin")
    task = make_task(owner=ended_task.owner)
    task.files.filter(kind="data").update(md5=cache.md5)
    sweep_all()
    assert "algo_cache.bin" in stored_names(ended_task)


def test_files_kept_between_query_and_removal_stay(ended_task):
    policy = POLICIES["dumps"]
    before = timezone.now() - datetime.timedelta(days=30)
    keys = list(policy.expired(before).values_list("pk", flat=True))
    assert keys
    keep_task_files(ended_task, keep=True)
    assert policy.remove(keys, before, 30) == 0
    assert "bin_io_dump.zip" in stored_names(ended_task)


def test_a_sweep_removes_a_limited_number_of_rows(ended_task, settings, monkeypatch):
    monkeypatch.setattr("profiles.retention.policy.PIECE", 1)
    settings.RETENTION = {"files": 30}
    remaining = []
    for _ in range(3):
        retention_sweep()
        remaining.append(ended_task.files.filter(purged_at=None).count())
    assert (remaining, Mark.objects.count()) == ([1, 0, 0], 1)


def test_purge_removes_all_rows_at_once(ended_task):
    assert "dumps, 30 days" in purge("--yes")
    assert "bin_io_dump.zip" not in stored_names(ended_task)
    assert "dumps" not in purge()


def test_rules_cannot_name_profiles_and_invalid_rules_are_refused():
    result_files = {"profile.json", "log.txt", "measurement.json", "manifest.json"}
    assert not (result_files | {"staticmeminfo.zip"}) & DUMPS
    for text in ("profiles=30d", "dumps", "dumps=0d", "dumps=3", "dumps=1d dumps=2d", "dumps=-1d"):
        with pytest.raises(ImproperlyConfigured, match="RETENTION"):
            retention_rules(text)
    assert retention_rules(" dumps=30d, logs=180d ") == {"dumps": 30, "logs": 180}
    assert retention_rules("") == {}


# -- pages and the API -----------------------------------------------------------------------------


@pytest.fixture
def owner_client(client, ended_task):
    client.force_login(ended_task.owner)
    return client


def visible_text(page):
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


def test_the_page_shows_removed_files_with_date_and_rule(owner_client, ended_task):
    sweep_all()
    page = whole_page(owner_client, f"/tasks/{ended_task.pk}/")
    removed_at = Artifact.objects.get(name="bin_io_dump.zip").removed_at
    sentence = f"removed by a retention rule on {removed_at:%Y-%m-%d} UTC , kept 30 days"
    text = visible_text(page)
    # two files, a dump, the log
    assert text.count(sentence) == 4
    assert f"bin_io_dump.zip {sentence}" in text
    assert f"The log: {sentence}" in text
    for url_end in ("bin_io_dump.zip", f"/files/{ended_task.files.first().pk}/"):
        assert f'{url_end}"' not in page
    assert 'artifacts/profile.json"' in page


def test_removed_files_are_shown_in_chinese(owner_client, ended_task):
    sweep_all()
    page = whole_page(owner_client, f"/tasks/{ended_task.pk}/", "zh-hans")
    text = visible_text(page)
    assert "按保留规则删除于" in text
    assert "，保留了 30 天" in text


def test_urls_of_removed_files_return_410_with_the_reason(owner_client, ended_task):
    file = ended_task.files.first()
    addresses = [
        f"/tasks/{ended_task.pk}/artifacts/bin_io_dump.zip",
        f"/tasks/{ended_task.pk}/files/{file.pk}/",
        f"/api/v1/tasks/{ended_task.pk}/artifacts/bin_io_dump.zip/",
        f"/api/v1/tasks/{ended_task.pk}/files/{file.pk}/",
    ]
    assert [owner_client.get(address).status_code for address in addresses] == [302] * 4
    sweep_all()
    for address in addresses:
        response = owner_client.get(address)
        assert response.status_code == 410
        assert "removed by a retention rule" in response.text
        assert "30 days" in response.text
    owner_client.force_login(make_user("carol"))
    assert [owner_client.get(address).status_code for address in addresses] == [404] * 4


def test_the_api_marks_stored_and_removed_files(owner_client, ended_task):
    sweep_all()
    artifacts = owner_client.get(f"/api/v1/tasks/{ended_task.pk}/artifacts/").json()
    by_name = {artifact["name"]: artifact for artifact in artifacts}
    dump, profile = by_name["bin_io_dump.zip"], by_name["profile.json"]
    assert (dump["is_stored"], dump["kept_days"]) == (False, 30)
    removed_at = Artifact.objects.get(name="bin_io_dump.zip").removed_at
    assert dump["removed_at"].startswith(f"{removed_at:%Y-%m-%dT%H:%M}")
    assert (profile["is_stored"], profile["kept_days"], profile["removed_at"]) == (True, None, None)
    file = owner_client.get(f"/api/v1/tasks/{ended_task.pk}/").json()["files"][0]
    assert (file["is_stored"], file["kept_days"], file["removed_at"] is None) == (False, 30, False)


def test_an_owner_keeps_files_by_page_and_by_api(owner_client, ended_task):
    address = f"/tasks/{ended_task.pk}/"
    assert "Keep all its files" in whole_page(owner_client, address)
    owner_client.post(f"{address}keep-files/", {"keep": "yes"})
    before = all_rows()[:-1]
    sweep_all()
    assert all_rows()[:-1] == before
    assert "All files of this task are kept." in visible_text(whole_page(owner_client, address))
    keep = f"/api/v1/tasks/{ended_task.pk}/keep-files/"
    response = owner_client.post(keep, {"keep": False}, content_type="application/json")
    assert response.json()["keeps_files"] is False
    response = owner_client.post(keep, {"keep": "perhaps"}, content_type="application/json")
    assert response.status_code == 422
    sweep_all()
    assert "bin_io_dump.zip" not in stored_names(ended_task)


def test_without_rules_the_page_has_no_keep_button(owner_client, ended_task, settings):
    settings.RETENTION = {}
    assert "keep-files" not in whole_page(owner_client, f"/tasks/{ended_task.pk}/")


def test_a_retry_after_removal_is_refused(owner_client, ended_task):
    sweep_all()
    url = f"/api/v1/tasks/{ended_task.pk}/retry/"
    expect_problem(owner_client.post(url, content_type="application/json"), 422, "file_gone")


def test_a_comparison_with_a_removed_dump_returns_410(owner_client, ended_task):
    other = make_ended_task(ended_task.owner)
    keep_task_files(other, keep=True)
    sweep_all()
    for first, second in ((ended_task.pk, other.pk), (other.pk, ended_task.pk)):
        page = owner_client.get(f"/tasks/{first}/compare-io/{second}/")
        assert (page.status_code, "30 days" in page.text) == (410, True)
