"""Tests of reading headers of uploaded data, and of rejecting invalid files."""

import hashlib
import json
import tracemalloc

import numpy as np
import pytest

from agent.protocol.inputs.json_inputs import LONGEST_JSON
from agent.protocol.inputs.npy import HEAD_BYTES
from profiles.models import RemovedObjects
from tasks.models import Task
from tasks.submission import uploads
from tasks.submission.contents import inspect, inspected_bytes_of
from tasks.submission.request import InputRequest
from tasks.tests.make import (
    MODEL,
    data_file,
    make_task,
    make_user,
    model_bytes,
    model_file,
    npy_bytes,
    stored_objects,
)
from webprofile.errors import DomainError
from webprofile.messages.errors import word
from webprofile.storage import storage as object_store

REJECTED = {
    "scalar.npy": "input_no_axes",
    "empty.npy": "input_no_numbers",
    "zero_width.npy": "input_no_numbers",
    "dtype_text.npy": "input_not_numbers",
    "dtype_datetime.npy": "input_not_numbers",
    "dtype_complex64.npy": "input_no_type",
    "dtype_uint64.npy": "input_no_type",
    "dtype_struct.npy": "input_structured",
    "text.npy": "input_not_npy",
    "truncated_body.npy": "input_cut_short",
    "trailing.npy": "input_trailing",
    "version_9.npy": "input_version",
    "header_huge_shape.npy": "input_cut_short",
    "header_overflow.npy": "input_cut_short",
    "header_many_axes.npy": "input_many_axes",
    "header_long.npy": "input_header_long",
    "pickle_object_array.npy": "input_pickled",
    "pickle_dict.pkl": "input_pickled",
    "ok.npz": "input_zip",
    "bomb.npz": "input_zip",
    "many_entries.npz": "input_zip",
    "traversal.npz": "input_zip",
}


def read_header(name: str, data: bytes):
    """Return the arrays of a file, of which only the inspected part is passed."""
    return inspect(name, data[: inspected_bytes_of(name, len(data))], len(data))


def test_sample_files_are_read_or_rejected_with_their_error(testdata):
    cases = json.loads((testdata / "bad" / "cases.json").read_text())["inputs"]
    codes = {}
    for case in cases:
        path = testdata / case["file"]
        try:
            (head,) = read_header(path.name, path.read_bytes())
            array = np.load(path, mmap_mode="r")
            assert (head["dtype"], head["shape"]) == (array.dtype.name, list(array.shape))
        except DomainError as error:
            codes[path.name] = error.code
            assert path.name in word(error)
    assert codes == REJECTED
    assert len(cases) > len(codes)


@pytest.mark.parametrize(
    "data",
    [
        b"\x93NUMPY\x01\x00\xff",
        b"\x93NUMPY\x01\x00\x10\x00" + b"(" * 16,
        b"\x93NUMPY\x01\x00" + (9000).to_bytes(2, "little") + b"[" * 9000,
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
        b"\x93NUMPY\x01\x00\x10\x00{'shape': (-1,)}",
        npy_bytes((2,), "<f4").replace(b"'<f4'", b"()   "),
        npy_bytes((2,), "<f4").replace(b"'<f4'", b"'T'  "),
    ],
)
def test_hostile_header_is_rejected(data):
    with pytest.raises(DomainError, match="input_header"):
        read_header("x.npy", data)


def test_header_of_npy_version_3_and_of_big_endian_data_is_read():
    array = npy_bytes((2, 3), ">f4")
    version_3 = array[:6] + b"\x03\x00" + array[8:10] + b"\x00\x00" + array[10:]
    for data in (array, version_3):
        (head,) = read_header("x.npy", data)
        assert head == {"name": "", "dtype": "float32", "shape": [2, 3]}


@pytest.mark.parametrize(
    ("data", "shape"),
    [
        (b"P6\n# by hand\n4 3\n255\n" + bytes(36), (1, 3, 4, 3)),
        (b"P5 4 3 255\n" + bytes(12), (1, 3, 4, 1)),
    ],
)
def test_picture_has_the_shape_that_load_and_run_uses(data, shape):
    (head,) = read_header("x.PPM", data)
    assert head == {"name": "", "dtype": "uint8", "shape": list(shape)}


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"P3\n1 1\n255\n1 2 3", "input_picture"),
        (b"P6\n4 3\n65535\n" + bytes(72), "input_picture_depth"),
        (b"P6\n4 3\n255\n" + bytes(35), "input_cut_short"),
        (b"P6\n0 3\n255\n", "input_no_numbers"),
    ],
)
def test_invalid_picture_is_rejected(data, code):
    with pytest.raises(DomainError, match=code):
        read_header("x.ppm", data)


def entry(**changes):
    return {"shape": [1, 2], "type": "float32", "raw": [0.5, -1e3]} | changes


@pytest.mark.parametrize("dtype", ["float64", "complex64", "uint64"])
def test_dtype_unknown_to_megengine_is_rejected_with_an_alternative(dtype):
    with pytest.raises(DomainError, match="input_no_type") as caught:
        read_header("x.npy", npy_bytes((2, 3), dtype))
    assert ("int32" if dtype == "uint64" else "float32") in word(caught.value)
    assert "astype" in word(caught.value)


