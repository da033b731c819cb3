"""Requests for paired comparisons: arms, their files and inherited parts, and refusals."""

import datetime
import html
import re

import pytest
from django.utils import timezone

from agent.protocol.messages import EndReason, Script, StoredFile
from agent.protocol.notes import Note
from agent.protocol.pairs import MOST_ARMS, ArmVerdict, Pairing
from tasks.dispatch.gateway import desired_state
from tasks.lifecycle.attempts import lose_attempt
from tasks.lifecycle.failures import end_failed_run, notes_with_file_names
from tasks.lifecycle.outcomes import fail_task
from tasks.models import Attempt, Task
from tasks.run_steps import UsualRun, usual_run
from tasks.scheduling.rebinding import move_task
from tasks.submission.copies import compare_tasks_in_pairs
from tasks.submission.creation import rerun_task
from tasks.submission.plans import longest_run_s
from tasks.submission.request import ArmRequest, InputRequest, PairingRequest, request_of
from tasks.submission.uploads import submit_task
from tasks.submission.validation import storage_quota_of
from tasks.tests.make import (
    MD5,
    MODEL,
    data_file,
    finished_report,
    make_attempt,
    make_task,
    make_user,
    make_waiting_task,
    make_worker,
    model_file,
    npy_bytes,
    post_json,
    receive_report,
    started_report,
    stored_objects,
)
from webprofile.errors import DomainError
from webprofile.messages.errors import word
from webprofile.storage import storage as object_store
from workers.models import Runtime

pytestmark = pytest.mark.django_db


def pairing(*arms: ArmRequest, **changes) -> PairingRequest:
    return PairingRequest(Pairing(**changes), arms or (ArmRequest(),))


def make_paired_task(*arms: ArmRequest, files=None, **changes) -> Task:
    files = [model_file(), data_file()] if files is None else files
    return make_waiting_task(pairing=pairing(*arms), files=files, **changes)


def order_of(task: Task):
    (order,) = desired_state(make_attempt(task).worker_id)
    return order


def rejection(**changes) -> DomainError:
    with pytest.raises(DomainError) as caught:
        make_task(**{"pairing": pairing()} | changes)
    assert str(word(caught.value))
    return caught.value


def test_arm_has_the_parts_of_the_baseline_that_it_does_not_replace(storage):
    other = model_file(name="new.mge", arm=1)
    task = make_paired_task(files=[model_file(), data_file(), other], options={"fast_run": True})
    order = order_of(task)
    assert order.pairing == Pairing()
    (arm,) = order.arms
    assert (arm.runtime, arm.options) == (order.runtime, order.options)
    assert arm.model.name == order.model.name == "model.mge"
    assert arm.model.url.partition("?")[0] != order.model.url.partition("?")[0]
    assert [file.url.partition("?")[0] for file in arm.data] == [
        file.url.partition("?")[0] for file in order.data
    ]
    assert [file.input for file in arm.data] == ["data"]


def test_arm_with_own_inputs_has_no_data_of_the_baseline(storage):
    own = ArmRequest(inputs=(InputRequest("data", literal="1,2,3"),), options={})
    order = order_of(make_paired_task(own, options={"fast_run": True}))
    (arm,) = order.arms
    assert (arm.data, arm.options) == ((), {})
    assert [given.literal for given in arm.inputs] == ["1,2,3"]
    assert [file.input for file in order.data] == ["data"]


def test_arms_differ_in_versions_of_the_device(storage):
    worker = make_worker()
    Runtime.objects.create(worker=worker, version="1.12.0", kind="wheel")
    order = order_of(make_paired_task(ArmRequest("1.12.0"), worker=worker))
    assert [arm.runtime for arm in order.arms] == ["1.12.0"]
    assert order.runtime == "1.13.0"


def test_version_that_the_device_lacks_is_refused():
    assert rejection(pairing=pairing(ArmRequest("9.9.9"))).code == "runtime_missing"


