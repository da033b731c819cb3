"""Tests of script tasks in the API. `documented_api` compares each response with the schema."""

import httpx2
import pytest

from tasks.lifecycle.cancel import cancel_task
from tasks.models import Task
from tasks.tests.make import TASKS, make_waiting_task, make_worker
from tasks.tests.scripts import (
    PROGRAM,
    make_script_task,
    make_script_worker,
    script_request,
    zip_of,
)
from webprofile.tests.documented_api import caller, expect_problem

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(alice):
    return caller(alice)


def test_script_task_is_created_uploaded_submitted_and_retried(client, storage):
    script = {
        "arguments": ["--name", "two words", ""],
        "formats": ["memory_flow.svg", "chrome_timeline.json"],
        "sample_rate": 100,
        "profile_device": False,
        "time_limit_s": 45,
    }
    task = client.post(TASKS, script_request(script=script)).json()
    assert task["kind"] == "script"
    assert task["script"] == script | {"entry": None}
    assert task["timeout_s"] == 45
    for target in task["uploads"]:
        httpx2.put(target["url"], content=PROGRAM, headers=target["headers"])
    submitted = client.post(f"{TASKS}{task['id']}/submit/").json()
    assert (submitted["status"], submitted["model_name"]) == ("waiting", "train.py")
    cancel_task(Task.objects.get())
    copy = client.post(f"{TASKS}{task['id']}/retry/").json()
    assert (copy["script"], copy["copied_from"]) == (submitted["script"], task["id"])


def test_model_task_has_no_script(client, alice):
    task = make_waiting_task(alice, make_worker())
    task_json = client.get(f"{TASKS}{task.pk}/").json()
    assert (task_json["kind"], task_json["script"]) == ("model", None)


@pytest.mark.parametrize(
    ("changes", "code", "field"),
    [
        ({"script": {"entry": "../x.py"}}, "script_entry_bad", "entry"),
        ({"script": {"entry": "x.py"}}, "script_entry_unwanted", "entry"),
        ({"script": {"time_limit_s": 10**6}}, "script_time_limit", "time_limit_s"),
        ({"options": {"iter": 3}}, "script_takes_no_options", "options"),
        ({"plan": {"preset": "quick"}}, "script_takes_no_plan", "plan"),
        ({"seed": 3}, "script_takes_no_seed", "seed"),
        ({"time_limit_s": 30}, "time_limit_of_script", "time_limit_s"),
        ({"inputs": [{"name": "x", "literal": "1"}]}, "script_takes_no_inputs", "inputs"),
        ({"script": None}, "model_is_script", "model"),
        ({"files": []}, "one_program_wanted", "model"),
        ({"target": {"pool": ""}, "runtime_version": ""}, "target_no_scripts", "target"),
    ],
)
def test_invalid_script_request_returns_a_documented_error(client, changes, code, field):
    make_worker()
    answer = client.post(TASKS, script_request(**changes))
    expect_problem(answer, 422, code)
    assert answer.json()["field"] == field
    assert not Task.objects.exists()


@pytest.mark.parametrize(
    "script",
    [
        {"formats": ["flame"]},
        {"formats": []},
        {"arguments": "--name 'two words"},
        {"arguments": ["x" * 1001]},
        {"sample_rate": -1},
        {"profile_device": "yes"},
        {"time_limit_s": -1},
        {"shell": True},
        {"entry": 3},
        {"formats": [["chrome_timeline.json"]]},
        {"arguments": ["x"] * 65},
        {"arguments": ["a\x00b"]},
        {"sample_rate": "often"},
        {"time_limit_s": "soon"},
    ],
)
def test_malformed_script_object_is_rejected(client, script):
    expect_problem(client.post(TASKS, script_request(script=script)), 422, "invalid")


def test_device_without_permission_for_scripts_rejects_a_script(client):
    expect_problem(
        client.post(TASKS, script_request(worker=make_worker().pk)), 422, "scripts_not_allowed"
    )
    box = make_worker(allows_scripts=True)
    expect_problem(client.post(TASKS, script_request(worker=box.pk)), 422, "scripts_not_offered")
    device = client.get(f"/api/v1/workers/{box.name}/").json()
    assert (device["allows_scripts"], device["takes_scripts"]) == (True, False)


def test_submit_fails_a_task_whose_archive_lacks_the_entry(client, storage):
    content = zip_of(other="1")
    task = client.post(TASKS, script_request(content, "a.zip", script={"entry": "main.py"})).json()
    for target in task["uploads"]:
        httpx2.put(target["url"], content=content, headers=target["headers"])
    expect_problem(client.post(f"{TASKS}{task['id']}/submit/"), 422, "script_entry_not_there")
    task_json = client.get(f"{TASKS}{task['id']}/").json()
    assert (task_json["status"], task_json["reason"]["code"]) == ("failed", "script_unreadable")


def test_judge_shows_the_command_of_a_script(client):
    body = script_request(script={"arguments": ["--steps", "3"]})
    judgement = client.post("/api/v1/tasks/judge/", body).json()
    assert (judgement["refusal"], judgement["queue"]["position"]) == (None, 1)
    (command,) = judgement["commands"]
    assert (command["kind"], command["line"]) == ("timeline", "python train.py --steps 3")
    body["worker"] = make_worker().pk
    judgement = client.post("/api/v1/tasks/judge/", body).json()
    assert judgement["refusal"]["code"] == "scripts_not_allowed"


def test_list_filters_by_kind(client, alice):
    model = make_waiting_task(alice, make_worker())
    script = make_script_task(alice, make_script_worker())
    for kind, task in (("model", model), ("script", script)):
        (row,) = client.get(f"{TASKS}?kind={kind}").json()["results"]
        assert (row["id"], row["kind"]) == (task.pk, kind)
    expect_problem(client.get(f"{TASKS}?kind=program"), 400, "query_invalid")
