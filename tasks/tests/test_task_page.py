"""Tests of the pages of tasks and of uploads from a browser."""

import datetime
import re
from urllib.parse import quote

import httpx2
import pytest
from django.utils import timezone

from agent.protocol.messages import AttemptFinished, EndReason, LatencySoFar, Script
from agent.protocol.notes import Note
from agent.protocol.plan import Plan
from profiles.services import purge_abandoned_uploads
from tasks.lifecycle.attempts import lose_attempt
from tasks.lifecycle.outcomes import complete_task, fail_task
from tasks.models import Attempt, Task
from tasks.tests.make import (
    FILES,
    SLOWEST,
    STANDARD,
    TASKS,
    data_file,
    fail_run,
    finished_report,
    make_attempt,
    make_task,
    make_waiting_task,
    model_file,
    post_json,
    receive_report,
    start_run,
    started_report,
    task_request,
)
from tasks.tests.scripts import make_script_task
from webprofile.storage import storage as object_store

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("logged_in")]


def put_file(target, content):
    return httpx2.put(target["url"], content=content, headers=target["headers"])


def test_presigned_upload_is_limited_to_its_size_and_key(client, alice, storage):
    first, second = post_json(client, TASKS, task_request()).json()["uploads"]
    assert put_file(first, b"a longer model").status_code == 403
    other = first["url"].replace(f"/{first['file']}?", f"/{second['file']}?")
    assert httpx2.put(other, content=b"a model", headers=first["headers"]).status_code == 403


def test_download_keeps_the_uploaded_file_name(client, alice, storage):
    files = task_request()["files"]
    files[0]["name"] = '模型 "quo" 😀.mge'
    task = post_json(client, TASKS, task_request(files=files)).json()
    for target, content in zip(task["uploads"], FILES.values(), strict=True):
        put_file(target, content)
    post_json(client, f"{TASKS}{task['id']}/submit/")
    link = client.get(f"/tasks/{task['id']}/files/{task['uploads'][0]['file']}/")
    answer = httpx2.get(link["Location"])
    assert answer.content == FILES["net.mge"]
    assert quote('模型 "quo" 😀.mge') in answer.headers["content-disposition"]


def test_cancelled_upload_stays_cancelled(client, alice, storage):
    task = post_json(client, TASKS, task_request()).json()
    address = f"{TASKS}{task['id']}/"
    assert post_json(client, f"{address}cancel/").json()["status"] == "cancelled"
    submitted = post_json(client, f"{address}submit/")
    assert (submitted.status_code, submitted.json()["status"]) == (200, "cancelled")
    assert post_json(client, f"{address}uploads/").json()["code"] == "not_initiated"


def test_sweep_deletes_the_files_of_a_cancelled_upload(client, alice, storage):
    task = post_json(client, TASKS, task_request()).json()
    put_file(task["uploads"][0], FILES["net.mge"])
    key = Task.objects.get(pk=task["id"]).files.first().object_key
    assert object_store.head(key)
    post_json(client, f"{TASKS}{task['id']}/cancel/")
    assert purge_abandoned_uploads() == 2
    assert object_store.head(key) is None
    assert purge_abandoned_uploads() == 0


def test_submit_while_storage_is_unreachable_returns_503(client, alice, settings):
    settings.S3_ENDPOINT_URL = settings.S3_PUBLIC_ENDPOINT_URL = "http://127.0.0.1:9"
    task = post_json(client, TASKS, task_request()).json()
    answer = post_json(client, f"{TASKS}{task['id']}/submit/")
    assert (answer.status_code, answer.json()["code"]) == (503, "storage_unreachable")


def test_rejected_request_names_field_and_cause(client, alice):
    answer = post_json(client, TASKS, task_request(options={"iter": 0}))
    assert answer.status_code == 422
    problem = answer.json()
    assert (problem["code"], problem["field"]) == ("option_too_small", "iter")
    assert problem["detail"] == "iter must be at least 1."


def test_list_shows_model_device_version_and_status(client, alice):
    task = make_waiting_task(alice)
    page = client.get("/tasks/").text
    address = f"/tasks/{task.pk}/"
    for text in (address, "net.mge", task.worker.name, "1.13.0", "waiting"):
        assert text in page


def test_page_of_a_failed_task_shows_reason_and_fix(client, alice):
    task = make_waiting_task(alice)
    fail_task(task, reason="worker_went_offline")
    page = client.get(f"/tasks/{task.pk}/").text
    assert "went offline" in page
    assert "Choose another device" in page


