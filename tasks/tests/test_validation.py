"""Tests of requests that are rejected before a task exists."""

import pytest

from accounts.models import User
from tasks.models import Task
from tasks.tests.make import (
    data_file,
    make_task,
    make_user,
    make_worker,
    model_file,
    set_last_heartbeat,
)
from webprofile.errors import DomainError
from webprofile.messages.errors import word
from workers.models import Grant, Worker

pytestmark = [pytest.mark.django_db, pytest.mark.database]


def rejection(**changes) -> DomainError:
    with pytest.raises(DomainError) as caught:
        make_task(**changes)
    assert not Task.objects.exists()
    assert caught.value.code not in word(caught.value)  # the message is not the code
    return caught.value


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ([], "one_model_wanted"),
        ([model_file(), model_file()], "one_model_wanted"),
        ([data_file()], "one_model_wanted"),
        ([model_file(size_bytes=0)], "file_empty"),
        ([model_file(size_bytes=-1)], "file_empty"),
        ([model_file(size_bytes=2 * 1024**3 + 1)], "file_too_large"),
        ([model_file(), data_file(size_bytes=512 * 1024**2 + 1)], "file_too_large"),
        ([model_file(name="")], "file_name_bad"),
        ([model_file(name="a\nb.mge")], "character_bad"),
        ([model_file(name="a\u202egm.mge")], "character_bad"),
        ([model_file(name="..")], "file_name_path"),
        ([model_file(name=" . ")], "file_name_path"),
        ([model_file(name="x" * 296 + ".mge")], "file_name_long"),
        ([model_file(name="../../etc/passwd")], "file_name_path"),
        ([model_file(name="C:\\model.mge")], "file_name_path"),
        ([model_file(md5="")], "checksum_bad"),
        ([model_file(md5="Z" * 32)], "checksum_bad"),
        ([model_file(), data_file(name="data.pkl")], "data_kind_unknown"),
        ([model_file(), data_file(name="data.npz")], "data_kind_unknown"),
        ([model_file(), data_file(name="data.JPG")], "data_kind_unknown"),
        ([model_file(), data_file(input="")], "input_name_missing"),
        ([model_file(), data_file(name="a.ppm", input="")], "input_name_missing"),
        ([model_file(), data_file(input="a\u202eb")], "input_name_unprintable"),
        ([model_file(), data_file(input="x" * 300)], "input_name_long"),
        ([model_file(), data_file(), data_file()], "input_name_twice"),
        ([model_file()] + [data_file(input=f"i{n}") for n in range(33)], "too_many_files"),
    ],
)
def test_invalid_files_are_rejected(files, code):
    assert rejection(files=files).code == code


@pytest.mark.parametrize(
    "name", ["模型 🚀.mge", 'it\'s "quoted".mge', "a b;c:d.mge", "x" * 250 + ".mge"]
)
def test_unusual_file_names_are_kept_but_not_used_on_device_and_storage(name):
    task = make_task(files=[model_file(name=name), data_file(input="输入 '1'")])
    model, data = task.files.all()
    assert (model.name, data.input) == (name, "输入 '1'")
    assert model.object_key == f"tasks/{task.pk}/{model.pk}"
    assert (model.device_name, data.device_name) == ("model.mge", "input-0.npy")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda w: set_last_heartbeat(None, w.pk), "worker_is_offline"),
        (lambda w: Worker.objects.filter(pk=w.pk).update(is_enabled=False), "worker_disabled"),
        (lambda w: Worker.objects.filter(pk=w.pk).update(is_public=False), "worker_unknown"),
        (lambda w: w.runtimes.all().delete(), "runtime_missing"),
        (lambda w: w.runtimes.update(problem="no Python 3.10"), "runtime_broken"),
    ],
)
def test_unavailable_device_is_rejected_with_the_reason(change, code):
    user, worker = make_user(), make_worker()
    change(worker)
    worker.refresh_from_db()
    assert rejection(owner=user, worker=worker).code == code


def test_private_device_accepts_granted_users_and_administrators():
    worker = make_worker(is_public=False)
    bob, carol = make_user("bob"), make_user("carol")
    Grant.objects.create(worker=worker, user=bob)
    assert rejection(owner=carol, worker=worker).code == "worker_unknown"
    assert make_task(owner=bob, worker=worker)
    assert make_task(owner=make_user("root", is_staff=True), worker=worker)
    assert User.objects.count() == 3


def test_json_files_have_no_input_name():
    names = ["a.json", "b.JSON", "c.json"]
    files = [model_file(), *(data_file(name=name, input="ignored") for name in names), data_file()]
    task = make_task(files=files)
    assert [(f.name, f.input) for f in task.files.filter(kind="data")] == [
        ("a.json", ""), ("b.JSON", ""), ("c.json", ""), ("data.npy", "data"),
    ]  # fmt: skip


@pytest.mark.parametrize("suffix", [".npy", ".json", ".ppm", ".pgm"])
def test_data_file_keeps_its_suffix_on_the_device(suffix):
    task = make_task(files=[model_file(), data_file(name=f"Photo{suffix.upper()}")])
    assert task.files.last().device_name == f"input-0{suffix}"
