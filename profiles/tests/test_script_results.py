"""Results and failures of tasks that run a script."""

import pytest

from agent.protocol.messages import AttemptFinished, AttemptLog, EndReason, Script
from agent.protocol.notes import Note
from profiles.ingest.rebuild import rebuild_derived
from profiles.integrity import broken_rows
from profiles.models import AttemptMeasurement, Profile
from profiles.tests.make import (
    MEMORY,
    TIMELINE,
    make_script_attempt,
    make_script_profile,
    process_attempt,
)
from profiles.tests.pages import whole_page
from tasks.actors import diagnose_run
from tasks.tests.make import make_attempt, make_user, receive_report, store_log_chunk
from tasks.tests.scripts import make_script_task, program_file

pytestmark = pytest.mark.django_db


def test_a_trace_becomes_the_result_without_a_measurement(client, alice, script_files):
    profile = make_script_profile({TIMELINE: script_files[TIMELINE]}, alice)
    assert profile.operators > 0
    # output of a script is not read as that of load_and_run, even if it looks the same
    assert (profile.warnings, profile.iterations, profile.mean_ms) == ([], None, None)
    assert not AttemptMeasurement.objects.exists()
    assert list(broken_rows()) == []
    task = profile.attempt.task
    page = whole_page(client, f"/tasks/{task.pk}/")
    # scripts have no measurement plan
    assert "“standard”" not in page
    for present in ('id="trace-phases"', "train.py", 'id="trace-timeline"', TIMELINE):
        assert present in page
    for absent in (
        "load_and_run",
        "part-measurement",
        "The log has no iteration times",
        "Uploaded model",
    ):
        assert absent not in page
    page = client.get(f"/profiles/{profile.pk}/trace/").text
    file = f"/api/v1/profiles/{profile.pk}/raw/1/"
    assert f'data-file="{file}"' in page
    assert f"attempts/{profile.attempt_id}/{TIMELINE}" in client.get(file)["Location"]


def test_pages_and_exports_name_the_original_files(client, alice, script_files):
    profile = make_script_profile(script_files, alice)
    page = whole_page(client, f"/tasks/{profile.attempt.task_id}/")
    assert f"Original: \u2068{TIMELINE}\u2069" in page
    for number, name in ((1, TIMELINE), (2, MEMORY)):
        response = client.get(f"/profiles/{profile.pk}/export/original/{number}/")
        assert f"/{name}?" in response["Location"]
    meta = client.get(f"/profiles/{profile.pk}/export/json/").json()["meta"]
    assert (meta["kind"], meta["script"]["arguments"]) == ("script", ["--steps", "2"])
    assert [file["name"] for file in meta["profiles"]] == [TIMELINE, MEMORY]
    assert meta["plan"] is None


def test_the_page_has_every_file_of_the_attempt(client, alice, script_files):
    task = make_script_profile(script_files, alice).attempt.task_id
    page = whole_page(client, f"/tasks/{task}/")
    for name in (TIMELINE, MEMORY, "log.txt"):
        assert f"/artifacts/{name}" in page


def test_a_memory_flow_is_shown_beside_a_trace_or_alone(client, alice, script_files):
    task_id = make_script_profile(script_files, alice).attempt.task_id
    page = whole_page(client, f"/tasks/{task_id}/")
    assert 'id="left-out"' not in page
    assert 'id="trace-phases"' in page
    profile = make_script_profile({MEMORY: script_files[MEMORY]}, alice)
    assert (profile.operators, list(broken_rows())) == (0, [])
    page = whole_page(client, f"/tasks/{profile.attempt.task_id}/")
    assert "Only the memory of the script was recorded" in page
    assert 'id="memory-flow"' in page
    assert "The log has no iteration times" not in page


def test_a_script_has_a_peak_memory(client, alice, script_files):
    attempt = make_script_profile({TIMELINE: script_files[TIMELINE]}, alice).attempt
    attempt.host_memory_bytes = 149 << 20
    attempt.save()
    assert 'id="peak-memory">149 MiB</dd>' in client.get(f"/tasks/{attempt.task_id}/").text


def test_the_model_page_of_a_script_says_there_is_no_model(client, alice, script_files):
    profile = make_script_profile({TIMELINE: script_files[TIMELINE]}, alice)
    page = client.get(f"/tasks/{profile.attempt.task_id}/model/")
    assert "no model file" in page.context["model"]["reason"]


def test_the_result_of_a_script_can_be_rebuilt(storage, script_files):
    profile = make_script_profile({TIMELINE: script_files[TIMELINE]})
    before = profile.operators
    Profile.objects.update(operators=0, derived_version=0)
    rebuild_derived(Profile.objects.get())
    assert Profile.objects.get().operators == before
    assert not AttemptMeasurement.objects.exists()


def test_a_script_without_files_fails_with_profile_missing(client, alice):
    task = process_attempt(make_script_attempt({}, alice))
    assert (task.status, task.reason) == ("failed", "profile_missing")
    page = client.get(f"/tasks/{task.pk}/").text
    assert "The trace did not arrive in storage." in page


