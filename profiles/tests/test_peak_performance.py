"""Measured peak performance of a device in the roofline and in advice."""

import pytest
from django.test import Client

from agent.protocol.messages import MeasuredRoofs
from profiles.ingest.loading import profile_data
from profiles.models import Profile
from profiles.presenters.advice import advice_of, run_facts
from profiles.presenters.charts import roofs_of
from profiles.tests.imports import make_import
from profiles.tests.pages import make_result
from tasks.tests.make import make_user
from testdata import good_profile
from workers.services import roofs_as_json

pytestmark = pytest.mark.django_db

CPU_PEAK = MeasuredRoofs(
    device="cpu", peak_flops={"Float32": 60e9}, copy_bytes_s=12e9, measured_at=1_800_000_000.0
)
GPU_PEAK = CPU_PEAK.model_copy(update={"device": "cuda", "copy_bytes_s": 4e12})


def set_peaks(profile: Profile, *roofs: MeasuredRoofs, version: str = "1.13.0") -> Profile:
    """Set the measured peak performance of a profile's device and return the profile."""
    runtime = profile.attempt.worker.runtimes.get()
    runtime.roofs, runtime.version = roofs_as_json(roofs), version
    runtime.save()
    return profile


def test_peak_performance_belongs_to_device_and_version(storage):
    profile = set_peaks(make_result(good_profile("tiny")), CPU_PEAK, GPU_PEAK)

    assert roofs_of(profile).peak_flops == {"Float32": 60e9}
    assert roofs_of(profile).copy_bytes_s == 12e9
    assert "2027-01-15" in roofs_of(profile).source
    assert roofs_of(profile, on_gpu=True).copy_bytes_s == 4e12


def test_another_version_has_no_peak_performance(storage):
    profile = make_result(good_profile("tiny"))

    assert roofs_of(profile) is None
    assert roofs_of(set_peaks(profile, CPU_PEAK, version="1.12.0")) is None


def test_a_run_with_several_threads_has_no_peak_performance(storage):
    profile = set_peaks(make_result(good_profile("tiny")), CPU_PEAK)
    task = profile.attempt.task
    task.options = {"multithread": 2}
    task.save()

    assert roofs_of(Profile.objects.get(pk=profile.pk)) is None


def test_an_import_has_no_peak_performance(storage):
    upload = make_import(make_user(), good_profile("tiny"))

    assert roofs_of(upload.profile) is None


def test_advice_uses_measured_peak_performance(storage):
    profile = set_peaks(make_result(good_profile("resnet18")), CPU_PEAK)
    advice = advice_of(profile_data(profile), run_facts(profile))

    (finding,) = [finding for finding in advice["findings"] if finding["rule"] == "far_from_roof"]
    # the first BatchNorm moves 1.6 MB in 1.1 ms: 1.5 of 12 GB/s
    assert "the one with the largest loss reaches 12.1 %" in finding["sentence"]


def test_the_roofline_changes_after_a_measurement(storage):
    profile = make_result(good_profile("resnet18"))
    client = Client()
    client.force_login(profile.attempt.task.owner)
    address = f"/api/v1/profiles/{profile.pk}/charts/roofline/"
    before = client.get(address)
    assert before.json()["measured"] is False

    set_peaks(profile, CPU_PEAK)
    after = client.get(address, headers={"If-None-Match": before["ETag"]})

    assert after.status_code == 200
    assert after.json()["measured"] is True
    assert after.json()["roofs"] == [{"name": "Float32", "flops": 60e9}]
    assert after.json()["bytes_s"] == 12e9