def test_time_limit_includes_the_budget():
    task = make_task(pairing=pairing(budget_s=300))
    assert task.timeout_s == longest_run_s(4) + 300


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"pairing": pairing(*[ArmRequest()] * MOST_ARMS)}, "pairing_arms"),
        ({"pairing": None, "files": (model_file(), model_file(arm=1))}, "pairing_missing"),
        ({"files": (model_file(), model_file(arm=2))}, "pairing_arm_unknown"),
        ({"files": (model_file(), model_file(arm=1), model_file(arm=1))}, "one_model_wanted"),
        ({"script": Script()}, "pairing_script"),
        ({"options": {"io_dump": True}}, "pairing_option"),
        ({"pairing": pairing(ArmRequest(options={"thread": 2}))}, "pairing_option"),
        ({"pairing": pairing(ArmRequest(options={"no_such": 2}))}, "option_unknown"),
        (
            {"files": (model_file(), data_file(), data_file(arm=1, name="x.doc"))},
            "data_kind_unknown",
        ),
    ],
)
def test_request_with_a_mistake_is_refused_with_its_cause(changes, code):
    assert rejection(**changes).code == code
    assert not Task.objects.exists()


def test_api_creates_a_paired_comparison(client, alice, storage):
    client.force_login(alice)
    worker = make_worker()
    files = [
        {"kind": "model", "name": "a.mge", "size_bytes": len(MODEL), "md5": MD5},
        {"kind": "model", "name": "b.mge", "size_bytes": len(MODEL), "md5": MD5, "arm": 1},
    ]
    body = {
        "worker": worker.pk,
        "runtime_version": "1.13.0",
        "files": files,
        "pairing": {"margin": 0.02, "budget_s": 30, "arms": [{"options": {"fast_run": True}}]},
    }
    response = post_json(client, "/api/v1/tasks/", body)
    assert response.status_code == 201, response.text
    assert len(response.json()["uploads"]) == 2
    task = Task.objects.get()
    assert task.pairing["margin"] == 0.02
    assert task.pairing["budget_s"] == 30
    assert task.pairing["arms"][0]["options"] == {"fast_run": True}
    assert task.pairing["arms"][0]["inputs"] is None
    assert task.model_name == "a.mge ↔ b.mge"


@pytest.mark.parametrize(
    ("field", "value"), [("margin", 0), ("margin", 1), ("budget_s", 1), ("least_cosine", 2)]
)
def test_api_names_a_number_out_of_range(client, alice, field, value):
    client.force_login(alice)
    body = {
        "worker": make_worker().pk,
        "runtime_version": "1.13.0",
        "files": [{"kind": "model", "name": "a.mge", "size_bytes": len(MODEL), "md5": MD5}],
        "pairing": {field: value, "arms": [{}]},
    }
    response = post_json(client, "/api/v1/tasks/", body)
    assert response.status_code == 422
    assert field in response.text


def test_repetition_keeps_all_arms(alice, storage):
    own = ArmRequest(options={"fast_run": True}, inputs=(InputRequest("data", literal="1,2"),))
    files = [model_file(), data_file(), model_file(name="new.mge", arm=1)]
    task = make_paired_task(own, files=files)
    fail_task(task, reason="model_invalid")
    copy, request = rerun_task(task, owner=task.owner)
    assert copy.pairing == task.pairing
    assert [(file.arm, file.name) for file in copy.files.all()] == [
        (0, "net.mge"),
        (0, "data.npy"),
        (1, "new.mge"),
    ]
    assert request.pairing == request_of(task).pairing


def test_form_lists_the_arms_of_the_comparison_to_repeat(client, alice, storage):
    client.force_login(alice)
    own = ArmRequest(options={"fast_run": True}, inputs=(InputRequest("mask", literal="1,2"),))
    files = [model_file(), data_file(), model_file(name="new.mge", arm=1)]
    task = make_paired_task(own, ArmRequest(), files=files, owner=alice)
    fail_task(task, reason="model_invalid")
    assert f'href="/tasks/new/?from={task.pk}"' in client.get(f"/tasks/{task.pk}/").text
    page = client.get(f"/tasks/new/?from={task.pk}").text
    arms = page[page.index('id="origin-arms"') :].partition("</ul>")[0]
    texts = [" ".join(re.sub(r"<[^>]+>", " ", row).split()) for row in arms.split("<li")[1:]]
    assert "B new.mge · MegEngine 1.13.0 · --fast_run · mask" in texts[0]
    assert "C model of A · MegEngine 1.13.0 · same options as A" in texts[1]
    task.files.filter(arm=1).update(purged_at=timezone.now())
    page = client.get(f"/tasks/new/?from={task.pk}").text
    assert 'value="1" disabled' in page
    assert "no longer in storage" in page


