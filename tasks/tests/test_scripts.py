"""Tests of script tasks: files, arguments, and rejected requests."""

import httpx2
import pytest
from django.db import IntegrityError
from django.utils import translation

from agent.config import LOG_LIMIT_BYTES
from agent.execution.runner import FILE_LIMIT_BYTES
from agent.execution.watchdog import WatchLimits
from agent.link.log_tail import END_BYTES
from agent.protocol.messages import Script
from tasks.lifecycle.outcomes import fail_task
from tasks.models import Task, program_name
from tasks.submission.contents import check_program
from tasks.submission.creation import rerun_task
from tasks.submission.model_heads import check_model
from tasks.submission.request import TaskRequest
from tasks.submission.scripts import read_script, split_arguments
from tasks.tests.make import (
    MODEL,
    data_file,
    make_changed_copy,
    make_task,
    make_user,
    make_worker,
    model_file,
    post_json,
)
from tasks.tests.scripts import (
    PROGRAM,
    file_entry,
    make_script_task,
    make_script_worker,
    program_file,
    script_request,
    zip_of,
)
from tasks.views.task_form import form_data
from webprofile.errors import DomainError
from webprofile.messages.errors import word
from workers.models import Runtime

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice(client, alice):
    client.force_login(alice)
    return alice


def rejection(**changes) -> DomainError:
    with pytest.raises(DomainError) as caught:
        make_script_task(waits=False, **changes)
    assert str(word(caught.value))
    return caught.value


@pytest.mark.parametrize(
    ("changes", "code", "field"),
    [
        ({"files": [program_file(), program_file()]}, "one_program_wanted", "model"),
        ({"files": [program_file(name="net.mge")]}, "script_suffix", "model"),
        ({"files": [program_file(name="a/train.py")]}, "file_name_path", "model"),
        ({"files": [program_file(size_bytes=0)]}, "file_empty", "model"),
        ({"files": [program_file(name="train.zip")]}, "script_entry_missing", "entry"),
        ({"files": [program_file(), data_file()]}, "script_takes_no_inputs", "data"),
        (
            {"files": [program_file(), data_file(input="", name="my data.npy")]},
            "script_data_name",
            "data",
        ),
        (
            {"files": [program_file(), data_file(input="", name="Train.py")]},
            "script_data_twice",
            "data",
        ),
        (
            {"files": [program_file(), *[data_file(input="", name="a.bin")] * 2]},
            "script_data_twice",
            "data",
        ),
    ],
)
def test_invalid_files_of_a_script_are_rejected(changes, code, field):
    error = rejection(**changes)
    assert (error.code, error.field) == (code, field)


@pytest.mark.parametrize(
    ("fields", "code", "field"),
    [
        ({"entry": "../main.py"}, "script_entry_bad", "entry"),
        ({"arguments": ["a\x01b"]}, "script_arguments_bad", "arguments"),
        ({"formats": ["chrome_timeline.json"] * 2}, "script_formats", "formats"),
        ({"time_limit_s": 10**6}, "script_time_limit", "time_limit_s"),
    ],
)
def test_invalid_call_of_a_script_is_rejected_with_its_field(fields, code, field):
    with pytest.raises(DomainError) as caught:
        read_script({"entry": "", **fields})
    assert (caught.value.code, caught.value.field) == (code, field)
    with translation.override("zh-hans"):
        assert str(word(caught.value))


def test_arguments_are_split_like_a_shell_without_expansion():
    arguments = split_arguments("--name 'two words' \\\n  $HOME *.py `ls` ''")
    assert arguments == ["--name", "two words", "$HOME", "*.py", "`ls`", ""]
    assert read_script(None) is None
    assert read_script({"entry": "", "arguments": []}) == Script()


@pytest.mark.parametrize("name", ["train.py", "TRAIN.PY", "all.zip"])
def test_model_with_the_name_of_a_program_is_rejected(name):
    with pytest.raises(DomainError) as caught:
        make_task(files=[model_file(name=name)])
    assert (caught.value.code, caught.value.field) == ("model_is_script", "model")
    assert "“Script”" in word(caught.value)


def test_device_needs_both_permissions_and_a_wheel_for_scripts():
    owner = make_user()
    workers = {
        "scripts_not_allowed": make_worker(offers_scripts=True),
        "scripts_not_offered": make_worker(allows_scripts=True),
        "script_needs_wheel": make_script_worker(),
    }
    Runtime.objects.filter(worker=workers["script_needs_wheel"]).update(kind="binary")
    for code, worker in workers.items():
        with pytest.raises(DomainError) as caught:
            make_script_task(owner, worker, waits=False)
        assert caught.value.code == code
        assert worker.name in word(caught.value)
    assert not Task.objects.exists()
    task = make_script_task(owner, make_script_worker("lab"))
    assert (task.kind, task.worker.name, task.model_name) == ("script", "lab", "train.py")


