"""Tests of judging a draft of a task, and of caches copied from earlier tasks."""

import pytest

from tasks.lifecycle.transitions import transition_if
from tasks.models import Artifact, Task, artifact_key
from tasks.states import Outcome, TaskState
from tasks.tests.make import (
    MD5,
    make_attempt,
    make_task,
    make_user,
    make_waiting_task,
    make_worker,
    post_json,
)
from webprofile.storage import storage as object_store
from workers.models import Runtime

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("logged_in")]
TASKS, JUDGE = "/api/v1/tasks/", "/api/v1/tasks/judge/"
CACHE = b"the choice of algorithms"


def judge(client, **draft):
    """Judge a draft for a new device; return the response."""
    body = {"worker": make_worker().pk, "runtime_version": "1.13.0"} | draft
    answer = post_json(client, JUDGE, body)
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_plan_of_one_pass_has_one_command(client, alice):
    answer = judge(
        client,
        plan={"preset": "custom", "profiled": 1},
        options={"iter": 3, "no_sanity_check": False},
    )
    (command,) = answer["commands"]
    assert (command["kind"], command["processes"]) == ("profiled", 1)
    assert command["line"] == "load_and_run model.mge --iter=3 --profile=profile.json"
    assert answer["problems"] == []


def test_each_kind_of_pass_has_a_command(client, alice):
    answer = judge(
        client,
        plan={"preset": "standard"},
        options={"iter": 3, "bin_io_dump": True, "model_dump": True, "no_sanity_check": False},
        files=[{"kind": "data", "name": "My picture.PPM", "input": "data"}],
        inputs=[{"name": "b c", "shape": "1,3"}, {"name": "d", "literal": "1,2"}],
    )
    inputs = "'--input=data:input_0.npy;b c:input_1.npy;d:input_2.npy'"
    assert [(c["kind"], c["processes"], c["line"]) for c in answer["commands"]] == [
        ("clean", 3, f"load_and_run model.mge {inputs} --iter=10 --model_dump=model_dump.mge"),
        ("profiled", 5, f"load_and_run model.mge {inputs} --iter=3 --profile=profile.json"),
        ("dump", 1, f"load_and_run model.mge {inputs} --iter=1 --bin_io_dump=bin_io_dump"),
    ]


def test_empty_draft_has_the_commands_of_the_default_plan(client, alice):
    answer = post_json(client, JUDGE, {}).json()
    kinds = [(command["kind"], command["processes"]) for command in answer["commands"]]
    assert kinds == [("clean", 3), ("profiled", 5)]
    assert (answer["problems"], answer["unavailable"]) == ([], {})


@pytest.mark.parametrize(
    ("draft", "fields"),
    [
        ({"options": {"iter": 0, "warmup_iter": "x"}}, ["iter", "warmup_iter"]),
        ({"options": {"lite": True, "mdl": True}}, ["lite", "mdl"]),
        ({"options": {"check_dispatch": True}}, ["check_dispatch"]),
        ({"options": {"fast_run_algo_policy": True}}, ["fast_run_algo_policy"]),
        ({"options": {"check_var_value": "$(id)"}}, ["check_var_value"]),
        ({"plan": {"clean": False, "profiled": 0}}, ["profiled"]),
        ({"time_limit_s": 10**8}, ["time_limit_s"]),
        ({"inputs": [{"name": "x", "literal": "1."}, {"name": "y", "shape": [0]}]},
         ["inputs.0", "inputs.1"]),
        ({"inputs": [{"name": "x", "literal": "1"}] * 2}, ["inputs.1"]),
    ],
    ids=str,
)  # fmt: skip
def test_draft_reports_each_problem_with_its_field(client, alice, draft, fields):
    answer = judge(client, **draft)
    assert [problem["field"] for problem in answer["problems"]] == fields
    assert all(len(problem["detail"]) > 15 for problem in answer["problems"])
    assert answer["commands"] == []
    assert not Task.objects.exists()


def test_draft_explains_unreadable_values_with_their_rule(client, alice):
    texts = {
        "seed": "The seed must be a whole number from 0 to",
        "priority": "The priority must be an integer from -",
        "time_limit_s": "The time limit must be an integer number of seconds, at most",
        "plan.profiled": "“Number of profiled passes” must be a number from 0 to",
        "plan.clean_min_s": "“Minimum duration of a latency pass (s)” must be a number from 0",
        "inputs.0.shape": "A shape is 1 to 7 positive integers",
        "script.arguments": "quotation",
        "script.sample_rate": "an integer",
        "script.time_limit_s": "The time limit of a script must be an integer number of seconds "
        "up to",
        "title": "A title must be one line of at most",
    }
    draft = {
        "seed": "minus one",
        "priority": 1.5,
        "time_limit_s": "an hour",
        "plan": {"preset": "custom", "profiled": "x", "clean_min_s": "1 s"},
        "inputs": [{"name": "x", "shape": "a"}],
        "script": {"arguments": "'", "sample_rate": "often", "time_limit_s": 0.5},
        "title": "x" * 201,
    }
    answer = post_json(client, JUDGE, draft)
    assert (answer.status_code, answer.json()["refusal"]["code"]) == (200, "invalid")
    details = {problem["field"]: problem["detail"] for problem in answer.json()["problems"]}
    assert set(details) == set(texts)
    assert [field for field, text in texts.items() if text not in details[field]] == []