def test_page_of_a_failed_task_without_a_log_says_so(client, alice):
    task = make_waiting_task(alice)
    address = f"/tasks/{task.pk}/"
    assert "No log yet." in client.get(address).text
    fail_task(task, reason="timed_out")
    page = client.get(address).text
    assert "The task has ended without a log." in page
    assert "No log yet." not in page


def test_label_of_the_original_message_is_translated(client, alice):
    task = make_waiting_task(alice)
    fail_task(task, reason="timed_out", detail="stopped after 60 s")
    client.cookies["django_language"] = "zh-hans"
    page = client.get(f"/tasks/{task.pk}/").text
    label, _, message = page.partition('<pre class="code code--wrap" lang="en">')
    assert label.rstrip().endswith("<p>详细信息：</p>")
    assert message.startswith("stopped after 60 s")


def test_what_an_agent_reports_is_shown_in_the_language_of_the_user(client, alice):
    attempt = make_attempt(make_waiting_task(alice))
    file = attempt.task.data_files[0]
    problem = Note.of("literal_range", value="1e999", dtype="float32")
    notes = (
        Note.of("file_size", name=file.device_name, size=9, expected=10),
        Note.of("input_literal", name="x", problem=problem),
        Note.of("option_too_small", option="iter", limit=1),
    )
    ended = AttemptFinished(attempt=attempt.pk, at=0.0, reason=EndReason.REFUSED, notes=notes)
    receive_report(attempt, ended)
    address = f"/tasks/{attempt.task_id}/"
    page = client.get(address).text
    assert f"{file.name}: received 9 bytes instead of 10 bytes." in page
    assert "Input “x”: 1e999 is too large for float32." in page
    assert "iter must be at least 1." in page
    client.cookies["django_language"] = "zh-hans"
    page = client.get(address).text
    assert f"{file.name}：收到 9 字节，应为 10 字节。" in page
    assert "输入“x”：1e999 " in page
    detail = client.get(f"/api/v1/tasks/{attempt.task_id}/").json()["detail"]
    assert "应为 10 字节。输入“x”" in detail


def test_why_an_attempt_is_retried_is_shown_in_the_language_of_the_user(client, alice):
    attempt = make_attempt(make_waiting_task(alice))
    ended = AttemptFinished(
        attempt=attempt.pk,
        at=0.0,
        reason=EndReason.AGENT_ERROR,
        notes=(Note.of("disk_full"),),
    )
    receive_report(attempt, ended)
    address = f"/tasks/{attempt.task_id}/"
    assert "The disk of this device is full." in client.get(address).text
    client.cookies["django_language"] = "zh-hans"
    assert "此设备的磁盘已满。" in client.get(address).text


def test_chinese_sentences_have_no_space_between_them(client, alice):
    task = make_task(alice)
    client.cookies["django_language"] = "zh-hans"
    assert "文件尚未全部上传。全部上传后" in client.get(f"/tasks/{task.pk}/").text


def read_steps(client, task_id) -> list[tuple[str, str]]:
    """Return the title and the state of each step on a task's page."""
    page = client.get(f"/tasks/{task_id}/").text
    pattern = r'data-step="[^"]*" data-state="([a-z]+)".*?class="steps__title">([^<]+)<'
    return [(title, state) for state, title in re.findall(pattern, page, re.DOTALL)]


def test_page_of_a_running_task_shows_steps_and_elapsed_time(client, alice, monkeypatch):
    attempt = start_run(alice, passes_done=4)
    now = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: now)
    Attempt.objects.update(started_at=now - datetime.timedelta(seconds=192))
    assert read_steps(client, attempt.task_id) == [
        ("Queue", "done"),
        ("Download", "done"),
        ("Latency (3 passes)", "done"),
        ("Profiled pass 2 of 5", "now"),
        ("Result", "ahead"),
    ]
    page = client.get(f"/tasks/{attempt.task_id}/").text
    assert "<title>▶ 5/8 net · Task #" in page
    assert ">3 min 12 s<" in page
    (attempt_json,) = client.get(f"{TASKS}{attempt.task_id}/").json()["attempts"]
    assert (attempt_json["passes"], attempt_json["passes_done"]) == (8, 4)


def test_each_view_of_a_task_without_a_result_has_an_address_and_a_fragment(client, alice):
    task = make_waiting_task(alice)
    client.force_login(alice)
    for path, content in (("", 'id="log-title"'), ("details/", 'id="history-title"')):
        page = client.get(f"/tasks/{task.pk}/{path}").text
        fragment = client.get(f"/tasks/{task.pk}/{path}?part=1").text
        assert content in page and content in fragment
        view = path[:-1] or "files"
        assert f'href="/tasks/{task.pk}/{path}" data-view="{view}" aria-current' in page
        assert "<html" not in fragment
    # what only a result has leads to the task
    assert client.get(f"/tasks/{task.pk}/roofline/").headers["Location"] == f"/tasks/{task.pk}/"
    assert 'data-view="graph"' in client.get(f"/tasks/{task.pk}/").text
    task.files.update(purged_at=timezone.now())
    assert 'data-view="graph"' not in client.get(f"/tasks/{task.pk}/").text


