"""Presets of options: saved by name, used in requests and without JavaScript."""

import pytest

from tasks.models import OptionPreset, Task
from tasks.submission.presets import PRESETS_LIMIT, save_option_preset
from tasks.tests.make import TASKS, make_user, make_worker, post_json, task_request

PRESETS = f"{TASKS}option-presets/"
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("logged_in")]


def save(client, name="fast", **options):
    return post_json(client, PRESETS, {"name": name, "options": options})


def test_preset_is_saved_replaced_listed_and_deleted(client, alice):
    first = save(client, "  fast \n run", fast_run=True)
    assert (first.status_code, first.json()["name"]) == (201, "fast run")
    # options at their defaults are dropped
    again = save(client, "fast run", fast_run=True, iter=7, no_sanity_check=True)
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    OptionPreset.objects.create(owner=make_user("bob"), name="bobs", options={"iter": 1})
    (row,) = client.get(PRESETS).json()["results"]
    assert row["name"] == "fast run"
    assert row["options"]["iter"] == 7
    assert client.delete(f"{PRESETS}{row['id']}/").status_code == 204
    assert [preset.name for preset in OptionPreset.objects.all()] == ["bobs"]


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        (" ", {"iter": 7}, "invalid"),
        ("x", {}, "preset_empty"),
        ("x", {"iter": -1}, "option_too_small"),
        ("x", {"nonsense": True}, "option_unknown"),
    ],
)
def test_bad_preset_is_refused(client, name, options, code):
    response = save(client, name, **options)
    assert (response.status_code, response.json()["code"]) == (422, code)


def test_number_of_presets_is_limited(client, alice):
    for number in range(PRESETS_LIMIT):
        save_option_preset(alice, name=f"preset {number}", options={"iter": 7})
    assert save(client, "one more", iter=7).json()["code"] == "preset_limit"
    assert save(client, "preset 3", iter=8).status_code == 200


def test_request_names_a_preset_and_changes_its_options(client, alice, storage):
    save_option_preset(alice, name="fast", options={"fast_run": True, "iter": 7})
    body = task_request(option_preset="fast", options={"iter": 9})
    assert post_json(client, TASKS, body).status_code == 201
    assert Task.objects.get().options == {"fast_run": True, "iter": 9}
    unknown = post_json(client, TASKS, task_request(option_preset="slow"))
    assert (unknown.status_code, unknown.json()["code"]) == (422, "preset_unknown")


def test_presets_work_without_javascript(client, alice):
    make_worker()
    fields = {"preset_name": "fast", "fast_run": "on", "iter": "7", "no_sanity_check": "on"}
    response = client.post("/tasks/option-presets/", fields, follow=True)
    assert response.redirect_chain[-1][0] == "/tasks/new/"
    preset = OptionPreset.objects.get()
    assert preset.options["iter"] == 7
    assert "<option>fast</option>" in response.text
    unnamed = client.post("/tasks/option-presets/", fields | {"preset_name": " "})
    assert unnamed.status_code == 422
    assert "A preset needs a name" in unnamed.text
    client.post("/tasks/option-presets/", {"remove": preset.pk})
    assert not OptionPreset.objects.exists()
    assert client.post("/tasks/option-presets/", {"remove": preset.pk}).status_code == 404
