"""Tests of earlier results that are offered instead of a new run, and of quick checks."""

import datetime

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone

from agent.protocol.plan import Plan
from profiles.models import AttemptMeasurement
from profiles.tests.make import finish_measured, make_measured_task, make_scatter
from tasks.models import Attempt, IdempotencyKey, Task, TaskFile
from tasks.states import Outcome
from tasks.submission.plans import CHECK
from tasks.tests.make import (
    MD5,
    MODEL,
    MODEL_MD5,
    make_user,
    make_waiting_task,
    make_worker,
    npy_bytes,
    post_json,
)
from workers.models import HealthCheck, Worker

pytestmark = [pytest.mark.django_db, pytest.mark.database]
JUDGE = "/api/v1/tasks/judge/"


def body_of(task: Task, **changes) -> dict:
    """Return the request that would measure the same as a task."""
    files = [
        {name: getattr(file, name) for name in ("kind", "name", "size_bytes", "md5", "input")}
        for file in task.files.all()
    ]
    fields = ("runtime_version", "options", "plan", "inputs", "seed")
    same = {name: getattr(task, name) for name in fields}
    return {"worker": task.worker_id, "files": files} | same | changes


def earlier(client, task: Task, **changes):
    answer = post_json(client, JUDGE, body_of(task, **changes))
    assert answer.status_code == 200, answer.content
    return answer.json()["earlier"]


@pytest.fixture
def task(alice) -> Task:
    return make_measured_task(alice, make_worker("desk"), median_ms=8.9)


def test_a_result_of_the_same_is_offered_with_its_age_and_time(client, task):
    at = timezone.now() - datetime.timedelta(hours=3)
    Task.objects.filter(pk=task.pk).update(finished_at=at)
    offered = earlier(client, task)
    assert (offered["task"], offered["latency_p50_ms"]) == (task.pk, 8.9)
    text = f"The same measurement was made 3 hours ago by task #{task.pk}: median latency 8.90 ms."
    assert offered["text"].replace("\xa0", " ") == text
    drift = "It is not known whether the device is still as fast as it was then."
    assert offered["drift"] == drift
    headers = {"HTTP_ACCEPT_LANGUAGE": "zh-hans"}
    answer = client.post(JUDGE, body_of(task), content_type="application/json", **headers)
    assert "3 小时前测过同样的内容" in answer.json()["earlier"]["text"].replace("\xa0", " ")


def test_the_newest_undisturbed_result_is_offered(client, alice, task):
    newer = make_measured_task(alice, task.worker)
    make_measured_task(alice, task.worker, disturbances=[{"kind": "load"}])
    # ended early by its user, so it has fewer passes
    cut = make_measured_task(alice, task.worker)
    Attempt.objects.filter(task=cut).update(enough_at=timezone.now())
    assert earlier(client, task)["task"] == newer.pk


def test_no_result_is_offered_for_a_key_that_has_created_a_task(client, task):
    key = IdempotencyKey.objects.create(user=task.owner, key="made", task=task)

    def offered(name):
        headers = {"Idempotency-Key": name}
        body = body_of(task)
        answer = client.post(JUDGE, body, content_type="application/json", headers=headers)
        return answer.json()["earlier"]

    assert offered("made") is None
    assert offered("new")["task"] == task.pk
    IdempotencyKey.objects.filter(pk=key.pk).update(
        created_at=timezone.now() - datetime.timedelta(days=2)
    )
    assert offered("made")["task"] == task.pk


@pytest.mark.parametrize(
    "changes",
    [
        {"options": {"iter": 7}},
        {"seed": 3},
        {"plan": {"preset": "quick"}},
        {"inputs": [{"name": "mask", "literal": "1,2"}]},
    ],
)
def test_a_result_of_another_request_is_not_offered(client, task, changes):
    assert earlier(client, task) is not None
    assert earlier(client, task, **changes) is None


def test_a_result_of_other_files_is_not_offered(client, task):
    model, data = body_of(task)["files"]
    assert earlier(client, task, files=[model]) is None
    assert earlier(client, task, files=[model, data | {"md5": MODEL_MD5}]) is None
    assert earlier(client, task, files=[model, data | {"input": "other"}]) is None
    renamed = [model | {"name": "renamed.mge"}, data]
    assert earlier(client, task, files=renamed)["task"] == task.pk
    # before the checksums are known, as in the form while the user fills it in
    assert earlier(client, task, files=[model | {"md5": ""}, data]) is None
    assert earlier(client, task, files=[]) is None