@pytest.mark.parametrize("dtype", ["int64", "bool", "float16", "uint32"])
def test_dtype_that_only_the_wheel_reads_is_rejected_for_a_binary(dtype):
    data = npy_bytes((2, 3), dtype)
    assert read_header("x.npy", data)[0]["dtype"] == dtype
    with pytest.raises(DomainError, match="input_dtype_not_here"):
        inspect("x.npy", data, len(data), kind="binary")


def test_json_names_may_contain_separators_for_the_wheel_and_begin_with_a_byte_order_mark():
    data = json.dumps({"x;y:0": entry()}).encode("utf-8-sig")
    assert [array["name"] for array in read_header("x.json", data)] == ["x;y:0"]
    with pytest.raises(DomainError, match="input_json_name"):
        inspect("x.json", data, len(data), kind="binary")


def test_json_names_may_contain_brackets():
    data = json.dumps({"a[1]": entry(), "a[2]": entry(), 'a"[3]': entry()}).encode()
    assert [array["name"] for array in read_header("x.json", data)] == ["a[1]", "a[2]", 'a"[3]']


def test_json_returns_all_its_inputs():
    data = json.dumps({"data": entry(), "ids": entry(type="int", raw=[1, 2])}).encode()
    assert read_header("all.json", data) == [
        {"name": "data", "dtype": "float32", "shape": [1, 2]},
        {"name": "ids", "dtype": "int32", "shape": [1, 2]},
    ]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("[1, 2]", "input_json"),
        ("{", "input_json"),
        ('{"a": {"shape": [1]}}', "input_json"),
        ('{"a": ' + "[" * 100_000, "input_json"),
        (
            '{"a": {"shape": [1], "type": "int8", "raw": ' + "[" * 90_000 + "]" * 90_000 + "}}",
            "input_json",
        ),
        ("{}", "input_json_count"),
        (json.dumps({"a": entry(type="float64")}), "input_json_type"),
        (json.dumps({"a": entry(type="int32")}), "input_json_fraction"),
        (json.dumps({"a": entry(type="int8")}), "input_json_range"),
        ('{"a": {"shape": [1], "type": "float32", "raw": [1e400]}}', "input_json_range"),
        (json.dumps({"a": entry(shape=[3])}), "input_json_numbers"),
        (json.dumps({"a": entry(raw=[[1], [2]])}), "input_json_numbers"),
        (json.dumps({"a": entry(raw=3)}), "input_json_numbers"),
        (json.dumps({"a": entry(shape=[], raw=[1])}), "input_no_axes"),
        (json.dumps({"a": entry(raw=[True, None])}), "input_json_numbers"),
        (json.dumps({"": entry()}), "input_json_name"),
        (json.dumps({"x\u202ey": entry()}), "input_json_name"),
        (json.dumps({"a": entry(shape=[-1, 2])}), "input_json_shape"),
        (json.dumps({"x\x00": entry()}), "input_json_name"),
        (json.dumps({"x" * 201: entry()}), "input_json_name"),
        (f'{{"a": {json.dumps(entry())}, "\\u0061": {json.dumps(entry())}}}', "input_json_twice"),
        ('{"a": {"shape": [1], "shape": [2], "type": "int8", "raw": [1, 2]}}', "input_json_twice"),
    ],
)
def test_json_that_load_and_run_would_misread_is_rejected(content, code):
    with pytest.raises(DomainError, match=code) as caught:
        read_header("x.json", content.encode())
    assert "x.json" in word(caught.value)


def test_json_over_the_limit_is_rejected_and_parsing_uses_little_memory():
    assert inspected_bytes_of("x.json", LONGEST_JSON + 1) == HEAD_BYTES
    with pytest.raises(DomainError, match="input_json") as caught:
        inspect("x.json", b" " * HEAD_BYTES, LONGEST_JSON + 1)
    assert "is larger than 8 MiB. Upload large inputs as .npy files" in word(caught.value)
    count = 2_000_000
    numbers = b"0," * (count - 1) + b"0"
    data = b'{"a": {"shape": [%d], "type": "int8", "raw": [%s]}}' % (count, numbers)
    tracemalloc.start()
    assert read_header("x.json", data)[0]["shape"] == [count]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * len(data)