def test_task_stores_script_and_time_limit_by_format(settings):
    both = Script(formats=("chrome_timeline.json", "memory_flow.svg"))
    one, two = make_script_task(), make_script_task(script=both)
    assert one.script == Script(arguments=("--steps", "3")).model_dump(mode="json")
    assert two.timeout_s == settings.RUN_TIMEOUT_S + 2 * 60
    assert one.timeout_s == settings.RUN_TIMEOUT_S + 60
    assert make_script_task(script=Script(time_limit_s=30)).timeout_s == 30
    assert (one.options, one.inputs) == ({}, [])
    assert [file.device_name for file in one.files.all()] == ["train.py"]


@pytest.mark.parametrize(
    ("name", "on_device"),
    [
        ("fail.py", "fail.py"),
        ("two-nets.v2.zip", "two-nets.v2.zip"),
        ("FAIL.PY", "script.py"),
        ("my program.py", "script.py"),
        ("-c.py", "script.py"),
        ("训练.py", "script.py"),
        ("a" * 98 + ".py", "script.py"),
        ("train.py\n", "script.py"),
        ("../train.zip", "script.zip"),
    ],
)
def test_device_keeps_plain_program_names(name, on_device):
    assert program_name(name) == on_device


# -- contents of files ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("train.py", MODEL, "script_is_model"),
        ("train.zip", b"mgbtest0\x01\0\0\0" + MODEL, "script_is_model"),
        ("train.py", zip_of(main="1"), "script_is_zip"),
        ("train.py", b"import \x00", "script_not_text"),
        ("train.py", b"caf\xe9 = 1\n", "script_not_text"),
        ("train.zip", PROGRAM, "script_not_zip"),
        ("train.zip", b"PK\x05\x06" + bytes(18), "script_zip_empty"),
        ("train.zip", zip_of(main="1")[:60], "script_zip_damaged"),
        ("train.zip", zip_of(train__other="1"), "script_entry_not_there"),
    ],
    # a zip contains the current time, which must not be in the name of a test
    ids=lambda value: "" if isinstance(value, bytes) else value,
)
def test_file_that_is_no_program_is_rejected(name, content, code):
    with pytest.raises(DomainError) as caught:
        check_program(name, content, len(content), entry="main.py")
    assert caught.value.code == code
    assert name in word(caught.value)


def test_message_for_a_missing_entry_lists_programs_of_the_zip():
    content = zip_of(**{f"p{number}": "1" for number in range(9)})
    with pytest.raises(DomainError) as caught:
        check_program("a.zip", content, len(content), entry="main.py")
    assert "p0.py, p1.py, p2.py, p3.py, p4.py, p5.py, p6.py, p7.py, …" in word(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "entry"),
    [
        ("train.py", PROGRAM, None),
        ("train.py", "# -*- coding: latin-1 -*-\nx = 'é'\n".encode("latin-1"), None),
        ("train.py", ("#" * 65535 + "é").encode()[: 64 * 1024], None),
        ("train.zip", zip_of(train__main="1", other="2"), "train/main.py"),
    ],
)
def test_valid_program_is_accepted(name, content, entry):
    check_program(name, content, len(content), entry=entry)


def test_zip_too_large_to_read_is_not_checked():
    content = zip_of(other="1")
    check_program("a.zip", content[:30], len(content), entry="main.py")


def test_model_with_the_content_of_a_program_is_rejected():
    for content in (b"#!/usr/bin/env python3\n", PROGRAM):
        with pytest.raises(DomainError, match="model_is_text") as caught:
            check_model("net", content, len(content))
        assert "“Script”" in word(caught.value)
    check_model("net", MODEL, len(MODEL))


# -- requests of the form -------------------------------------------------------------------------


def submit(client, body, contents):
    """Create a task, upload its files and submit it; return the last response."""
    task = post_json(client, "/api/v1/tasks/", body).json()
    for target in task["uploads"]:
        httpx2.put(target["url"], content=contents[target["name"]], headers=target["headers"])
    return post_json(client, f"/api/v1/tasks/{task['id']}/submit/?discard=true")


