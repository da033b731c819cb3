"""Tests of the form for a new task as a browser without JavaScript sends it."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from tasks.models import Task
from tasks.states import TaskState
from tasks.submission.plans import PRESETS
from tasks.tests.make import MODEL, make_user, make_worker, model_bytes, npy_bytes
from tasks.tests.scripts import make_script_worker
from webprofile.storage import storage

pytestmark = [pytest.mark.django_db, pytest.mark.database, pytest.mark.object_storage]

ADDRESS = "/tasks/new/"


def sent(name: str, content: bytes) -> SimpleUploadedFile:
    return SimpleUploadedFile(name, content)


@pytest.fixture
def alice(client, storage):
    user = make_user()
    client.force_login(user)
    return user


def fields(worker, **changes):
    """Return the fields that a browser sends for a form that was left as it is."""
    return {
        "kind": "model", "where": "one", "worker": worker.pk, "runtime": "1.13.0",
        "preset": "standard", "priority": "0", "seed": "0", "title": "", "model_time_limit_s": "",
        "no_sanity_check": "on", "model": sent("net.mge", MODEL),
    } | changes  # fmt: skip


def test_form_without_javascript_submits_a_task(client, alice):
    worker = make_worker()
    data = [sent("data.npy", npy_bytes()), sent("mask.npy", npy_bytes((2, 2), "int8"))]
    answer = client.post(
        ADDRESS,
        fields(
            worker, title="plain", iter="7", fast_run="on", seed="9007199254740993",
            priority="-3", **{"data-files": data},
        ),
    )  # fmt: skip
    task = Task.objects.get()
    assert answer.headers["Location"] == f"/tasks/{task.pk}/"
    assert task.state != TaskState.INITIATED
    assert (task.owner, task.worker, task.title, task.priority) == (alice, worker, "plain", -3)
    assert task.options == {"iter": 7, "fast_run": True}
    assert (task.plan, task.seed) == (PRESETS["standard"].model_dump(), 9007199254740993)
    files = [(file.kind, file.name, file.input) for file in task.files.order_by("pk")]
    assert files == [
        ("model", "net.mge", ""),
        ("data", "data.npy", "data"),
        ("data", "mask.npy", "mask"),
    ]
    assert task.files.filter(stored_at=None).count() == 0


def test_unchecked_box_switches_an_option_off(client, alice):
    form = fields(make_worker())
    del form["no_sanity_check"]
    client.post(ADDRESS, form)
    assert Task.objects.get().options == {"no_sanity_check": False}


def test_other_model_makes_a_paired_comparison(client, alice):
    other = model_bytes(b"other")
    numbers = {"pairing-margin": "0.02", "pairing-budget_s": "30", "pairing-least_cosine": "0.99"}
    files = {"other-model": sent("new.mge", other), "data-files": [sent("data.npy", npy_bytes())]}
    answer = client.post(ADDRESS, fields(make_worker(), **numbers, **files))
    task = Task.objects.get()
    assert answer.headers["Location"] == f"/tasks/{task.pk}/"
    assert [(file.arm, file.kind, file.name) for file in task.files.all()] == [
        (0, "model", "net.mge"),
        (0, "data", "data.npy"),
        (1, "model", "new.mge"),
    ]
    assert storage.read(task.files.get(arm=1).object_key, limit_bytes=100) == other
    assert (task.pairing["margin"], task.pairing["budget_s"]) == (0.02, 30)
    assert task.pairing["least_cosine"] == 0.99


def test_numbers_of_a_pairing_that_are_out_of_range_are_named(client, alice):
    files = {"other-model": sent("new.mge", MODEL)}
    answer = client.post(ADDRESS, fields(make_worker(), **{"pairing-margin": "7"}, **files))
    assert answer.status_code == 422
    problem = "Largest difference that counts as equal (ratio) must be between 0.001 and 0.5."
    assert problem in answer.text
    assert not Task.objects.exists()


def test_target_and_custom_plan_are_read(client, alice):
    make_worker(labels={"chip": "Xeon"})
    plan = {"preset": "custom", "clean_min_s": "1.5", "clean_min_iterations": "5", "profiled": "2"}
    where = {"where": "any", "label:chip": "Xeon", "versions": ">=1.12"}
    client.post(ADDRESS, fields(make_worker("other"), **plan, **where, clean="on"))
    task = Task.objects.get()
    assert task.target == {"labels": {"chip": "Xeon"}, "versions": ">=1.12"}
    assert (task.plan["clean_min_s"], task.plan["profiled"]) == (1.5, 2)


def test_script_is_submitted(client, alice):
    form = {
        "kind": "script", "where": "one", "worker": make_script_worker().pk, "runtime": "1.13.0",
        "program": sent("train.py", b"print(1)\n"), "arguments": "--steps 3", "formats": "timeline",
        "sample_rate": "0", "profile_device": "on", "extra-files": [sent("a.txt", b"x")],
    }  # fmt: skip
    client.post(ADDRESS, form)
    task = Task.objects.get()
    assert task.script["arguments"] == ["--steps", "3"]
    assert sorted(file.name for file in task.files.all()) == ["a.txt", "train.py"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"model": sent("x.mge", b"\x89PNG\r\n\x1a\n" + bytes(99))}, "is a picture"),
        ({"seed": "many"}, "seed"),
        ({"priority": "999"}, "priority"),
        ({"iter": "x"}, "iter: "),
        ({"data-files": sent("a.npy", b"nothing")}, "is not an .npy file"),
        ({"fast_run_algo_policy-source": "upload"}, "fast_run_algo_policy: "),
        ({"fast_run_algo_policy-source": "9" * 5000}, "fast_run_algo_policy: "),
        ({"fast_run": "on", "full_run": "on"}, "full_run"),
        ({"runtime": "9.9"}, "9.9"),
    ],
)
def test_refusal_is_a_page_and_leaves_no_task(client, alice, changes, text):
    answer = client.post(ADDRESS, fields(make_worker(), **changes))
    assert answer.status_code == 422
    assert text in answer.text
    assert "Go back to correct the form" in answer.text
    assert not Task.objects.exists()


def test_form_that_is_too_large_is_refused(client, alice, settings):
    settings.OPENED_FORM_LIMIT_BYTES = 1000
    answer = client.post(
        ADDRESS, fields(make_worker(), model=sent("a.mge", model_bytes(bytes(2000))))
    )
    assert answer.status_code == 413
    assert not Task.objects.exists()


def test_form_needs_login_and_csrf_token(client, alice):
    form = fields(make_worker())
    stranger = Client().post(ADDRESS, form)
    assert stranger.headers["Location"].startswith("/accounts/login/")
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(alice)
    assert strict.post(ADDRESS, fields(make_worker("b"))).status_code == 403
    assert not Task.objects.exists()