def test_the_failure_of_an_unreadable_trace_does_not_mention_a_model(client, alice):
    task = process_attempt(make_script_attempt({TIMELINE: b'{"traceEvents": ['}, alice))
    assert task.status == "failed"
    page = client.get(f"/tasks/{task.pk}/status/").text
    assert "model" not in page.split('id="failure"')[1].split("</section>")[0]


# -- failures -------------------------------------------------------------------------------------

TRACEBACK = """epoch 0
Traceback (most recent call last):
  File "script.py", line 3, in <module>
    step(<b>data</b>)
  File "script.py", line 2, in step
    raise ValueError("no <i>loss</i>: can not find loader for Conv")
ValueError: no <i>loss</i>: can not find loader for Conv
"""


def fail_script(
    text: str, exit_code: int | None = 1, reason: EndReason = EndReason.EXITED, detail: str = ""
):
    """Return the task of a script that printed `text` and ended with these values."""
    attempt = make_attempt(make_script_task(make_user("alice")))
    store_log_chunk(
        attempt,
        AttemptLog(attempt=attempt.pk, seq=1, offset=0, size=len(text), text=text),
    )
    report = AttemptFinished(
        attempt=attempt.pk,
        at=0.0,
        reason=reason,
        exit_code=exit_code,
        log_end=text[-500:],
        detail=detail,
    )
    receive_report(attempt, report)
    diagnose_run.fn(str(attempt.pk))
    attempt.task.refresh_from_db()
    return attempt.task


@pytest.mark.parametrize(
    ("text", "exit_code", "reason", "detail"),
    [
        (
            TRACEBACK,
            1,
            "run_failed",
            "ValueError: no <i>loss</i>: can not find loader for Conv",
        ),
        ("usage: train.py [-h]\nerror: what?\n", 2, "run_failed", "error: what?"),
        ("", 3, "run_failed", ""),
        (TRACEBACK.replace("ValueError: no", "MemoryError: no"), 1, "out_of_memory", None),
        (
            "Traceback (most recent call last):\n  x\nRuntimeError: out of memory while requesting"
            " 99 bytes\n",
            1,
            "out_of_device_memory",
            None,
        ),
        ("about to crash\n", 139, "crashed", "about to crash"),
        ("", 134, "crashed", "SIGABRT"),
        ("", 137, "out_of_memory", None),
        ("", 153, "output_too_large", None),
        # printed by the script itself, so it is no error of load_and_run
        ("lar::ModelError request gpu 3 out of valid range\n", 1, "gpu_missing", None),
        ("can't find tensor named x\n", 1, "run_failed", "can't find tensor named x"),
    ],
)
def test_an_exit_code_maps_to_a_reason_with_the_last_output(text, exit_code, reason, detail):
    task = fail_script(text, exit_code)
    assert (task.status, task.reason) == ("failed", reason)
    if detail is not None:
        assert task.detail == detail


def test_the_page_of_a_failed_script_escapes_its_output(client):
    task = fail_script(TRACEBACK)
    client.force_login(task.owner)
    page = client.get(f"/tasks/{task.pk}/").text
    assert "The script ended with an error." in page
    assert "no &lt;i&gt;loss&lt;/i&gt;" in page
    assert "Output (stdout and stderr)" in page
    assert "load_and_run" not in page.split("<main")[1]
    body = client.get(f"/api/v1/tasks/{task.pk}/").json()
    assert body["reason"]["title"] == "The script ended with an error."
    assert body["reason"]["blame"] == "user"


@pytest.mark.parametrize(
    ("reason", "code", "title"),
    [
        (EndReason.TIMED_OUT, "timed_out", "The script exceeded its time limit"),
        (EndReason.NO_PROFILE, "no_profile", "The script ended without a recording."),
        (EndReason.NO_SANDBOX, "no_sandbox", "The device has no working sandbox"),
        (EndReason.REFUSED, "refused_by_agent", "The device refused the script."),
        (EndReason.LOG_TOO_LONG, "log_too_long", "The script printed more than is allowed."),
        (EndReason.NO_RUNTIME, "runtime_missing", "The device does not have this MegEngine"),
    ],
)
def test_each_end_reason_has_a_message_about_the_script(client, reason, code, title):
    task = fail_script("", None, reason, detail="why")
    assert (task.reason, task.detail) == (code, "why")
    client.force_login(task.owner)
    assert title in client.get(f"/tasks/{task.pk}/").text


def test_an_unreadable_zip_is_named_as_the_owner_named_it():
    attempt = make_attempt(
        make_script_task(script=Script(entry="a.py"), files=[program_file(name="all nets.zip")])
    )
    report = AttemptFinished(
        attempt=attempt.pk,
        at=0.0,
        reason=EndReason.INPUT_WRONG,
        cause="format",
        notes=(Note.of("zip_ratio", archive="script.zip", ratio=900, limit=200),),
    )
    receive_report(attempt, report)
    attempt.task.refresh_from_db()
    assert attempt.task.reason == "script_unreadable"
    assert attempt.task.message == (
        "The files in all nets.zip are 900 times as large as the archive; the limit is 200 times."
    )