def test_form_submits_a_script_with_data(client, alice, storage):
    formats = ["chrome_timeline.json", "memory_flow.svg"]
    body = script_request(script={"arguments": "--steps 3", "formats": formats})
    body["files"].append(file_entry(b"\x93NUMPY", "table.npy", "data"))
    answer = submit(client, body, {"train.py": PROGRAM, "table.npy": b"\x93NUMPY"})
    assert answer.json()["status"] == "waiting", answer.content
    task = Task.objects.get()
    assert task.script["arguments"] == ["--steps", "3"]
    assert task.script["formats"] == formats
    # the site does not read the data of a script
    assert [(f.device_name, f.arrays) for f in task.files.all()] == [
        ("train.py", []),
        ("table.npy", []),
    ]


@pytest.mark.parametrize(
    ("content", "name", "script", "code"),
    [
        (MODEL, "train.py", {}, "script_is_model"),
        (zip_of(other="1"), "a.zip", {"entry": "main.py"}, "script_entry_not_there"),
        (PROGRAM, "net.mge", None, "model_is_text"),
    ],
)
def test_submit_with_discard_deletes_a_task_with_the_wrong_kind_of_file(
    client, alice, storage, content, name, script, code
):
    answer = submit(client, script_request(content, name, script=script), {name: content})
    assert answer.json()["code"] == code
    assert f"“{name}”" in answer.json()["detail"]
    assert not Task.objects.exists()


def test_judge_validates_a_draft_of_a_script(client, alice):
    worker = make_worker()
    draft = {
        "worker": worker.pk,
        "runtime_version": "1.13.0",
        "script": {"arguments": "'"},
        "files": [{"kind": "model", "name": "train.py"}],
    }
    (problem,) = post_json(client, "/api/v1/tasks/judge/", draft).json()["problems"]
    assert problem["field"] == "script.arguments"
    draft["script"] = {
        "arguments": "--steps '3 4'",
        "formats": ["chrome_timeline.json", "memory_flow.svg"],
    }
    (problem,) = post_json(client, "/api/v1/tasks/judge/", draft).json()["problems"]
    assert (problem["field"], problem["code"]) == ("worker", "scripts_not_allowed")
    draft["worker"] = make_script_worker().pk
    answer = post_json(client, "/api/v1/tasks/judge/", draft).json()
    assert answer["problems"] == []
    line = "python train.py --steps '3 4'"
    commands = [(command["kind"], command["line"]) for command in answer["commands"]]
    assert commands == [("timeline", line), ("memory", line)]


def test_form_shows_the_default_limits_of_scripts(client, alice):
    make_script_worker()
    page = client.get("/tasks/new/?kind=script").text
    text = page.split('id="script-limits"')[1].split("</p>")[0]
    limits = WatchLimits()
    for figure in (
        f"prints more than {limits.print_bytes >> 20} MiB",
        f"writes more than {limits.disk_bytes >> 30} GiB",
        f"({FILE_LIMIT_BYTES >> 30} GiB to one file)",
        f"more than {limits.processes} processes",
        f"for {limits.silence_s:g} s",
        f"{LOG_LIMIT_BYTES >> 20} MiB of the output is kept;",
        f"if the output is longer, the last {END_BYTES >> 10} KiB are kept, too.",
    ):
        assert figure in text


def test_task_page_explains_the_limit_of_logs(client):
    task = make_script_task()
    client.force_login(task.owner)
    page = client.get(f"/tasks/{task.pk}/").text
    text = page.split('id="log-cut"')[1].split("</p>")[0]
    assert f"logs up to {LOG_LIMIT_BYTES >> 20} MiB are complete" in text
    assert f"the last {END_BYTES >> 10} KiB" in text


# -- copies ---------------------------------------------------------------------------------------


def test_rerun_of_a_script_keeps_its_arguments_and_fills_the_form():
    task = make_script_task(script=Script(arguments=("--name", "two words")))
    task.files.update(stored_at=task.created_at)
    fail_task(task, reason="timed_out")
    copy, request = rerun_task(task, owner=task.owner)
    assert (copy.script, copy.kind) == (task.script, "script")
    assert request.script == Script(arguments=("--name", "two words"))
    form = form_data(task)
    assert form["kind"] == "script"
    assert form["script"]["arguments"] == "--name 'two words'"


def test_rerun_of_a_script_after_a_changed_copy_creates_another_task():
    task = make_script_task()
    task.files.update(stored_at=task.created_at)
    fail_task(task, reason="timed_out")
    other = make_changed_copy(task, script=Script(arguments=("--other",)))
    copy, _ = rerun_task(task, owner=task.owner)
    assert copy != other


def test_database_rejects_a_script_of_kind_model():
    task = make_script_task()
    with pytest.raises(IntegrityError, match="task_script_iff_kind"):
        Task.objects.filter(pk=task.pk).update(kind="model")


def test_request_without_files_has_an_empty_model_name():
    assert TaskRequest().model_name == ""
