"""The speed of a device over time, on its page."""

import datetime

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agent.protocol.measurement import Canary, CanaryReading, Disturbance, Measurement
from profiles.device_history import speed_history
from profiles.ingest.results import measurement_row
from profiles.tests.make import CLEAN_ONLY
from tasks.models import Attempt
from tasks.tests.make import make_attempt, make_user, make_waiting_task, make_worker
from workers.models import Worker

pytestmark = pytest.mark.django_db


def reading(factor: float) -> CanaryReading:
    return CanaryReading(gemm_ms=0.5 * factor, copy_ms=0.8 * factor, small_ms=0.1 * factor)


def make_reading(
    worker: Worker, *factors: float, version: str = "1.13.0", **environment: str
) -> None:
    """Store a measurement of a device that needs so many times as long as usual."""
    task = make_waiting_task(make_user(f"user{Attempt.objects.count()}"), worker)
    attempt = make_attempt(task)
    task.runtime_version = version
    task.save(update_fields=["runtime_version"])
    number = Attempt.objects.count()
    attempt.environment = {"agent": "1", "platform": "Linux-6.1", "driver": None} | environment
    attempt.ended_at = timezone.now() + datetime.timedelta(seconds=number)
    attempt.save(update_fields=["environment", "ended_at"])
    before, after = (reading(factor) for factor in factors)
    is_slow = factors[1] > 1.1
    measurement = Measurement(
        plan=CLEAN_ONLY,
        canary=Canary(before=before, after=after, repeated=is_slow),
        disturbances=(Disturbance(code="not_itself"),) if is_slow else (),
    )
    measurement_row(attempt, measurement, []).save()


def device_page(worker: Worker, language: str = "en") -> str:
    client = Client()
    client.force_login(make_user(f"reader-{language}"))
    client.cookies["django_language"] = language
    return client.get(reverse("workers:detail", args=[worker.name])).text


def test_a_device_without_readings_says_how_many_are_needed():
    page = device_page(make_worker())
    assert "20 more readings are needed" in page
    assert "unless another task runs at the same time or" in page
    assert "“canary = false”" in page


def test_the_page_shows_the_speed_as_a_share_of_the_usual_one():
    worker = make_worker()
    for _ in range(10):
        make_reading(worker, 1.0, 1.0)
    make_reading(worker, 1.0, 1 / 0.8)
    history = speed_history(worker)
    assert history.readings[-1].after == pytest.approx(0.8)
    assert history.readings[-1].is_disturbed
    page = device_page(worker)
    assert "80.0 % of its usual speed" in page
    assert "marked as disturbed" in page
    assert "自身平常速度的 80.0 %" in device_page(worker, "zh-hans")


def test_changes_of_kernel_driver_agent_and_runtime_are_marked():
    worker = make_worker()
    for _ in range(9):
        make_reading(worker, 1.0, 1.0)
    make_reading(worker, 1.0, 1.0, platform="Linux-6.9")
    make_reading(worker, 1.0, 1.0, platform="Linux-6.9", driver="550.54", agent="2")
    make_reading(
        worker, 1.0, 1.0, platform="Linux-6.9", driver="550.54", agent="2", version="1.12.0"
    )
    kinds = [(change.kind, change.after) for change in speed_history(worker).changes]
    assert kinds == [
        ("platform", "Linux-6.9"), ("driver", "550.54"), ("agent", "2"), ("runtime", "1.12.0"),
    ]  # fmt: skip
    page = device_page(worker)
    assert "Linux-6.9" in page
    assert "First run with a MegEngine version" in page


@pytest.mark.parametrize("times", [{}, {"gemm_ms": "x"}, {"gemm_ms": -1, "copy_ms": 1}, None])
def test_an_implausible_reading_is_left_out(times):
    worker = make_worker()
    for _ in range(11):
        make_reading(worker, 1.0, 1.0)
    row = Attempt.objects.latest("ended_at").measurement
    row.canary = {"before": times, "after": times}
    row.save()
    assert len(speed_history(worker).readings) == 10
