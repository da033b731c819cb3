"""`RETENTION`: what rules remove, what stays, and what rows, pages and the API tell."""

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
from profiles.tests.make import make_profile, put_files, remove_expired_objects, to_json, verify
from profiles.tests.pages import make_result, store_artifacts
from tasks.models import Artifact, Attempt, LogChunk, Mark, Task, TaskFile, artifact_key
from tasks.tests.make import data_file, make_task, make_user, model_file
from webprofile.settings.retention import rules_of
from webprofile.storage import storage as object_store

pytestmark = [pytest.mark.django_db, pytest.mark.database]

LONG_AGO = datetime.timedelta(days=40)
DUMP = b"values of all variables"


@pytest.fixture
def ended(storage, settings):
    """A task that ended 40 days ago; all its files are in storage."""
    # the device stays online even if tests run slowly
    settings.HEARTBEAT_S = 600
    settings.RETENTION = rules_of("dumps=30d files=30d logs=30d")
    return make_ended()


def make_ended(owner=None):
    profile = make_result(to_json(make_profile({"1": 0.25})), owner=owner)
    attempt = profile.attempt
    store_artifacts(attempt, dict.fromkeys(("bin_io_dump.zip", "algo_cache.bin"), DUMP))
    LogChunk.objects.create(attempt=attempt, seq=1, offset=0, size=4, text="done")
    put_files(attempt.task)
    Task.objects.filter(pk=attempt.task_id).update(finished_at=timezone.now() - LONG_AGO)
    return Task.objects.get(pk=attempt.task_id)


def names_left(task):
    artifacts = Artifact.objects.filter(attempt__task=task, is_stored=True)
    return set(artifacts.values_list("name", flat=True))


def apply_all():
    """Run the sweep until nothing is left to remove."""
    for _ in range(3):
        retention_sweep()
    Mark.objects.all().delete()


def purge(*arguments):
    out = io.StringIO()
    call_command("purge", *arguments, stdout=out)
    return out.getvalue()


def rows_of_everything():
    models = (Task, Attempt, TaskFile, Artifact, LogChunk, Profile, RemovedObjects, Mark)
    return [list(model.objects.order_by("pk").values_list()) for model in models]


def test_a_dry_run_says_what_would_go_by_kind_and_owner_and_changes_nothing(ended):
    make_ended(make_user("bob"))
    before = rows_of_everything()
    for text in (purge(), purge("--dry-run")):
        lines = text.splitlines()
        dumps = [line for line in lines if line.startswith("dumps, 30 days")]
        assert len(dumps) == 2
        assert any("bob@example.com" in line and "23" in line for line in dumps)
        assert any(line.startswith("files, 30 days") and "bob" in line for line in lines)
        assert lines[-1].startswith("Nothing was removed")
    assert rows_of_everything() == before


def test_other_days_can_be_looked_at_and_applied_and_the_row_says_how_many(ended):
    def only(kind, days, *arguments):
        return purge("--older-than", days, "--only", kind, *arguments)

    assert "caches, 10 days" in only("caches", "10")
    assert "in all" in only("dumps", "50")
    assert "dumps, 50 days" not in only("dumps", "50")
    assert "Rows removed: 1." in only("dumps", "20", "--yes")
    assert Artifact.objects.get(name="bin_io_dump.zip").kept_days == 20
    with pytest.raises(CommandError, match="needs --older-than"):
        purge("--only", "dumps")


def test_what_the_rules_name_goes_and_the_result_stays(ended, client):
    apply_all()
    assert names_left(ended) == {"profile.json", "log.txt", "algo_cache.bin"}
    dump = Artifact.objects.get(name="bin_io_dump.zip")
    assert (dump.kept_days, dump.size_bytes) == (30, len(DUMP))
    assert timezone.now() - dump.removed_at < datetime.timedelta(minutes=1)
    assert set(ended.files.values_list("kept_days", flat=True)) == {30}
    assert LogChunk.objects.count() == 0
    attempt = Attempt.objects.get()
    assert (attempt.log_kept_days, attempt.log_removed_at is None) == (30, False)
    client.force_login(ended.owner)
    assert client.get(f"/tasks/{ended.pk}/result/").status_code == 200


def test_objects_go_later_so_that_who_is_reading_reads_to_the_end(ended):
    key = artifact_key(str(Attempt.objects.get().pk), "bin_io_dump.zip")
    address = object_store.presign_get(key)
    apply_all()
    sweep_removed_files()
    assert httpx2.get(address).content == DUMP
    assert verify() == []
    remove_expired_objects()
    assert object_store.head(key) is None
    assert verify() == []
    # an object that came back is removed by the second round
    object_store.write(key, DUMP)
    remove_expired_objects()
    assert object_store.head(key) is None
    assert RemovedObjects.objects.count() == 0
    assert verify() == []


def test_an_object_that_should_be_gone_and_is_not_breaks_a_promise(ended):
    apply_all()
    RemovedObjects.objects.filter(prefix__endswith="bin_io_dump.zip").delete()
    ((promise, what),) = verify()
    assert (promise, "bin_io_dump.zip" in what) == ("orphan", True)


