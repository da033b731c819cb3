"""Tests of inputs without a file: literals of load_and_run, random values, and limits."""

import json

import pytest

from agent.protocol.input_rules import LONGEST_NAME
from agent.protocol.messages import MAX_FRAME_BYTES, encode
from agent.protocol.plan import PRESETS
from tasks.dispatch import gateway
from tasks.models import Task
from tasks.submission import uploads
from tasks.submission.inputs import TEXT_LIMIT_BYTES, read_inputs, read_shape
from tasks.submission.request import FileRequest, InputRequest
from tasks.tests.make import (
    data_file,
    make_attempt,
    make_task,
    make_worker,
    model_file,
    stored_objects,
)
from webprofile.errors import DomainError
from webprofile.messages.errors import word
from workers.models import Runtime


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (" \n", "literal_empty"),
        ("1.", "literal_bad"),
        (".5", "literal_bad"),
        ("+1", "literal_bad"),
        ("1 2", "literal_bad"),
        ("1e", "literal_bad"),
        ("1;2", "literal_bad"),
        ("nan", "literal_bad"),
        ("0x10", "literal_bad"),
        ("a.npy", "literal_bad"),
        ("{1,2}", "literal_bad"),
        ("１,2", "literal_bad"),
        ("[1,2", "literal_brackets"),
        ("1,2]", "literal_brackets"),
        ("1,,2", "literal_brackets"),
        ("1,", "literal_brackets"),
        ("[]", "literal_brackets"),
        ("[1][2]", "literal_brackets"),
        ("[[1,2],[3]]", "literal_ragged"),
        ("[1,[2]]", "literal_ragged"),
        ("1,[2]", "literal_ragged"),
        ("[[[[[[[1]]]]]]]", "literal_deep"),
        ("[" * 5000, "literal_deep"),
        ("2147483648", "literal_range"),
        ("1e400", "literal_range"),
        ("1.0,1e39", "literal_range"),
        ("9" * 5000, "literal_range"),
        ("1e-2", "literal_fraction"),
    ],
)
def test_literal_that_load_and_run_would_misread_is_rejected(text, code):
    with pytest.raises(DomainError) as caught:
        read_inputs([InputRequest("x", literal=text)])
    assert caught.value.code == code
    assert code not in word(caught.value)


def test_message_for_a_ragged_literal_names_the_row():
    with pytest.raises(DomainError) as caught:
        read_inputs([InputRequest("x", literal="[[1,2],[3,4],[5]]")])
    assert "row 3 has 1" in word(caught.value)


@pytest.mark.parametrize(
    ("text", "shape"),
    [("1,3,8,8", (1, 3, 8, 8)), ("{2, 3}", (2, 3)), ("4x5", (4, 5)), ("7", (7,)), (" ", None)],
)
def test_shape_accepts_several_notations(text, shape):
    assert read_shape(text) == shape


@pytest.mark.parametrize("text", ["1,,2", "a", "1.5", "-1", "1 2", "²", "9" * 40])
def test_invalid_shape_is_rejected(text):
    with pytest.raises(DomainError) as caught:
        read_shape(text)
    assert (caught.value.code, caught.value.field) == ("shape_bad", "shape")


@pytest.mark.parametrize("name", ["a:b", "a;b"])
def test_only_a_compiled_load_and_run_splits_names(name):
    assert read_inputs([make_input(name)], kind="wheel")[0].name == name
    for inputs, files in (([make_input(name)], []), ([], [data_file(input=name)])):
        with pytest.raises(DomainError, match="input_name_bad") as caught:
            read_inputs(inputs, files, {file.input for file in files}, kind="binary")
        assert "Python package" in word(caught.value)


def make_input(name="x", **fields) -> InputRequest:
    return InputRequest(name, **fields)


@pytest.mark.parametrize(
    ("inputs", "code", "field"),
    [
        ([make_input("")], "input_name_empty", "inputs.0"),
        ([make_input("x" * 201)], "input_name_long", "inputs.0"),
        ([make_input("a\x00")], "input_name_unprintable", "inputs.0"),
        ([make_input(), make_input("y"), make_input()], "input_name_twice", "inputs.2"),
        ([make_input("data")], "input_name_twice", "inputs.0"),
        ([make_input(literal="[1,[2]]")], "literal_ragged", "inputs.0"),
        ([make_input("y"), make_input(literal="1.")], "literal_bad", "inputs.1"),
        ([make_input(literal="1", shape=(1,))], "input_two_ways", "inputs.0"),
        ([make_input(literal="1", dtype="int32")], "input_two_ways", "inputs.0"),
        ([make_input(shape=())], "shape_bad", "inputs.0"),
        ([make_input(shape=(0,))], "shape_bad", "inputs.0"),
        ([make_input(shape=(1,) * 8)], "shape_bad", "inputs.0"),
        ([make_input(shape=(2**31,))], "shape_bad", "inputs.0"),
        ([make_input(shape=(2**20, 2**10))], "shape_large", "inputs.0"),
        ([make_input(dtype="float64")], "dtype_unknown", "inputs.0"),
        ([make_input(literal="1," * TEXT_LIMIT_BYTES + "1")], "inputs_too_long", "data"),
        ([make_input(f"i{n}") for n in range(32)], "too_many_inputs", "data"),
    ],
)
@pytest.mark.django_db
def test_invalid_input_is_rejected_with_its_row(inputs, code, field):
    with pytest.raises(DomainError) as caught:
        make_task(inputs=tuple(inputs))  # with a data file for the variable "data"
    assert (caught.value.code, caught.value.field) == (code, field)
    assert code not in word(caught.value)
    assert not Task.objects.exists()