def test_steps_are_the_same_from_queue_to_result(client, alice):
    options = {"bin_io_dump": True}
    task = make_waiting_task(alice, plan=STANDARD, options=options)
    titles = ["Queue", "Download", "Latency", "Profile", "Dumps", "Result"]

    def states() -> list[str]:
        steps = read_steps(client, task.pk)
        assert all(title.startswith(word) for (title, _), word in zip(steps, titles, strict=True))
        return [state for _, state in steps]

    assert states() == ["now", "ahead", "ahead", "ahead", "ahead", "ahead"]
    attempt = make_attempt(task)
    assert states().index("now") == 1
    receive_report(attempt, started_report(attempt, passes=9))
    assert states().index("now") == 2
    for done, place in ((2, 2), (3, 3), (7, 3), (8, 4), (9, 5)):
        receive_report(attempt, started_report(attempt, passes=9, passes_done=done))
        assert states().index("now") == place
    receive_report(attempt, finished_report(attempt))
    assert states() == ["done"] * 5 + ["now"]


def test_steps_start_over_when_all_passes_are_repeated(client, alice):
    attempt = start_run(alice, passes_done=7)
    latency = LatencySoFar(passes=3, used=3, median_ms=9.5)
    receive_report(attempt, started_report(attempt, passes=8, passes_done=8, latency=latency))
    assert [state for _, state in read_steps(client, attempt.task_id)].index("now") == 4
    receive_report(attempt, started_report(attempt, passes=16, passes_done=9))
    title, state = read_steps(client, attempt.task_id)[2]
    assert (title, state) == ("Latency pass 2 of 3", "now")
    page = client.get(f"/tasks/{attempt.task_id}/").text
    assert "▶ 2/8" in page
    # the first latency does not count any more
    assert "9.50 ms" not in page


def test_a_budget_adds_latency_passes_to_the_steps(client, alice):
    plan = Plan(preset="custom", clean=True, clean_passes=2, budget_s=60, profiled=1)
    attempt = make_attempt(make_waiting_task(alice, plan=plan))
    receive_report(attempt, started_report(attempt, passes=3))
    for passes, goes_on, titles in (
        (1, True, ["Latency pass 2", "Profile"]),
        (2, True, ["Latency pass 3", "Profile"]),
        (3, False, ["Latency (3 passes)", "Profile"]),
    ):
        latency = LatencySoFar(passes=passes, used=passes, median_ms=9.5, goes_on=goes_on)
        report = started_report(attempt, passes=3, passes_done=passes, latency=latency)
        receive_report(attempt, report)
        steps = read_steps(client, attempt.task_id)
        assert [title for title, _ in steps[2:4]] == titles
        assert [state for _, state in steps].index("now") == (2 if goes_on else 3)
        assert "Median 9.50 ms" in client.get(f"/tasks/{attempt.task_id}/").text


def test_steps_of_a_failed_run_show_where_it_failed(client, alice):
    attempt = start_run(alice, passes_done=4)
    fail_run(attempt)
    steps = read_steps(client, attempt.task_id)
    assert steps[3:] == [("Profiled pass 2 of 5", "failed"), ("Result", "ahead")]


def test_first_operators_stand_until_the_result(client, alice):
    attempt = start_run(alice, passes_done=3)
    address = f"/tasks/{attempt.task_id}/"
    assert 'id="first-operators"' not in client.get(address).text
    report = started_report(attempt, passes=8, passes_done=4, slowest=SLOWEST)
    receive_report(attempt, report)
    for path in (address, f"{address}status/"):
        page = client.get(path).text
        assert ">1 of 5 passes<" in page
        assert "conv(data,conv1.weight)[493]" in page
        assert "&lt;i&gt;relu&lt;/i&gt;[2]" in page
        assert ">1.95 ms<" in page
        assert "14.2 %" in page
        assert "173 operators, device time 13.7 ms" in page
    receive_report(attempt, started_report(attempt, passes=8, passes_done=5))
    assert ">1 of 5 passes<" in client.get(address).text
    receive_report(attempt, finished_report(attempt))
    assert ">1 of 5 passes<" in client.get(address).text