def test_a_second_round_finds_nothing_and_nobody_looks_again_for_a_while(
    ended, django_assert_num_queries
):
    apply_all()
    rows = rows_of_everything()
    apply_all()
    assert rows_of_everything() == rows
    retention_sweep()
    with django_assert_num_queries(1):
        retention_sweep()


def test_without_rules_nobody_even_looks(ended, settings, django_assert_num_queries):
    settings.RETENTION = {}
    with django_assert_num_queries(1):
        retention_sweep()
    with pytest.raises(CommandError, match="RETENTION is empty here"):
        purge()


def test_what_is_younger_stays(ended):
    Task.objects.update(finished_at=timezone.now() - datetime.timedelta(days=29))
    before = rows_of_everything()[:-1]
    apply_all()
    assert rows_of_everything()[:-1] == before


@pytest.mark.parametrize("state", ["running", "waiting", "processing", "cancelling", "initiated"])
def test_nothing_of_a_task_that_lives_goes(ended, state):
    Task.objects.update(state=state, outcome="", finished_at=None)
    before = rows_of_everything()[:-1]
    apply_all()
    assert rows_of_everything()[:-1] == before


def test_what_a_late_attempt_still_holds_stays(ended):
    Attempt.objects.update(ended_at=None)
    apply_all()
    assert "bin_io_dump.zip" in names_left(ended)
    assert LogChunk.objects.count() == 1


def test_what_became_no_result_goes_by_its_own_rule_and_its_log_stays(ended, settings):
    settings.RETENTION = rules_of("dumps=30d failed=30d")
    attempt = Attempt.objects.get()
    names = ("profile-2.json", "chrome_timeline.json", "memory_flow.svg", "staticmeminfo.zip")
    store_artifacts(attempt, dict.fromkeys(names, DUMP))
    before = names_left(ended)
    apply_all()
    # files from which the result was built stay as long as the result
    assert before - names_left(ended) == {"bin_io_dump.zip"}
    AttemptMeasurement.objects.create(attempt=attempt)
    object_store.delete(Profile.objects.get().object_key("derived.npz"))
    Profile.objects.all().delete()
    Task.objects.update(outcome="failed", reason="script_failed")
    apply_all()
    assert before - names_left(ended) == {"bin_io_dump.zip"}
    AttemptMeasurement.objects.all().delete()
    keep_task_files(ended, keep=True)
    apply_all()
    assert before - names_left(ended) == {"bin_io_dump.zip"}
    keep_task_files(ended, keep=False)
    apply_all()
    assert names_left(ended) == {"log.txt", "algo_cache.bin"}
    remove_expired_objects()
    assert object_store.head(artifact_key(str(attempt.pk), "chrome_timeline.json")) is None
    assert verify() == []


def test_files_that_a_repeat_is_about_to_copy_stay_until_it_has_them(ended):
    model = ended.files.get(kind="model")
    files = [model_file(md5=model.md5, size_bytes=model.size_bytes), data_file(md5="0" * 32)]
    repeat = make_task(owner=ended.owner, files=files)
    apply_all()
    left = ended.files.filter(purged_at=None).values_list("kind", flat=True)
    assert list(left) == ["model"]
    repeat.files.update(stored_at=timezone.now())
    apply_all()
    assert not ended.files.filter(purged_at=None).exists()


def test_a_cache_that_a_new_task_takes_over_stays(ended, settings):
    settings.RETENTION = rules_of("caches=30d")
    cache = Artifact.objects.get(name="algo_cache.bin")
    task = make_task(owner=ended.owner)
    task.files.filter(kind="data").update(md5=cache.md5)
    apply_all()
    assert "algo_cache.bin" in names_left(ended)


def test_what_its_owner_keeps_stays_until_he_lets_it_go(ended):
    keep_task_files(ended, keep=True)
    before = rows_of_everything()[:-1]
    apply_all()
    assert rows_of_everything()[:-1] == before
    keep_task_files(ended, keep=False)
    apply_all()
    assert "bin_io_dump.zip" not in names_left(ended)


def test_what_somebody_begins_to_keep_in_the_last_moment_stays(ended):
    policy = POLICIES["dumps"]
    before = timezone.now() - datetime.timedelta(days=30)
    keys = list(policy.expired(before).values_list("pk", flat=True))
    assert keys
    keep_task_files(ended, keep=True)
    assert policy.remove(keys, before, 30) == 0
    assert "bin_io_dump.zip" in names_left(ended)


def test_a_round_removes_a_piece_of_each_kind(ended, settings, monkeypatch):
    monkeypatch.setattr("profiles.retention.policy.PIECE", 1)
    settings.RETENTION = {"files": 30}
    left = []
    for _ in range(3):
        retention_sweep()
        left.append(ended.files.filter(purged_at=None).count())
    assert (left, Mark.objects.count()) == ([1, 0, 0], 1)


def test_by_hand_all_goes_at_once(ended):
    assert "dumps, 30 days" in purge("--yes")
    assert "bin_io_dump.zip" not in names_left(ended)
    assert "dumps" not in purge()


