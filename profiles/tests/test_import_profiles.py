"""`manage.py import_profiles`: files on disk become imported profiles of a user."""

import os

import pytest
from django.core.management import CommandError, call_command

from profiles.imports.local_files import import_profile
from profiles.imports.processing import read_import
from profiles.imports.uploads import delete_import
from profiles.management.commands import import_profiles as importing
from profiles.models import ProfileUpload
from profiles.tests.imports import stored_keys
from profiles.tests.make import make_profile, to_json
from tasks.tests.make import make_user
from testdata import DATA

TRACES = DATA / "traces" / "dynamic_train_mlp_scopes"

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("alice"), pytest.mark.database]


@pytest.fixture
def folder(tmp_path):
    for number, name in enumerate(("profile-10.json", "profile-2.json", "below/other.json")):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(to_json(make_profile({"1": 1.0 + number})))
    (tmp_path / "notes.txt").write_text("no profile")
    return tmp_path


@pytest.fixture
def actor(monkeypatch):
    """Read one upload, as the actor of a site would, whenever the command sleeps."""

    def read_one(seconds: float) -> None:
        read_import(ProfileUpload.objects.filter(state="processing").first())

    monkeypatch.setattr(importing.time, "sleep", read_one)


def run(*arguments: object, **options) -> None:
    names = map(str, arguments)
    call_command("import_profiles", *names, "--as", "alice@example.com", **options)


def test_every_file_of_a_folder_becomes_a_profile(alice, folder, actor):
    run(folder)
    uploads = ProfileUpload.objects.order_by("pk")
    assert {upload.owner for upload in uploads} == {alice}
    assert [upload.name for upload in uploads] == ["other", "profile-10", "profile-2"]
    assert {upload.state for upload in uploads} == {"ready"}


def test_files_of_a_folder_are_passes_in_the_order_of_their_numbers(folder, actor):
    run(folder, passes=True)
    uploads = [[file.name for file in upload.files.all()] for upload in ProfileUpload.objects.all()]
    assert sorted(uploads) == [["other.json"], ["profile-2.json", "profile-10.json"]]


def test_files_around_a_subfolder_are_passes_of_one_profile(folder, actor):
    (folder / "a-1.json").write_bytes(to_json(make_profile({"1": 5.0})))
    run(folder, passes=True)
    assert sorted(upload.files.count() for upload in ProfileUpload.objects.all()) == [1, 3]


def test_a_repeated_command_imports_nothing_twice(folder, actor, capsys):
    (folder / "twin.json").write_bytes((folder / "profile-2.json").read_bytes())
    run(folder)
    assert ProfileUpload.objects.count() == 3
    run(folder)
    run(folder / "profile-2.json", folder / "profile-10.json")
    assert ProfileUpload.objects.count() == 3
    assert "was imported before" in capsys.readouterr().out
    (folder / "twin.json").unlink()
    run(folder, passes=True, wait=False)  # two passes together are a different profile
    run(folder / "profile-2.json", again=True, wait=False)
    assert ProfileUpload.objects.count() == 5


def test_imports_of_another_user_do_not_count(alice, folder, actor):
    bob = make_user("bob")
    import_profile(bob, [folder / "profile-2.json"])
    run(folder / "profile-2.json")
    assert {upload.owner for upload in ProfileUpload.objects.all()} == {alice, bob}


def test_a_filename_that_is_not_utf8_does_not_stop_the_others(folder, actor):
    (folder / os.fsdecode(b"\xff\x1b.json")).write_bytes(to_json(make_profile({"1": 9.0})))
    with pytest.raises(CommandError, match="1 of 4"):
        run(folder)
    assert ProfileUpload.objects.filter(state="ready").count() == 3


def test_other_files_are_reported_and_profiles_are_imported(folder, actor, capsys):
    (folder / "model.json").write_bytes(b"\x80\x02pickle")
    (folder / "empty.json").write_bytes(b"")
    (folder / "broken.json").write_bytes(b'{"profiler": 3}')
    with pytest.raises(CommandError, match="1 of 4"):
        run(folder)
    errors = capsys.readouterr().err
    for name in ("empty.json", "model.json", "notes.txt"):
        assert f"{folder / name}: skipped. " in errors
    assert errors.splitlines()[-1] == "3 imported, 1 failed, 3 skipped"
    assert ProfileUpload.objects.filter(state="ready").count() == 3


def test_every_format_is_imported_and_a_graph_joins_its_memory_plan(tmp_path, actor, capsys):
    run_folder, graph_alone = tmp_path / "run", tmp_path / "alone"
    contents = {
        "profile.json": to_json(make_profile({"1": 1.0})),
        "chrome_timeline.json": TRACES / "profile.chrome_timeline.json",
        "memory_flow.svg": TRACES / "profile.memory_flow.svg",
        "StaticMemoryInfo.json": b'{"opr": {"0": {}}, "chunk": {}}',
        "graph.json": b'{"operator": {}, "var": {}}',
    }
    for folder in (run_folder, graph_alone):
        folder.mkdir()
    for name, content in contents.items():
        data = content if isinstance(content, bytes) else content.read_bytes()
        (run_folder / name).write_bytes(data)
    (graph_alone / "graph.json").write_bytes(b'{"operator": {}, "var": {}}')
    run(tmp_path, wait=False)
    uploads = {
        tuple(sorted(file.name for file in upload.files.all()))
        for upload in ProfileUpload.objects.all()
    }
    assert uploads == {
        ("profile.json",), ("chrome_timeline.json",), ("memory_flow.svg",),
        ("StaticMemoryInfo.json", "graph.json"),
    }  # fmt: skip
    errors = capsys.readouterr().err.splitlines()
    assert errors[0].startswith(f"{graph_alone / 'graph.json'}: skipped. ")
    assert errors[-1] == "4 stored, 0 failed, 1 skipped"
    run(run_folder, passes=True, wait=False)
    assert ProfileUpload.objects.order_by("pk").last().files.count() == 5


def test_an_import_that_is_deleted_meanwhile_was_not_opened(folder, monkeypatch, capsys):
    def delete_all(seconds: float) -> None:
        for upload in ProfileUpload.objects.exclude(state="deleted"):
            delete_import(upload)

    monkeypatch.setattr(importing.time, "sleep", delete_all)
    with pytest.raises(CommandError, match="1 of 1 could not be imported"):
        run(folder / "profile-2.json")
    assert "deleted meanwhile" in capsys.readouterr().err


def test_without_waiting_the_import_stays_in_processing(folder):
    run(folder / "profile-2.json", wait=False)
    assert ProfileUpload.objects.get().state == "processing"
    with pytest.raises(CommandError) as caught:
        run(folder / "profile-2.json", timeout=0.01)
    assert caught.value.returncode == 4


def test_unreachable_storage_leaves_no_import(folder, settings):
    settings.S3_ENDPOINT_URL = "http://127.0.0.1:9"
    with pytest.raises(CommandError):
        run(folder)
    assert [upload.state for upload in ProfileUpload.objects.all()] == ["deleted"]


def test_missing_files_are_reported(tmp_path):
    with pytest.raises(CommandError, match="None of the files is a profile"):
        run(tmp_path)
    with pytest.raises(CommandError, match="1 of 1"):
        run(tmp_path / "none.json")
    assert stored_keys(1) == []