def test_data_of_the_baseline_must_suit_the_versions_of_all_arms_that_use_it(storage):
    worker = make_worker()
    Runtime.objects.create(worker=worker, version="1.12.0", kind="binary")
    content = npy_bytes((1, 3), "int64")
    data = data_file(size_bytes=len(content))
    shared = make_task(pairing=pairing(ArmRequest("1.12.0")), files=[model_file(), data])
    file = shared.files.get(kind="data")
    with pytest.raises(DomainError, match="input_dtype_not_here"):
        submit_task(shared, stored_objects(shared), {file.pk: content})
    own = ArmRequest("1.12.0", inputs=(InputRequest("data", literal="1.0"),))
    apart = make_task(pairing=pairing(own), files=[model_file(), data])
    submit_task(apart, stored_objects(apart), {apart.files.get(kind="data").pk: content})
    apart.refresh_from_db()
    assert apart.state == "waiting"


def test_files_of_all_arms_count_as_storage(alice):
    make_task(alice, pairing=pairing(), files=[model_file(), model_file(arm=1)])
    assert storage_quota_of(alice).used == 2 * len(MODEL)


def test_results_are_compared_in_pairs_with_copies_of_their_files(alice, storage):
    worker = make_worker()
    tasks = []
    for name, options in (("old.mge", {}), ("new.mge", {"fast_run": True, "io_dump": True})):
        files = [model_file(name=name)]
        task = make_waiting_task(alice, worker, files=files, options=options)
        object_store.write(task.model_file.object_key, MODEL)
        fail_task(task, reason="model_invalid")
        tasks.append(task)
    paired = compare_tasks_in_pairs(tasks, owner=alice)
    assert [(file.arm, file.name) for file in paired.files.all()] == [
        (0, "old.mge"),
        (1, "new.mge"),
    ]
    # io_dump writes files in each iteration
    assert paired.pairing["arms"][0]["options"] == {"fast_run": True}
    assert paired.is_live


def test_task_of_another_user_cannot_be_compared(client, alice, storage):
    others = make_waiting_task(make_user("bob"), make_worker())
    own = make_waiting_task(alice, others.worker)
    client.force_login(alice)
    address = f"/tasks/{own.pk}/compare-paired/"
    assert client.post(address, {"other": others.pk}).status_code == 404
    assert client.post(address, {"other": "x"}).status_code == 404
    assert Task.objects.count() == 2


def test_binary_checks_its_own_data_types(storage):
    worker = make_worker()
    worker.runtimes.update(kind="binary")
    with pytest.raises(DomainError) as caught:
        make_task(
            worker=worker,
            pairing=pairing(ArmRequest(inputs=(InputRequest("a:b", literal="1"),))),
        )
    assert caught.value.code == "input_name_bad"


def test_comparison_moves_only_to_a_device_with_the_versions_of_all_arms(storage):
    worker = make_worker()
    Runtime.objects.create(worker=worker, version="1.12.0", kind="wheel")
    task = make_paired_task(ArmRequest("1.12.0"), worker=worker)
    lacking, fitting = make_worker(), make_worker()
    Runtime.objects.create(worker=fitting, version="1.12.0", kind="wheel")
    with pytest.raises(DomainError) as caught:
        move_task(task, to=lacking)
    assert caught.value.code == "runtime_missing"
    move_task(task, to=fitting)
    assert Task.objects.get().worker == fitting


