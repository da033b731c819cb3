"""How often verdicts are wrong: the figures of A/A runs, and the page over all devices."""

import pytest
from django.test import Client
from django.urls import reverse

from tasks.tests.make import make_user, make_worker
from workers.health import close_check, open_check
from workers.models import HealthCheck, Worker
from workers.trust import trust_of

pytestmark = pytest.mark.django_db


def make_aa_run(
    worker: Worker, verdict: str = "same", *, environment: str = "", **figures: object
) -> None:
    check = open_check(
        worker, version="1.13.0", cause=HealthCheck.Cause.AA, environment=environment
    )
    assert check is not None
    samples = {
        "verdict": verdict, "effect": 0.001, "low": -0.01, "high": 0.012, "smallest": 0.02,
        "pairs": 18, "measuring_s": 30.0, "usual_ms": 10.0,
    }  # fmt: skip
    close_check(check, HealthCheck.Result.PASSED, samples=samples | figures)


def get(user, address: str, language: str = "en") -> str:
    client = Client()
    client.force_login(user)
    client.cookies["django_language"] = language
    answer = client.get(address)
    assert answer.status_code == 200
    return answer.text


def test_false_alarms_and_intervals_are_counted():
    worker = make_worker()
    make_aa_run(worker)
    make_aa_run(worker, "not_enough", low=None, high=None, smallest=None)
    make_aa_run(worker, "slower", low=0.001, high=0.03)
    trust = trust_of([worker])[worker.pk]
    assert (trust.runs, trust.false_alarms) == (3, 1)
    assert (trust.intervals, trust.covered) == (2, 1)


def test_the_smallest_difference_is_that_of_two_minutes():
    worker = make_worker()
    make_aa_run(worker, smallest=0.02, measuring_s=30.0)
    assert trust_of([worker])[worker.pk].smallest == pytest.approx(0.01)


def test_a_device_with_an_impossible_time_does_not_break_the_pages():
    alice = make_user("alice")
    make_aa_run(make_worker("w"), measuring_s=-1.0)
    for address in (reverse("trust"), reverse("workers:detail", args=["w"])):
        assert "0 in 1 A/A run" in get(alice, address)


def test_drift_is_known_after_ten_runs():
    worker = make_worker()
    for number in range(10):
        assert trust_of([worker])[worker.pk].drift is None
        make_aa_run(worker, usual_ms=10.0 if number < 5 else 10.2)
    assert trust_of([worker])[worker.pk].drift == pytest.approx(0.02)


def test_a_new_kernel_is_no_drift_of_the_device():
    worker = make_worker()
    for number in range(20):
        is_old = number < 10
        make_aa_run(
            worker, environment="old" if is_old else "new", usual_ms=10.0 if is_old else 12.0
        )
    assert trust_of([worker])[worker.pk].drift == pytest.approx(0)


def test_the_page_sums_the_devices_that_the_user_may_see():
    alice, root = make_user("alice"), make_user("root", is_staff=True)
    public, private = make_worker("public"), make_worker("secret", is_public=False)
    make_aa_run(public)
    make_aa_run(private, "faster", low=-0.03, high=-0.01)
    page = get(alice, reverse("trust"))
    assert "0 in 1 A/A run" in page
    assert "secret" not in page
    page = get(root, reverse("trust"))
    assert "1 in 2 A/A runs" in page
    assert "1 of 2 (50.0 %)" in page
    assert "2 次 A/A 运行中有 1 次" in get(root, reverse("trust"), "zh-hans")


def test_the_page_without_runs_says_when_they_start():
    make_worker("new")
    assert "They start while a device is idle" in get(make_user(), reverse("trust"))
    assert Client().get(reverse("trust")).status_code == 302


def test_the_page_and_the_api_of_a_device_show_its_own_error():
    worker, alice = make_worker("w"), make_user("alice")
    assert "No A/A runs yet." in get(alice, reverse("workers:detail", args=["w"]))
    make_aa_run(worker)
    page = get(alice, reverse("workers:detail", args=["w"]))
    assert "0 in 1 A/A run" in page
    client = Client()
    client.force_login(alice)
    trust = client.get("/api/v1/workers/w/").json()["trust"]
    assert (trust["runs"], trust["false_alarms"], trust["covered"]) == (1, 0, 1)