def test_cache_file_satisfies_the_option_that_needs_it(client, alice):
    files = [{"kind": "option", "option": "fast_run_algo_policy"}]
    answer = judge(client, files=files)
    assert answer["problems"] == []
    assert "--fast_run_algo_policy=algo_cache.bin" in answer["commands"][0]["line"]


def test_problems_are_translated(client, alice):
    english = judge(client, options={"iter": 0})["problems"][0]["detail"]
    client.cookies["django_language"] = "zh-hans"
    assert judge(client, options={"iter": 0})["problems"][0]["detail"] != english


def test_draft_reveals_nothing_about_a_private_device(client, alice):
    hidden = make_worker(is_public=False)
    answer = post_json(client, JUDGE, {"worker": hidden.pk, "runtime_version": "1.13.0"}).json()
    assert answer["unavailable"] == {}


def test_draft_for_any_device_has_the_options_of_all_matching_devices(client, alice):
    make_worker("a-plain")
    able = make_worker("b-able", facts={"cores": 4})
    Runtime.objects.filter(worker=able).update(kind="binary", builds=["cuda"], libraries=["fast"])
    answer = post_json(client, JUDGE, {"target": {}, "options": {"cuda": True}}).json()
    assert answer["problems"] == []
    assert ("cuda" in answer["unavailable"], "tensorrt" in answer["unavailable"]) == (False, True)
    assert answer["libraries"] == ["fast"]
    # no device supports both
    answer = post_json(client, JUDGE, {"target": {}, "options": {"cuda": True, "tensorrt": True}})
    assert {row["field"] for row in answer.json()["problems"]} == {"cuda", "tensorrt"}
    # one that supports neither is chosen by name
    plain = {"worker": "a-plain", "runtime_version": "1.13.0", "options": {"cuda": True}}
    assert post_json(client, JUDGE, plain).json()["problems"][0]["field"] == "cuda"


@pytest.mark.parametrize("body", [[], {"extra": 1}, {"options": 1}, {"worker": 1.5}])
def test_malformed_draft_is_reported_as_invalid(client, alice, body):
    answer = post_json(client, JUDGE, body)
    assert (answer.status_code, answer.json()["refusal"]["code"]) == (200, "invalid")
    assert answer.json()["problems"][0]["detail"]


def make_task_with_artifact(owner, name="algo_cache.bin") -> Task:
    """Create a task that has succeeded and has an artifact in storage."""
    task = make_waiting_task(owner)
    attempt = make_attempt(task)
    transition_if(task, TaskState.FINISHED, set(TaskState), outcome=Outcome.SUCCEEDED)
    key = artifact_key(str(attempt.pk), name)
    object_store.write(key, CACHE)
    size_bytes, md5 = object_store.head(key)
    Artifact.objects.create(attempt=attempt, name=name, size_bytes=size_bytes, md5=md5)
    return task


def request_with_cache(source: int, **changes):
    files = [
        {"kind": "model", "name": "net.mge", "size_bytes": 11, "md5": MD5},
        {"kind": "option", "option": "fast_run_algo_policy", "from_task": source} | changes,
    ]
    return {"worker": make_worker().pk, "runtime_version": "1.13.0", "files": files}


def test_cache_of_an_earlier_task_is_copied_without_an_upload(client, alice, storage):
    source = make_task_with_artifact(alice)
    page = client.get("/tasks/new/").text
    assert f'<option value="{source.pk}">' in page
    answer = post_json(client, TASKS, request_with_cache(source.pk))
    assert answer.status_code == 201, answer.content
    assert [target["name"] for target in answer.json()["uploads"]] == ["net.mge"]
    task = Task.objects.get(pk=answer.json()["id"])
    cache = task.files.get(kind="option")
    assert (cache.option, cache.device_name) == ("fast_run_algo_policy", "algo_cache.bin")
    assert object_store.read(cache.object_key, limit_bytes=100) == CACHE
    assert task.options == {"fast_run_algo_policy": True}
    again = post_json(client, f"/api/v1/tasks/{answer.json()['id']}/uploads/", {}).json()
    assert [target["name"] for target in again["uploads"]] == ["net.mge"]


