"""End-to-end tests with MegEngine, an agent process, WebSockets and an S3 server."""

import html
import json
import subprocess

import httpx2
import pytest

from webprofile.operations.devserver.demo import DemoError, table
from webprofile.tests.end_to_end.runs import page, send, watch
from webprofile.tests.site import EmbeddedSite

pytestmark = [pytest.mark.megengine, pytest.mark.embedded]

END_WITHIN_S = 120.0


def test_a_real_model_is_profiled_and_its_text_is_what_profile_analyze_prints(
    visitor, testdata, megengine_python, tmp_path
):
    model = testdata / "models" / "resnet18.mge"
    data = {"data": testdata / "inputs" / "resnet18" / "data.npy"}
    task = send(visitor, model, data)
    states, log = watch(visitor, task)
    assert states == ["waiting", "assigned", "running", "processing", "succeeded"]
    assert "=== finished test #0:" in log
    assert "iter 2/3:" in log

    raw = visitor._client.get(f"/tasks/{task}/artifacts/profile.json")
    profile = tmp_path / "profile.json"
    profile.write_bytes(httpx2.get(raw.headers["Location"]).content)
    assert len(json.loads(profile.read_bytes())["profiler"]["device"]) > 100
    original = subprocess.run(
        [
            megengine_python,
            "-m",
            "megengine.tools.profile_analyze",
            profile,
            "-t",
            "10",
            "--show-host",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    shown = table(visitor, task, 10)
    assert shown.rstrip("\n") == original.rstrip("\n")
    html = visitor.get(f"/tasks/{task}/result/?rows=10").text
    assert "ConvolutionForward" in html


def test_the_memory_plan_of_a_real_run_stands_beside_its_operators(visitor, testdata):
    model = testdata / "models" / "resnet18_opt.mge"
    data = {"data": testdata / "inputs" / "resnet18_opt" / "data.npy"}
    task = send(visitor, model, data, get_static_mem_info=True)
    states, _ = watch(visitor, task)
    assert states[-1] == "succeeded"
    shown = visitor.get(f"/tasks/{task}/result/").text
    assert 'id="left-out"' not in shown
    # as the sample's, whatever the order in which MegEngine laid out pieces of equal life
    assert 'id="static-memory-most">1.4 MiB<' in shown
    rows = shown.split('id="static-memory-chunks">')[1].split("</table>")[0]
    assert rows.count("data-row=") > 100


def test_two_inputs_are_fed_by_name(visitor, testdata):
    folder = testdata / "inputs" / "two_inputs"
    data = {"data": folder / "data.npy", "mask": folder / "mask.npy"}
    states, _ = watch(visitor, send(visitor, testdata / "models" / "two_inputs.mge", data))
    assert states[-1] == "succeeded"


@pytest.mark.parametrize("model", ["truncated_half", "pickle"])
def test_a_model_that_is_none_fails_with_the_cause_and_the_log_is_kept(visitor, testdata, model):
    task = send(visitor, testdata / "bad" / "models" / f"{model}.mge", {})
    states, log = watch(visitor, task)
    assert states[-1] == "failed"
    assert "cannot read the model" in page(visitor, task)
    assert log
    kept = visitor._client.get(f"/tasks/{task}/artifacts/log.txt")
    assert httpx2.get(kept.headers["Location"]).text


@pytest.mark.parametrize(
    ("file", "variable", "title", "says"),
    [
        ("ok", "image", "no input of the given name", "image"),
        ("dtype_int32", "data", "another dtype", "int32"),
        ("channels_4", "data", "does not fit the model", "input channel got 4"),
    ],
)
def test_a_data_file_that_does_not_fit_fails_with_the_cause(
    visitor, testdata, file, variable, title, says
):
    mask = testdata / "inputs" / "two_inputs" / "mask.npy"
    data = {variable: testdata / "bad" / "inputs" / f"{file}.npy", "mask": mask}
    task = send(visitor, testdata / "models" / "two_inputs.mge", data)
    states, _ = watch(visitor, task)
    assert states[-1] == "failed"
    text = page(visitor, task)
    assert title in text
    assert says in text


def test_a_data_file_that_is_none_is_refused_before_it_reaches_a_device(visitor, testdata):
    data = {"data": testdata / "bad" / "inputs" / "pickle_object_array.npy"}
    with pytest.raises(DemoError, match="holds Python objects") as refused:
        send(visitor, testdata / "models" / "two_inputs.mge", data)
    assert "pickle_object_array.npy" in str(refused.value)


def test_an_input_that_was_not_given_is_told_on_the_result_page(visitor, testdata):
    task = send(visitor, testdata / "models" / "tiny.mge", {})
    assert watch(visitor, task)[0][-1] == "succeeded"
    text = html.unescape(visitor.get(f"/tasks/{task}/result/").text)
    assert 'Input "data" (float32' in text
    assert "it gets random numbers" in text


def test_a_nan_is_warned_of_and_the_times_stay_good(visitor, testdata, tmp_path):
    original = (testdata / "inputs" / "two_inputs" / "data.npy").read_bytes()
    poisoned = tmp_path / "data.npy"
    poisoned.write_bytes(original[:-4] + b"\x00\x00\xc0\x7f")
    mask = testdata / "inputs" / "two_inputs" / "mask.npy"
    data = {"data": poisoned, "mask": mask}
    states, log = watch(visitor, send(visitor, testdata / "models" / "two_inputs.mge", data))
    assert states[-1] == "succeeded"
    assert "nan" in log.lower()


def test_a_running_task_can_be_cancelled(visitor, testdata):
    model = testdata / "models" / "deep_loop.mge"
    (data,) = (testdata / "inputs" / "deep_loop").glob("*.npy")
    task = send(visitor, model, {data.stem: data}, iter=10_000)
    for message in visitor.events(task):
        if message.get("state") == "running":
            visitor.post(f"/api/v1/tasks/{task}/cancel/", {})
        if message.get("state") == "finished":
            assert message["outcome"] == "cancelled"
            break
    watch(visitor, send(visitor, testdata / "models" / "tiny.mge", {}))  # the slot is free


@pytest.mark.exhaustive
def test_an_agent_that_is_killed_comes_back_and_the_task_succeeds(
    site: EmbeddedSite, visitor, testdata
):
    model = testdata / "models" / "deep_loop.mge"
    (data,) = (testdata / "inputs" / "deep_loop").glob("*.npy")
    task = send(visitor, model, {data.stem: data}, iter=20)
    killed = False
    states = []
    for message in visitor.events(task):
        if message["type"] == "event":
            states.append(message["state"])
        if message.get("state") == "running" and not killed:
            subprocess.run(["pkill", "-KILL", "-f", f"agent run --config {site.home}"], check=True)
            killed = True
        if message.get("state") == "finished":
            break
    assert states.count("running") == 2
    assert states[-1] == "finished"
    assert message["outcome"] == "succeeded"


def test_metadata_with_a_pickle_is_never_opened(visitor, testdata):
    cases = json.loads((testdata / "bad" / "cases.json").read_text())
    (case,) = [c for c in cases["models"] if c["file"].endswith("user_info_pickle.mge")]
    states, log = watch(visitor, send(visitor, testdata / case["file"], {}))
    assert states[-1] == "succeeded"
    assert "pickle" not in log


def test_the_workers_page_names_the_device_and_its_version(visitor):
    text = visitor.get("/workers/").text
    assert "local" in text
    assert "1.13.0" in text


def test_a_private_page_is_refused_in_words(visitor):
    with pytest.raises(DemoError):
        visitor.get("/tasks/999999/")