def test_page_shows_the_verdict_while_pairs_are_measured(client, alice, storage):
    attempt = make_attempt(make_paired_task(owner=alice))
    client.force_login(alice)
    address = f"/tasks/{attempt.task_id}/"
    receive_report(attempt, started_report(attempt, passes=60))
    assert "Verdict so far" not in client.get(address).text
    verdict = ArmVerdict(
        arm=1, verdict="not_enough", effect=0.012, low=-0.003, high=0.027, more_s=20.0, pairs=12
    )
    report = started_report(attempt, passes=60, passes_done=12, verdicts=(verdict,))
    receive_report(attempt, report)
    text = html.unescape(client.get(address).text)
    assert (
        "B: iteration time +1.20 % compared with A so far (95 % interval −0.30 % to +2.70 %)."
        in text
    )
    assert "A verdict probably needs about 20 s more." in text
    assert "Pairs (12 measured)" in text
    assert "When the verdict is clear, the run ends" in text
    # about a pair a second, for the 60 s of the budget
    assert 'max="60" value="12"' in text
    receive_report(attempt, started_report(attempt, passes=60, passes_done=70))
    assert 'max="71" value="70"' in client.get(address).text
    clear = verdict.model_copy(update={"verdict": "slower", "low": 0.002})
    report = started_report(attempt, passes=60, passes_done=71, verdicts=(clear,))
    receive_report(attempt, report)
    text = html.unescape(client.get(address).text)
    assert "The verdict is clear. More pairs are measured to find the operators" in text
    assert "When the verdict is clear" not in text
    attempt.refresh_from_db()
    lose_attempt(attempt, reason="lease_expired")
    assert "Verdict so far" not in client.get(address).text


def test_verdicts_of_a_device_for_another_kind_of_task_are_ignored(alice, storage):
    attempt = make_attempt(make_waiting_task(alice))
    verdict = ArmVerdict(arm=1, verdict="faster", effect=0.1, low=0.0, high=0.2, pairs=9)
    receive_report(attempt, started_report(attempt, passes_done=1, verdicts=(verdict,)))
    attempt.refresh_from_db()
    assert attempt.verdicts == []


def test_checksums_are_stored_for_the_files_of_each_arm(storage):
    files = [model_file(), data_file(), model_file(name="new.mge", arm=1)]
    attempt = make_attempt(make_paired_task(files=files))
    received = tuple(
        StoredFile(name=name, sha256=letter * 64, arm=arm)
        for name, letter, arm in (
            ("model.mge", "a", 0),
            (attempt.task.data_files[0].device_name, "b", 0),
            ("model.mge", "c", 1),
            # that of the baseline, which the arm has no file of its own for
            (attempt.task.data_files[0].device_name, "b", 1),
        )
    )
    receive_report(attempt, finished_report(attempt, EndReason.CANCELLED, received=received))
    sums = attempt.task.files.values_list("arm", "kind", "sha256")
    assert [(*place, sum_[:1]) for *place, sum_ in sums] == [
        (0, "model", "a"),
        (0, "data", "b"),
        (1, "model", "c"),
    ]


def test_files_in_notes_have_the_names_of_their_arm(storage):
    files = [model_file(), data_file(), data_file(name="new.npy", arm=1)]
    task = make_paired_task(files=files)
    size = {"name": task.data_files[0].device_name, "size": 9, "expected": 10}
    notes = (Note.of("file_size", **size), Note.of("file_size", arm="B", **size))
    names = [note["values"]["name"] for note in notes_with_file_names(task, notes)]
    assert names == ["data.npy", "new.npy"]


def test_files_in_the_log_of_a_failed_arm_have_the_names_of_this_arm(storage):
    files = [model_file(), model_file(name="new.mge", arm=1)]
    attempt = make_attempt(make_paired_task(files=files))
    report = finished_report(
        attempt,
        exit_code=1,
        notes=(Note.of("arm_failed", arm="B"),),
        log_end="terminate called after throwing an instance of 'lar::ModelError'\n"
        '  what():  can not read "model.mge"',
    )
    receive_report(attempt, report)
    attempt.refresh_from_db()
    end_failed_run(attempt)
    task = Task.objects.get()
    assert "new.mge" in task.detail
    assert "net.mge" not in task.detail


