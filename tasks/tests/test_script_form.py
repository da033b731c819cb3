"""What the form and the page of a script promise, beside what the device does."""

import pytest

from agent.config import LOG_LIMIT_BYTES
from agent.runner import FILE_LIMIT_BYTES
from agent.tail import END_BYTES
from agent.watchdog import WatchLimits
from tasks.tests.make import make_user
from tasks.tests.scripts import make_script_task, make_script_worker

pytestmark = pytest.mark.django_db


def test_the_form_names_the_limits_that_a_device_has_unless_its_owner_sets_others(client):
    alice = make_user("alice")
    make_script_worker()
    client.force_login(alice)
    page = client.get("/tasks/new/?kind=script").content.decode()
    words = page.split('id="script-limits"')[1].split("</p>")[0]
    limits = WatchLimits()
    for figure in (
        f"prints more than {limits.print_bytes >> 20} MiB",
        f"writes more than {limits.disk_bytes >> 30} GiB",
        f"({FILE_LIMIT_BYTES >> 30} GiB into one file)",
        f"more than {limits.processes} processes",
        f"for {limits.silence_s:g} s",
        f"{LOG_LIMIT_BYTES >> 20} MiB is kept, and the last {END_BYTES >> 10} KiB",
    ):
        assert figure in words


def test_a_task_says_what_of_a_long_log_can_be_downloaded(client):
    task = make_script_task()
    client.force_login(task.owner)
    page = client.get(f"/tasks/{task.pk}/").content.decode()
    words = page.split('id="log-cut"')[1].split("</p>")[0]
    assert f"up to {LOG_LIMIT_BYTES >> 20} MiB it is complete" in words
    assert f"the last {END_BYTES >> 10} KiB" in words
