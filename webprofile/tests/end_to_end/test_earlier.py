"""An earlier result with MegEngine: it is offered and checked, and names the kernel's settings."""

import json

import pytest

from webprofile.operations.devserver.demo import file_fields
from webprofile.tests.end_to_end.runs import page, submit, watch

pytestmark = [pytest.mark.megengine, pytest.mark.embedded]


@pytest.mark.exhaustive
def test_an_earlier_result_is_offered_and_checked_in_a_few_seconds(visitor, testdata):
    model, data = (testdata / part for part in ("models/resnet18.mge", "inputs/resnet18/data.npy"))
    files = {model: {"kind": "model"}, data: {"kind": "data", "input": "data"}}
    plan = {"preset": "custom", "clean": True, "clean_min_s": 0.5, "profiled": 1}
    task = submit(visitor, files, plan=plan, seed=35)
    watch(visitor, task)
    manifest = json.loads(visitor.artifact(task, "manifest.json"))
    names = {"smt", "governor", "turbo", "aslr", "thp", "irq", "quota", "cpuset"}
    assert {setting["name"] for setting in manifest["settings"]} == names
    described = [{**file_fields(path), **use} for path, use in files.items()]
    first = visitor.get(f"/api/v1/tasks/{task}/").json()
    same = {name: first[name] for name in ("worker", "runtime_version", "options", "seed")}
    judged = visitor.post("/api/v1/tasks/judge/", same | {"plan": plan, "files": described})
    earlier = judged["earlier"]
    if visitor.get(f"/api/v1/profiles/of-task/{task}/measurement/").json()["disturbances"]:
        assert earlier is None  # a busy machine
    else:
        assert (earlier["task"], earlier["may_check"]) == (task, True)
        assert earlier["latency_p50_ms"] > 0
    check = visitor.post(f"/api/v1/tasks/{task}/check/", {})["id"]
    states, _ = watch(visitor, check)
    assert states[-1] == "succeeded"
    assert f"Check of task #{task}: latency" in page(visitor, check)