def test_a_result_of_another_device_is_not_offered(client, task):
    assert earlier(client, task, worker=make_worker("phone").pk) is None


def test_a_result_of_another_version_is_not_offered(client, task):
    task.worker.runtimes.create(version="1.12.0", kind="wheel")
    assert earlier(client, task, runtime_version="1.12.0") is None


def test_a_refused_request_has_no_earlier_result(client, task):
    assert earlier(client, task, options={"iter": -1}) is None


@pytest.mark.parametrize("is_staff", [False, True])
def test_nobody_is_offered_the_result_of_another_user(client, task, is_staff):
    client.force_login(make_user("bob", is_staff=is_staff))
    assert earlier(client, task) is None


def test_a_failed_task_is_not_offered(client, task):
    Task.objects.filter(pk=task.pk).update(outcome=Outcome.FAILED)
    assert earlier(client, task) is None


def test_a_paired_comparison_of_the_same_files_is_not_offered(client, task):
    # its second arm may differ by options alone, so it has no files of its own
    Task.objects.filter(pk=task.pk).update(pairing={"budget_s": 60, "arms": []})
    assert earlier(client, task) is None


def test_changes_of_the_device_since_then_are_named(client, task):
    before = {"agent": "1.0", "platform": "Linux-6.1", "cpu_model": "EPYC"}
    Attempt.objects.filter(task=task).update(environment=before)
    facts = {"platform": "Linux-6.6", "cpu_model": "EPYC"}
    Worker.objects.filter(pk=task.worker_id).update(agent_version="1.1", facts=facts)
    offered = earlier(client, task)
    assert offered["changed"] == ["agent", "platform"]
    assert "Changed on the device since then: Agent, System and kernel." in offered["drift"]


def test_the_speed_of_the_device_then_and_now_is_told(client, alice, task):
    def read_canary(of: Task, factor: float) -> None:
        reading = {"gemm_ms": 0.5 * factor, "copy_ms": 0.8 * factor, "small_ms": 0.1 * factor}
        canary = {"before": reading, "after": reading}
        AttemptMeasurement.objects.filter(attempt__task=of).update(canary=canary)

    read_canary(task, 1.0)
    assert earlier(client, task)["speed_now"] is None
    others = [make_measured_task(alice, task.worker, name=f"{n}.mge") for n in range(12)]
    for other in others:
        TaskFile.objects.filter(task=other).update(md5=MD5)
        read_canary(other, 1.0)
    read_canary(others[-1], 1.25)
    offered = earlier(client, task)
    assert (offered["task"], offered["speed_then"], offered["speed_now"]) == (task.pk, 1.0, 0.8)
    text = "The device had 100.0 % of its usual speed then, and 80.0 % in its last run."
    assert offered["drift"] == text


def sent_by_form(client, worker: Worker):
    """Submit the form as a browser without JavaScript does; return the page that follows."""
    form = {
        "kind": "model", "where": "one", "worker": worker.pk, "runtime": "1.13.0",
        "preset": "standard", "no_sanity_check": "on",
        "model": SimpleUploadedFile("net.mge", MODEL),
        "data-files": [SimpleUploadedFile("data.npy", npy_bytes())],
    }  # fmt: skip
    return client.post("/tasks/new/", form, follow=True).content.decode()


@pytest.fixture
def stored(client, alice) -> Task:
    """A task that succeeded, whose files are in storage; equal runs differ by about 1 %."""
    worker = make_worker("desk")
    make_scatter(worker)
    sent_by_form(client, worker)
    task = Task.objects.get()
    finish_measured(task, 10.0)
    return task


def test_the_form_without_javascript_creates_the_task_and_names_the_result(client, stored):
    page = sent_by_form(client, stored.worker).replace("\xa0", " ")
    assert Task.objects.count() == 2
    offer = f"The same measurement was made less than a minute ago by task #{stored.pk}:"
    assert f"{offer} median latency 10.0 ms." in page
    assert f'<a href="/tasks/{stored.pk}/">Open that result.</a>' in page