def test_profiles_are_no_kind_of_rule():
    made_from = {"profile.json", "log.txt", "measurement.json", "manifest.json"}
    assert not (made_from | {"staticmeminfo.zip"}) & DUMPS
    for text in ("profiles=30d", "dumps", "dumps=0d", "dumps=3", "dumps=1d dumps=2d", "dumps=-1d"):
        with pytest.raises(ImproperlyConfigured, match="RETENTION"):
            rules_of(text)
    assert rules_of(" dumps=30d, logs=180d ") == {"dumps": 30, "logs": 180}
    assert rules_of("") == {}


# -- pages and the API -----------------------------------------------------------------------------


@pytest.fixture
def reader(client, ended):
    client.force_login(ended.owner)
    return client


def text_of(page):
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


def test_the_page_says_what_went_when_and_by_which_rule(reader, ended):
    apply_all()
    page = reader.get(f"/tasks/{ended.pk}/").text
    today = f"{timezone.now():%Y-%m-%d}"
    sentence = f"removed by rule on {today} UTC , kept 30 days"
    text = text_of(page)
    # two files, a dump, the log
    assert text.count(sentence) == 4
    assert f"bin_io_dump.zip {sentence}" in text
    assert f"The log: {sentence}" in text
    for gone in ("bin_io_dump.zip", f"/files/{ended.files.first().pk}/"):
        assert f'{gone}"' not in page
    assert 'artifacts/profile.json"' in page


def test_the_page_says_it_in_chinese_too(reader, ended):
    apply_all()
    page = reader.get(f"/tasks/{ended.pk}/", headers={"Accept-Language": "zh-hans"}).text
    text = text_of(page)
    assert "按规则删除于" in text
    assert "，保留了 30 天" in text


def test_an_old_address_says_so_instead_of_being_broken(reader, ended):
    file = ended.files.first()
    addresses = [
        f"/tasks/{ended.pk}/artifacts/bin_io_dump.zip",
        f"/tasks/{ended.pk}/files/{file.pk}/",
        f"/api/v1/tasks/{ended.pk}/artifacts/bin_io_dump.zip/",
        f"/api/v1/tasks/{ended.pk}/files/{file.pk}/",
    ]
    assert [reader.get(address).status_code for address in addresses] == [302] * 4
    apply_all()
    for address in addresses:
        response = reader.get(address)
        assert response.status_code == 410
        assert "removed by a rule of this site" in response.text
        assert "30 days" in response.text
    reader.force_login(make_user("carol"))
    assert [reader.get(address).status_code for address in addresses] == [404] * 4


def test_the_api_says_what_is_there_and_what_went(reader, ended):
    apply_all()
    artifacts = reader.get(f"/api/v1/tasks/{ended.pk}/artifacts/").json()
    by_name = {artifact["name"]: artifact for artifact in artifacts}
    dump, profile = by_name["bin_io_dump.zip"], by_name["profile.json"]
    assert (dump["is_stored"], dump["kept_days"]) == (False, 30)
    assert dump["removed_at"].startswith(f"{timezone.now():%Y-%m-%d}")
    assert (profile["is_stored"], profile["kept_days"], profile["removed_at"]) == (True, None, None)
    file = reader.get(f"/api/v1/tasks/{ended.pk}/").json()["files"][0]
    assert (file["is_stored"], file["kept_days"], file["removed_at"] is None) == (False, 30, False)


def test_an_owner_keeps_files_by_page_and_api(reader, ended):
    address = f"/tasks/{ended.pk}/"
    assert "Keep all its files" in reader.get(address).text
    reader.post(f"{address}keep-files/", {"keep": "yes"})
    apply_all()
    assert "Of this task everything is kept." in text_of(reader.get(address).text)
    assert "bin_io_dump.zip" in names_left(ended)
    keep = f"/api/v1/tasks/{ended.pk}/keep-files/"
    response = reader.post(keep, {"keep": False}, content_type="application/json")
    assert response.json()["keeps_files"] is False
    response = reader.post(keep, {"keep": "perhaps"}, content_type="application/json")
    assert response.status_code == 422
    apply_all()
    assert "bin_io_dump.zip" not in names_left(ended)


def test_where_nothing_is_removed_the_page_says_nothing_of_it(reader, ended, settings):
    settings.RETENTION = {}
    assert "keep-files" not in reader.get(f"/tasks/{ended.pk}/").text


def test_a_repeat_of_what_went_is_refused_in_words(reader, ended):
    apply_all()
    response = reader.post(f"/api/v1/tasks/{ended.pk}/retry/", content_type="application/json")
    assert (response.status_code, response.json()["code"]) == (422, "file_gone")


def test_comparing_with_a_dump_that_went_says_so(reader, ended):
    other = make_ended(ended.owner)
    keep_task_files(other, keep=True)
    apply_all()
    for pair in (f"{ended.pk}/compare-io/{other.pk}", f"{other.pk}/compare-io/{ended.pk}"):
        page = reader.get(f"/tasks/{pair}/")
        assert (page.status_code, "30 days" in page.text) == (410, True)