@pytest.mark.django_db
def test_dtype_that_a_binary_cannot_read_is_rejected():
    worker = make_worker()
    inputs = (make_input(shape=(2,), dtype="float16"),)
    assert make_task(worker=worker, inputs=inputs)
    Runtime.objects.filter(worker=worker).update(kind="binary")
    with pytest.raises(DomainError) as caught:
        make_task(worker=worker, inputs=inputs)
    assert caught.value.code == "dtype_not_here"


@pytest.mark.django_db
def test_inputs_are_stored_in_the_format_of_the_agent():
    task = make_task(
        files=[model_file(), data_file()],
        inputs=(
            make_input("a", literal="[1, 2.5]"),
            make_input("b", shape=(2, 3), dtype="int8"),
            make_input("c"),
        ),
        seed=7,
    )
    task.refresh_from_db()
    assert task.inputs == [
        {"name": "a", "literal": "[1,2.5]", "shape": None, "dtype": ""},
        {"name": "b", "literal": "", "shape": [2, 3], "dtype": "int8"},
        {"name": "c", "literal": "", "shape": None, "dtype": ""},
    ]
    assert task.seed == 7


def test_longest_input_name_is_accepted():
    assert read_inputs([make_input("x" * 200, literal="1,2")])


@pytest.mark.parametrize("mark", ["x", '"', "\u6d4b", "\U0001f600"])
@pytest.mark.django_db
def test_largest_accepted_order_fits_into_a_frame(settings, mark):
    """The order has as many files, as long names and as many values as the limits allow."""
    settings.S3_PUBLIC_ENDPOINT_URL = f"https://{'storage.' * 7}example.org"
    settings.STORAGE_PER_USER_BYTES = 2**50

    def files(count: int) -> list[FileRequest]:
        names = (f"{number:02}" + mark * (LONGEST_NAME - 2) for number in range(count))
        return [data_file(name=f"{name[:9]}.npy", input=name) for name in names]

    option = model_file(kind="option", name="cache.bin", option="fast_run_algo_policy")
    character_bytes = len(json.dumps(mark, ensure_ascii=False).encode()) - 2
    most = settings.DATA_FILES_LIMIT
    count = min(most - 1, TEXT_LIMIT_BYTES // (character_bytes * LONGEST_NAME + 4))
    left = TEXT_LIMIT_BYTES - count * (character_bytes * (LONGEST_NAME - 2) + 4)
    rest = [f"r{number}" for number in range(most - count)]
    inputs = [InputRequest(name, shape=(2**20,) + (1,) * 6, dtype="float32") for name in rest]
    left -= sum(len(name) + 2 + 2 for name in rest)
    if inputs and left > 100:
        digits = "1," * ((left - 40) // 2) + "1"
        inputs[0] = InputRequest(rest[0], literal=digits)
    task = make_task(
        files=[model_file(), *files(count), option],
        inputs=tuple(inputs),
        options={"fast_run": True},
        plan=PRESETS["thorough"],
        seed=2**63 - 1,
    )
    task.files.update(sha256="a" * 64, size_bytes=2**40)
    uploads.submit_task(task, stored_objects(task))
    attempt = make_attempt(task)
    (order,) = [
        message for message in gateway.desired_state(attempt.worker_id) if message.type == "start"
    ]
    frame = encode(order).encode()
    assert len(frame) < MAX_FRAME_BYTES
    # the test uses up the limits
    assert len(frame) > 30_000


@pytest.mark.django_db
def test_input_names_of_files_count_towards_the_text_limit():
    files = [data_file(name=f"{n}.npy", input=f"{n:02}" + "\u6d4b" * 198) for n in range(32)]
    assert make_task(files=[model_file(), *files[:20]])
    with pytest.raises(DomainError, match="inputs_too_long"):
        make_task(
            files=[model_file(), *files[:31]], inputs=(make_input("y", literal="1," * 2000 + "1"),)
        )