def test_a_check_measures_the_latency_of_the_stored_files(client, stored):
    assert earlier(client, stored)["may_check"]
    page = client.get(f"/tasks/{stored.pk}/details/").content.decode()
    assert f'action="/tasks/{stored.pk}/check/"' in page
    client.post(f"/tasks/{stored.pk}/check/")
    check = Task.objects.latest("pk")
    assert (check.state, check.copied_from, check.worker) == ("waiting", stored, stored.worker)
    assert check.plan == CHECK.model_dump(mode="json")
    assert (check.plan["clean"], check.plan["profiled"]) == (True, 0)
    address, headers = f"/api/v1/tasks/{stored.pk}/check/", {"Idempotency-Key": "once"}
    answer, again = (
        client.post(address, content_type="application/json", headers=headers) for _ in range(2)
    )
    assert answer.status_code == again.status_code == 201
    assert answer.json()["id"] == again.json()["id"] > check.pk


@pytest.mark.parametrize(
    ("median_ms", "verdict", "text"),
    [
        (10.05, "none", "Equal runs on this device differ by just as much"),
        (13.0, "slower", "The run was slower by more than the difference between equal runs"),
    ],
)
def test_a_check_says_whether_the_result_still_holds(client, stored, median_ms, verdict, text):
    client.post(f"/tasks/{stored.pk}/check/")
    check = Task.objects.latest("pk")
    finish_measured(check, median_ms)
    page = client.get(f"/tasks/{check.pk}/").content.decode()
    assert f"Check of task #{stored.pk}: latency +" in page
    assert text in page
    assert 'id="check-result"' not in client.get(f"/tasks/{stored.pk}/").content.decode()
    address = "/api/v1/profiles/of-task/{}/measurement/".format
    answer = client.get(address(check.pk)).json()["check"]
    assert (answer["task"], answer["verdict"]) == (stored.pk, verdict)
    assert text in answer["text"]
    assert client.get(address(stored.pk)).json()["check"] is None


@pytest.mark.parametrize(
    ("is_origin", "text"),
    [
        (True, "but the run of the task itself was disturbed. Measure again."),
        (False, "but this run was disturbed. Check again."),
    ],
)
def test_a_check_says_which_run_was_disturbed(client, stored, is_origin, text):
    client.post(f"/tasks/{stored.pk}/check/")
    check = Task.objects.latest("pk")
    finish_measured(check, 10.05)
    disturbed = AttemptMeasurement.objects.filter(attempt__task=stored if is_origin else check)
    disturbed.update(disturbances=[{"code": "waited", "details": []}])
    assert text in client.get(f"/tasks/{check.pk}/").content.decode()


def test_a_check_is_judged_by_the_runs_before_it(client, stored):
    def page_of(check: Task) -> str:
        return client.get(f"/tasks/{check.pk}/").content.decode()

    checks = []
    for median_ms in (9.97, 13.0):
        client.post(f"/tasks/{stored.pk}/check/")
        checks.append(Task.objects.latest("pk"))
        finish_measured(checks[-1], median_ms)
    assert "so the result of the task still holds" in page_of(checks[0])
    assert "so the earlier result no longer holds" in page_of(checks[1])


def test_a_check_without_known_variance_has_no_verdict(client, stored):
    HealthCheck.objects.all().delete()
    client.post(f"/tasks/{stored.pk}/check/")
    check = Task.objects.latest("pk")
    finish_measured(check, 11.0)
    page = client.get(f"/tasks/{check.pk}/").content.decode()
    assert "It is not known yet how much equal runs differ on this device." in page


def test_a_task_with_a_long_time_limit_can_be_checked(client, stored):
    Task.objects.filter(pk=stored.pk).update(time_limit_s=1000)
    client.post(f"/tasks/{stored.pk}/check/")
    assert Task.objects.latest("pk").time_limit_s == 0


def test_a_result_without_latency_passes_is_not_checked(client, stored):
    AttemptMeasurement.objects.update(median_ms=None)
    assert not earlier(client, stored)["may_check"]
    profiled = Plan(preset="custom", clean=False, profiled=5).model_dump(mode="json")
    Task.objects.filter(pk=stored.pk).update(plan=profiled)
    answer = post_json(client, f"/api/v1/tasks/{stored.pk}/check/")
    assert (answer.status_code, answer.json()["code"]) == (409, "check_latency")


def test_what_has_no_latency_or_no_files_is_not_checked(client, alice, task):
    waiting = make_waiting_task(alice, task.worker)
    answer = post_json(client, f"/api/v1/tasks/{waiting.pk}/check/")
    assert (answer.status_code, answer.json()["code"]) == (409, "check_latency")
    TaskFile.objects.filter(task=task).update(purged_at=timezone.now())
    answer = post_json(client, f"/api/v1/tasks/{task.pk}/check/")
    assert (answer.status_code, answer.json()["code"]) == (422, "file_gone")
    assert Task.objects.count() == 2
