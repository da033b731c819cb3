"""Measured peak performance: what is stored, and who sees it."""

import pytest
from django.test import Client

from agent.protocol.messages import Hello, MeasuredRoofs, RuntimeInfo
from tasks.dispatch.gateway import handle
from tasks.tests.make import FACTS, make_user, make_worker
from workers.models import Runtime, Worker

pytestmark = [pytest.mark.django_db, pytest.mark.database]

ROOFS = MeasuredRoofs(
    device="cpu", peak_flops={"Float32": 109.6e9}, copy_bytes_s=23.7e9, measured_at=1.8e9
)


def introduce(worker: Worker, *roofs: MeasuredRoofs) -> Runtime:
    info = RuntimeInfo(version="1.13.0", kind="wheel", roofs=roofs)
    handle(worker, Hello(agent_version="0.1.0", facts=FACTS, runtimes=(info,)))
    return worker.runtimes.get()


def test_peak_performance_is_stored_with_the_runtime():
    runtime = introduce(make_worker(), ROOFS)

    assert runtime.roofs_of("cpu") == ROOFS
    assert runtime.roofs_of("cuda") is None


def test_peak_performance_that_is_no_longer_reported_is_removed():
    worker = make_worker()
    introduce(worker, ROOFS)

    assert introduce(worker).roofs == []


def test_unknown_devices_and_dtypes_are_ignored():
    strange = ROOFS.model_copy(update={"device": "npu"})
    mixed = ROOFS.model_copy(update={"peak_flops": {"Float32": 1e9, "Float8\u0000": 1e12}})

    runtime = introduce(make_worker(), strange, mixed)

    assert [(roofs["device"], roofs["peak_flops"]) for roofs in runtime.roofs] == [
        ("cpu", {"Float32": 1e9})
    ]


def test_the_list_of_devices_shows_peak_performance():
    introduce(make_worker(), ROOFS)
    client = Client()
    client.force_login(make_user())

    assert "cpu: 110 GFLOP/s · 23.7 GB/s" in client.get("/workers/").content.decode()


def test_the_admin_site_shows_all_dtypes():
    both = ROOFS.model_copy(update={"peak_flops": {"Float32": 1.096e11, "QuantizedS8": 1.48e11}})
    worker = make_worker()
    introduce(worker, both)
    admin = make_user("admin")
    admin.is_staff = admin.is_superuser = True
    admin.save()
    client = Client()
    client.force_login(admin)

    page = client.get(f"/admin/workers/worker/{worker.pk}/change/").content.decode()
    assert "cpu: Float32 109.6, QuantizedS8 148 GFLOP/s, 23.7 GB/s" in page