def test_cache_of_another_users_task_has_the_error_of_an_unknown_task(client, alice, storage):
    foreign = make_task_with_artifact(make_user("bob"))
    for source in (foreign.pk, 10**6):
        answer = post_json(client, TASKS, request_with_cache(source))
        assert (answer.status_code, answer.json()["code"]) == (422, "source_unknown")
        assert answer.json()["field"] == "fast_run_algo_policy"
    assert f'<option value="{foreign.pk}">' not in client.get("/tasks/new/").text
    assert not Task.objects.filter(owner=alice).exists()


def test_cache_of_a_live_task_or_without_the_file_is_rejected(client, alice, storage):
    without = make_task_with_artifact(alice, name="log.txt")
    live = make_task(alice)
    for source in (without, live):
        answer = post_json(client, TASKS, request_with_cache(source.pk))
        assert answer.json()["code"] == "source_missing"


@pytest.mark.parametrize("option", ["iter", "pack_info_json", "", "no_such"])
def test_only_cache_options_accept_a_file_of_another_task(client, alice, storage, option):
    source = make_task_with_artifact(alice)
    answer = post_json(client, TASKS, request_with_cache(source.pk, option=option))
    assert answer.json()["code"] == "option_file_unwanted"


def test_cache_missing_in_storage_is_rejected_before_a_task_exists(client, alice, storage):
    source = make_task_with_artifact(alice)
    object_store.delete(Artifact.objects.get().object_key)
    answer = post_json(client, TASKS, request_with_cache(source.pk))
    assert (answer.status_code, answer.json()["code"]) == (422, "file_gone")
    assert list(Task.objects.all()) == [source]


def test_draft_with_copied_files_has_commands_or_a_problem(client, alice):
    old = make_task(alice)
    old.files.update(stored_at=old.created_at)
    files = [{"kind": file.kind, "from_file": file.pk} for file in old.files.all()]
    answer = judge(client, plan={"preset": "custom", "profiled": 1}, files=files)
    assert answer["problems"] == []
    (command,) = answer["commands"]
    (data,) = old.files.filter(kind="data")
    assert f"--input={data.input}:input_0.npy" in command["line"]
    files[0]["from_file"] = 10**6
    answer = judge(client, files=files)
    assert [problem["code"] for problem in answer["problems"]] == ["file_unknown"]
    assert answer["commands"] == []


def test_request_sets_plan_inputs_seed_and_time_limit(client, alice, storage):
    body = {
        "worker": make_worker().pk,
        "runtime_version": "1.13.0",
        "files": [{"kind": "model", "name": "net.mge", "size_bytes": 11, "md5": MD5}],
        "plan": {"clean": True, "clean_min_s": 0.5, "profiled": 0},
        "inputs": [{"name": "x", "literal": "1, 2.0"}, {"name": "y", "shape": "2x3"}],
        "seed": 2**63 - 1,
        "time_limit_s": 90,
        "options": {"thread": 2},
    }
    task = Task.objects.get(pk=post_json(client, TASKS, body).json()["id"])
    assert (task.plan["clean_min_s"], task.plan["profiled"]) == (0.5, 0)
    assert [i["literal"] or i["shape"] for i in task.inputs] == ["1,2.0", [2, 3]]
    assert (task.seed, task.time_limit_s) == (2**63 - 1, 90)


def test_paired_comparison_is_judged_without_profiled_passes(client, alice):
    pairing = {"arms": [{"options": {"share_param_mem": True, "no_sanity_check": False}}]}
    files = [
        {"kind": "data", "name": "old.npy", "input": "data"},
        {"kind": "model", "name": "new.mge", "arm": 1},
        {"kind": "data", "name": "new.ppm", "input": "image", "arm": 1},
    ]
    options = {"record_comp_seq": True, "no_sanity_check": False}
    answer = judge(client, options=options, pairing=pairing, files=files)
    assert answer["problems"] == []
    assert [(row["arm"], row["kind"], row["line"]) for row in answer["commands"]] == [
        (
            "A",
            "clean",
            "load_and_run model.mge --input=data:input_0.npy --record_comp_seq --iter=10",
        ),
        (
            "B",
            "clean",
            "load_and_run model.mge --input=image:input_0.npy --share_param_mem --iter=10",
        ),
    ]


def test_problems_of_an_arm_have_its_fields(client, alice):
    arms = [{}, {"options": {"warmup_iter": "x"}, "inputs": [{"name": "a", "literal": "1,x"}]}]
    answer = judge(client, options={"iter_": 1}, pairing={"arms": arms})
    assert [row["field"] for row in answer["problems"]] == [
        "iter_",
        "pairing.arms.1.inputs.0",
        "pairing.arms.1.warmup_iter",
    ]
    assert answer["commands"] == []
    answer = judge(client, pairing={"arms": [{"options": {"thread": 2}}]})
    assert [row["code"] for row in answer["problems"]] == ["pairing_option"]
