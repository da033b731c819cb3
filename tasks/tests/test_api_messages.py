"""Tests of API requests with names of devices, and of the messages for invalid values."""

import pytest
from rest_framework.test import APIClient

from tasks.models import Task
from tasks.tests.make import MD5, TASKS, make_waiting_task, make_worker
from workers.models import Grant

pytestmark = pytest.mark.django_db

MODEL = {"kind": "model", "name": "net.mge", "size_bytes": 11, "md5": MD5}
#: terms of Python and Django, which clients that send JSON need not know
PYTHON_TERMS = ("integer", "boolean", "dictionary", "str", "dict", "NoneType", "items")


@pytest.fixture
def client(alice):
    client = APIClient()
    client.force_login(alice)
    return client


def task_body(**more):
    return {"runtime_version": "1.13.0", "files": [MODEL]} | more


def post(client, address, body, **more):
    return client.post(address, body, format="json", **more)


def test_request_names_a_device_by_id_or_name(client):
    worker, other = make_worker("x86-1"), make_worker("1")
    for name, expected in (("x86-1", worker), (worker.pk, worker), ("1", other)):
        assert post(client, TASKS, task_body(worker=name)).json()["worker"] == expected.pk
    judgement = post(client, f"{TASKS}judge/", task_body(worker="x86-1")).json()
    assert (judgement["refusal"], judgement["worker"]) == (None, worker.pk)


def test_hidden_device_has_the_error_of_an_unknown_device(client, alice):
    hidden = make_worker("hidden", is_public=False)
    for address in (TASKS, f"{TASKS}{make_waiting_task(alice, make_worker('x86-1')).pk}/move/"):
        body = {} if "move" in address else task_body()
        answers = [post(client, address, body | {"worker": name}) for name in ("hidden", "nobody")]
        assert [answer.status_code for answer in answers] == [422, 422]
        assert answers[0].json() == answers[1].json()
        assert answers[0].json()["code"] == "worker_unknown"
        assert "Unknown device" in answers[0].json()["detail"]
    Grant.objects.create(worker=hidden, user=alice)
    assert post(client, TASKS, task_body(worker="hidden")).status_code == 201


@pytest.mark.parametrize(
    ("address", "body", "field"),
    [
        (TASKS, task_body(worker=[1]), "worker"),
        (TASKS, task_body(worker=True), "worker"),
        (TASKS, task_body(worker=1, copied_from="12"), "copied_from"),
        (TASKS, task_body(worker=1, seed="7"), "seed"),
        (TASKS, task_body(worker=1, seed=1.5), "seed"),
        (TASKS, task_body(worker=1, extra=1), "extra"),
        (TASKS, task_body(worker=1, files=None), "files"),
        (TASKS, task_body(worker=1, inputs=[{"shape": [1]}]), "inputs.0.name"),
        (TASKS, task_body(worker=1, inputs=[{"name": "x", "shape": "a"}]), "inputs.0.shape"),
        (TASKS, task_body(worker=1, title=7), "title"),
        (TASKS, task_body(worker=1, files={}), "files"),
        (TASKS, task_body(worker=1, files=["net.mge"]), "files.0"),
        (TASKS, task_body(worker=1, files=[MODEL | {"kind": "weights"}]), "files.0.kind"),
        (TASKS, task_body(worker=1, files=[MODEL | {"from_file": "net.mge"}]), "files.0.from_file"),
        (TASKS, task_body(worker=1, options=["iter"]), "options"),
        (TASKS, task_body(worker=1, options={"iter": [1]}), "options.iter"),
        (TASKS, task_body(worker=1, plan="quick"), "plan"),
        (TASKS, task_body(worker=1, plan={"preset": "custom", "clean": "yes"}), "plan.clean"),
        (TASKS, task_body(worker=1, plan={"clean_min_s": "1"}), "plan.clean_min_s"),
        (TASKS, task_body(target={"labels": "chip=fast"}), "target.labels"),
        (f"{TASKS}cancel/", {"tasks": "12"}, "tasks"),
        (f"{TASKS}cancel/", {"tasks": ["twelve"]}, "tasks.0"),
        ("/api/v1/access-tokens/", {"name": "a", "days": 1, "scopes": ["all"]}, "scopes.0"),
    ],
)
@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_message_for_an_invalid_value_uses_terms_of_json(client, address, body, field, language):
    answer = post(client, address, body, HTTP_ACCEPT_LANGUAGE=language)
    assert answer.status_code == 422, answer.json()
    (error,) = answer.json()["errors"]
    assert error["field"] == field
    words = set(error["detail"].replace('"', " ").replace(".", " ").split())
    assert not words & set(PYTHON_TERMS), error["detail"]
    assert (language == "en") == error["detail"].replace("“", "").replace("”", "").isascii()
    assert not Task.objects.exists()


def test_message_for_an_invalid_choice_lists_the_choices(client):
    answer = post(client, TASKS, task_body(worker=1, plan={"preset": "fast"}))
    (error,) = answer.json()["errors"]
    assert error["detail"] == "“fast” is not one of: quick, standard, thorough, custom."


def test_message_for_a_too_large_number_repeats_the_number(client):
    body = '{"options": {"range": -1.5e999}}'
    answer = client.post(TASKS, body, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (400, "number_large")
    assert "-1.5e999" in answer.json()["detail"]
