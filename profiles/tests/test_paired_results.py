"""Results of paired comparisons in the API."""

import pytest

from agent.protocol.pairs import ArmVerdict
from profiles.tests.make import SLOWER, UNDECIDED, make_paired_task, make_pairing
from tasks.tests.make import make_task, make_user, model_file
from webprofile.tests.documented_api import caller, expect_problem

pytestmark = [pytest.mark.django_db, pytest.mark.database]


def address_of(task):
    return f"/api/v1/profiles/of-task/{task.pk}/pairs/"


@pytest.fixture
def alice(storage):
    return make_user("alice")


def test_the_result_has_arms_verdicts_and_all_pairs(alice):
    task = make_paired_task(SLOWER, UNDECIDED, owner=alice)
    answer = caller(alice).get(address_of(task)).json()
    baseline, other, _ = answer["arms"]
    assert (baseline["letter"], baseline["model"], baseline["options"]) == ("A", "net.mge", {})
    assert baseline["outputs"] == []
    assert (other["letter"], other["version"], other["options"]) == (
        "B", "1.13.0", {"fast_run": True}
    )  # fmt: skip
    assert (other["usual_ms"], other["iterations"]) == (10.0, 5)
    slower, undecided = answer["verdicts"]
    assert (slower["letter"], slower["verdict"], slower["effect"]) == ("B", "slower", 0.1)
    assert (slower["low"], slower["high"], slower["smallest"]) == (0.08, 0.12, 0.02)
    assert slower["sentence"] == "B is 10.0 % slower than A (95 % interval +8.00 % to +12.0 %)."
    assert (undecided["verdict"], undecided["more_s"]) == ("not_enough", 38)
    assert undecided["sentence"].endswith("A verdict probably needs about 40 s more.")
    counted, disturbed = answer["pairs"]
    assert counted["changes"] == pytest.approx([0.1, 0.2])
    assert counted["disturbances"] == []
    assert [row["code"] for row in disturbed["disturbances"]] == ["waited"]
    assert (answer["seed"], answer["measuring_s"], answer["differing"]) == (7, 12.5, [])


def test_outputs_below_the_limit_differ(alice):
    task = make_paired_task(SLOWER, owner=alice, cosine=0.9)
    answer = caller(alice).get(address_of(task)).json()
    assert answer["differing"] == ["B"]
    (output,) = answer["arms"][1]["outputs"]
    assert (output["differs"], output["cosine"], output["sqnr_db"]) == (True, 0.9, 30.0)
    assert output["text"].startswith("cosine similarity 0.900000")


def test_a_comparison_without_undisturbed_pairs_has_no_figures(alice):
    task = make_paired_task(ArmVerdict(arm=1, verdict="not_enough", pairs=0), owner=alice)
    (verdict,) = caller(alice).get(address_of(task)).json()["verdicts"]
    assert (verdict["effect"], verdict["low"], verdict["more_s"]) == (None, None, None)
    assert "too few undisturbed pairs" in verdict["sentence"]


def test_tasks_without_pairs_are_refused(alice):
    client = caller(alice)
    expect_problem(client.get(address_of(make_task(alice))), 409, "pairs_none")
    waiting = make_task(alice, pairing=make_pairing())
    expect_problem(client.get(address_of(waiting)), 409, "profile_not_yet")
    bob = caller(make_user("bob"))
    expect_problem(bob.get(address_of(waiting)), 404, "not_found")


def test_a_task_says_how_it_is_paired(alice):
    files = [model_file(), model_file(name="new.mge", arm=1)]
    task = make_task(alice, pairing=make_pairing(margin=0.02, budget_s=90), files=files)
    answer = caller(alice).get(f"/api/v1/tasks/{task.pk}/").json()
    assert answer["pairing"] == {
        "margin": 0.02,
        "budget_s": 90,
        "least_cosine": 0.999,
        "arms": [{"runtime_version": "1.13.0", "options": {"fast_run": True}, "inputs": None}],
    }
    assert [(file["name"], file["arm"]) for file in answer["files"]] == [
        ("net.mge", 0), ("new.mge", 1)
    ]  # fmt: skip
    alone = make_task(alice)
    assert caller(alice).get(f"/api/v1/tasks/{alone.pk}/").json()["pairing"] is None