def test_comparison_moves_if_each_arm_can_read_its_own_data(storage):
    worker = make_worker()
    binary = {"version": "1.12.0", "kind": "binary"}
    Runtime.objects.create(worker=worker, **binary)
    own = ArmRequest("1.12.0", inputs=(InputRequest("data", literal="1.0"),))
    content = npy_bytes((1, 3), "int64")
    files = [model_file(), data_file(size_bytes=len(content))]
    task = make_task(worker=worker, pairing=pairing(own), files=files)
    submit_task(task, stored_objects(task), {task.files.get(kind="data").pk: content})
    task.refresh_from_db()
    other = make_worker()
    Runtime.objects.create(worker=other, **binary)
    move_task(task, to=other)
    assert Task.objects.get().worker == other


def test_page_and_api_list_the_files_and_inputs_of_each_arm(client, alice, storage):
    client.force_login(alice)
    own = ArmRequest(inputs=(InputRequest("data", literal="1,2"),))
    files = [model_file(), data_file(), model_file(name="new.mge", arm=1)]
    task = make_paired_task(own, files=files, owner=alice)
    page = client.get(f"/tasks/{task.pk}/").text
    table = page[page.index('id="files"') :].partition("</table>")[0]
    rows = [re.sub(r"<[^>]+>|\s+", " ", row).split() for row in table.split("<tr>")[2:]]
    assert [(row[0], row[1]) for row in rows[:3]] == [
        ("net.mge", "A"),
        ("data.npy", "A"),
        ("new.mge", "B"),
    ]
    assert "1,2" in rows[3]
    assert "B" in rows[3]
    listed = client.get(f"/api/v1/tasks/{task.pk}/").json()["files"]
    assert [(file["name"], file["arm"]) for file in listed][2] == ("new.mge", 1)


def test_page_draws_the_model_of_the_chosen_arm(client, alice, storage):
    client.force_login(alice)
    task = make_paired_task(files=[model_file(), model_file(name="new.mge", arm=1)], owner=alice)
    first, second = task.files.all()
    for file in (first, second):
        object_store.write(file.object_key, MODEL)
    page = client.get(f"/tasks/{task.pk}/graph/").text
    assert f'href="/tasks/{task.pk}/files/{first.pk}/">Download' in page
    assert 'href="?arm=1"' in page
    page = client.get(f"/tasks/{task.pk}/graph/?arm=1").text
    assert f'href="/tasks/{task.pk}/files/{second.pk}/">Download' in page
    # arms without a model of their own run that of the baseline
    for arm in ("2", "9", "x"):
        page = client.get(f"/tasks/{task.pk}/graph/?arm={arm}").text
        assert f'href="/tasks/{task.pk}/files/{first.pk}/">Download' in page
        assert "has been removed" not in page


def end_run(task: Task, run_s: float) -> None:
    attempt, now = make_attempt(task), timezone.now()
    Attempt.objects.filter(pk=attempt.pk).update(
        started_at=now - datetime.timedelta(seconds=run_s), ended_at=now, exit_code=0
    )


def test_usual_duration_is_that_of_the_same_comparison(storage):
    worker = make_worker()
    plain = make_waiting_task(worker=worker)
    task = make_paired_task(worker=plain.worker, files=[model_file(), model_file(arm=1)])
    end_run(plain, 5)
    end_run(task, 70)
    assert usual_run(task) == UsualRun(70, 1, is_same=True)
    assert usual_run(plain) == UsualRun(5, 1, is_same=True)


def test_usual_duration_is_not_that_of_another_budget_or_number_of_arms(storage):
    def usual(*arms: ArmRequest, **changes) -> UsualRun | None:
        return usual_run(make_task(pairing=pairing(*arms, **changes)))

    for _ in range(3):
        end_run(make_paired_task(), 70)
    assert usual(margin=0.05) == UsualRun(70, 3, is_same=False)
    assert usual(budget_s=1800) is None
    assert usual(ArmRequest(), ArmRequest()) is None