def test_first_operators_are_removed_with_a_retry(client, alice):
    attempt = start_run(alice, passes_done=4, slowest=SLOWEST)
    receive_report(attempt, finished_report(attempt, EndReason.AGENT_RESTARTED))
    assert attempt.task.state == "waiting"
    assert attempt.slowest is None
    assert 'id="first-operators"' not in client.get(f"/tasks/{attempt.task_id}/").text


def test_page_of_a_failed_run_keeps_its_first_operators(client, alice):
    attempt = start_run(alice, passes_done=4, slowest=SLOWEST)
    fail_run(attempt)
    page = client.get(f"/tasks/{attempt.task_id}/").text
    assert "The run ended without a result." in page
    assert "conv(data,conv1.weight)[493]" in page


def test_page_of_a_run_that_its_device_lost_keeps_its_first_operators(client, alice, settings):
    settings.MAX_ATTEMPTS = 1
    attempt = start_run(alice, passes_done=4, slowest=SLOWEST)
    lose_attempt(attempt, reason="lease_expired")
    attempt.task.refresh_from_db()
    assert attempt.task.outcome == "lost"
    page = client.get(f"/tasks/{attempt.task_id}/").text
    assert ">1 of 5 passes<" in page
    assert read_steps(client, attempt.task_id)[3] == ("Profiled pass 2 of 5", "failed")


def test_steps_of_a_script_are_its_traces(client, alice):
    task = make_script_task(
        alice, script=Script(formats=("chrome_timeline.json", "memory_flow.svg"))
    )
    attempt = make_attempt(task)
    receive_report(attempt, started_report(attempt, passes=2))
    receive_report(attempt, started_report(attempt, passes=2, passes_done=1))
    assert read_steps(client, task.pk)[2:] == [
        ("Timeline", "done"),
        ("Memory flow", "now"),
        ("Result", "ahead"),
    ]
    assert "Slowest operators" not in client.get(f"/tasks/{task.pk}/").text


def test_first_operators_of_a_script_are_ignored(alice):
    task = make_waiting_task(alice, plan=STANDARD)
    attempt = make_attempt(task)
    Task.objects.update(kind="script", script={"formats": ["chrome_timeline.json"]})
    receive_report(attempt, started_report(attempt, passes=2))
    report = started_report(attempt, passes=2, passes_done=1, slowest=SLOWEST)
    receive_report(attempt, report)
    assert (attempt.passes_done, attempt.slowest) == (1, None)


def test_page_shows_how_long_equal_runs_took_on_this_device(client, alice):
    def run(seconds: float, **changes) -> None:
        attempt = start_run(alice, **changes)
        receive_report(attempt, finished_report(attempt))
        complete_task(attempt.task)
        begin = attempt.ended_at - datetime.timedelta(seconds=seconds)
        Attempt.objects.filter(pk=attempt.pk).update(started_at=begin)

    def text() -> str:
        page = client.get(f"/tasks/{task.pk}/").text
        found = re.search(r'id="usual-run">(.*?)</span></span>', page, re.DOTALL)
        return re.sub(r"<[^>]+>", "", found[1]) if found else ""

    other = [model_file(name="other.mge", md5="a" * 32)]
    for seconds in (10, 20):
        run(seconds, files=other)
    task = make_waiting_task(alice, plan=STANDARD)
    assert text() == ""
    run(30, files=other)
    assert text() == "Usually about 20 s (median of 3 runs with the same plan on this device)"
    run(50)
    run(52)
    same = "with the same model, plan and options on this device"
    assert text() == f"Usually about 51 s (median of 2 runs {same})"


def test_file_and_input_names_are_escaped(client, alice):
    make_task(alice, files=[model_file(name="<script>alert(1)<.mge"), data_file(input="<b>x")])
    for path in ("/tasks/", "/tasks/1/"):
        page = client.get(path).text
        assert "<script>alert" not in page
        assert "<b>x" not in page


@pytest.mark.parametrize("language", ["en", "zh-hans"])
@pytest.mark.parametrize(
    "path", ["/tasks/", "/tasks/new/", "/workers/", "/accounts/password/change/"]
)
def test_pages_have_no_inline_script_or_style_and_a_strict_csp(client, alice, path, language):
    client.cookies["django_language"] = language
    answer = client.get(path)
    page = answer.text
    assert answer.status_code == 200
    assert "default-src 'none'" in answer["Content-Security-Policy"]
    assert "unsafe" not in answer["Content-Security-Policy"]
    assert " style=" not in page
    assert "<style" not in page
    assert "javascript:" not in page
    assert f'lang="{language}"' in page