def make_task_with_data(content: bytes, name: str = "data.npy"):
    digest = hashlib.md5(content).hexdigest()
    data = data_file(name=name, size_bytes=len(content), md5=digest)
    model = model_file()
    task = make_task(make_user(), files=[model, data])
    for file, body in zip(task.files.all(), (MODEL, content), strict=True):
        object_store.write(file.object_key, body)
    return task


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("content", "code", "advice"),
    [
        (b"version https://git-lfs.github.com/spec/v1\n", "model_is_lfs_pointer", "git lfs pull"),
        (b"\x80\x04\x95" + bytes(20), "model_is_pickle", "trace.dump"),
        (npy_bytes(), "model_is_npy", "data of an input"),
        (model_bytes(b"graph\n" * 9).replace(b"\n", b"\r\n"), "model_changed", "binary"),
        (b"\x01\x02", "model_cut_short", "2 bytes, but at least 16 are"),
    ],
)
def test_file_that_is_no_model_is_refused_when_it_is_submitted(
    client, storage, content, code, advice
):
    model = model_file(size_bytes=len(content), md5=hashlib.md5(content).hexdigest())
    task = make_task(make_user(), files=[model])
    object_store.write(task.files.get().object_key, content)
    client.force_login(task.owner)
    answer = client.post(f"/api/v1/tasks/{task.pk}/submit/")
    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert "net.mge" in answer.json()["detail"]
    assert advice in answer.json()["detail"]
    task.refresh_from_db()
    assert not task.attempts.exists()
    assert (task.status, task.reason) == ("failed", "model_refused")
    assert task.detail == answer.json()["detail"]
    page = client.get(f"/tasks/{task.pk}/").text
    assert "The file is not a model that can be run." in page
    assert "MegEngine cannot read" not in page


@pytest.mark.django_db
def test_task_page_shows_dtype_and_shape_of_a_file(client, storage):
    task = make_task_with_data(npy_bytes((4, 3, 500, 500)))
    client.force_login(task.owner)
    assert client.post(f"/api/v1/tasks/{task.pk}/submit/").status_code == 200
    arrays = task.files.get(kind="data").arrays
    assert arrays == [{"name": "", "dtype": "float32", "shape": [4, 3, 500, 500]}]
    assert "float32 {4,3,500,500}" in client.get(f"/tasks/{task.pk}/").text


@pytest.mark.django_db
def test_submit_with_discard_deletes_a_task_with_an_invalid_file(client, storage):
    task = make_task_with_data(npy_bytes((2, 3))[:-4])
    client.force_login(task.owner)
    address = f"/api/v1/tasks/{task.pk}/submit/?discard=true"
    answer = client.post(address, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (422, "input_cut_short")
    assert "data.npy" in answer.json()["detail"]
    # the form shows the error: no failed task stays in the list, and no file in storage
    assert not Task.objects.exists()
    assert RemovedObjects.objects.filter(prefix=f"tasks/{task.pk}/").exists()


@pytest.mark.django_db
def test_submit_fails_a_task_with_an_invalid_file(client, storage):
    task = make_task_with_data(npy_bytes((2, 3))[:-4])
    client.force_login(task.owner)
    address = f"/api/v1/tasks/{task.pk}/submit/"
    answer = client.post(address, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (422, "input_cut_short")
    repeated = client.post(address, content_type="application/json")
    assert (repeated.status_code, repeated.json()["status"]) == (200, "failed")
    page = client.get(f"/tasks/{task.pk}/").text
    assert "is truncated" in page


@pytest.mark.django_db
def test_read_start_fetches_only_the_head_of_a_file(storage):
    content = npy_bytes((1000, 100))
    object_store.write("some/key", content)
    assert object_store.read_start("some/key", size_bytes=HEAD_BYTES) == content[:HEAD_BYTES]
    assert object_store.read_start("some/key", size_bytes=1 << 30) == content
    with pytest.raises(DomainError, match="object_missing"):
        object_store.read_start("no/key", size_bytes=10)


@pytest.mark.django_db
def test_missing_upload_is_reported_before_invalid_contents(storage):
    task = make_task()
    data = task.files.get(kind="data")
    with pytest.raises(DomainError, match="upload_missing"):
        uploads.submit_task(task, {data.pk: None}, {data.pk: b"junk"})


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("kind", "dtype", "code"),
    [("wheel", "float64", "input_no_type"), ("binary", "int64", "input_dtype_not_here")],
)
def test_submit_rejects_a_dtype_that_the_device_cannot_read(client, storage, kind, dtype, code):
    task = make_task_with_data(npy_bytes((1, 3), dtype))
    task.worker.runtimes.update(kind=kind)
    client.force_login(task.owner)
    answer = client.post(f"/api/v1/tasks/{task.pk}/submit/", content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (422, code)


@pytest.mark.django_db
@pytest.mark.parametrize("other", ["file", "values", "json"])
def test_input_given_by_json_and_another_source_is_rejected(other):
    content = json.dumps({"data": entry()}).encode()
    heads, extra = [content], {}
    files = [model_file(), data_file(name="all.json", size_bytes=len(content), input="")]
    if other == "values":
        extra = {"inputs": (InputRequest("data", literal="1,2"),)}
    else:
        second = npy_bytes() if other == "file" else content
        name = "data.npy" if other == "file" else "more.json"
        files.append(data_file(name=name, size_bytes=len(second)))
        heads.append(second)
    task = make_task(files=files, **extra)
    data = task.files.filter(kind="data")
    heads_by_file = {file.pk: head for file, head in zip(data, heads, strict=True)}
    with pytest.raises(DomainError, match="input_given_twice") as caught:
        uploads.submit_task(task, stored_objects(task), heads_by_file)
    assert "all.json" in word(caught.value)
    task.refresh_from_db()
    assert task.state == "initiated"
