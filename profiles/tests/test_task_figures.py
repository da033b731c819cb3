"""Tests of the figures of tasks in the list and in its API: from results, without reading them."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from profiles.analysis.stability import noise_of
from profiles.models import Profile
from profiles.presenters.sparkline import HEIGHT, sparkline_of
from profiles.task_figures import MOST_TIMES, figures_of
from profiles.tests.make import make_measured_task
from tasks.baselines import pin_baseline, unpin_baseline
from tasks.lifecycle.outcomes import fail_task
from tasks.models import Attempt
from tasks.tests.make import make_user, make_waiting_task, make_worker, start_run

pytestmark = [pytest.mark.django_db, pytest.mark.database]


def row_text(client, task, query=""):
    """Return the texts of the cells of a task's row; a sparkline is its alternative."""
    page = client.get(f"/tasks/?{query}").text
    row = re.search(rf'<tr data-task="{task.pk}".*?</tr>', page, re.DOTALL)[0]
    cells = re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]*>", " ", cell).split()) for cell in cells]


def test_row_shows_latency_device_time_noise_and_duration(client, alice):
    task = make_measured_task(alice, median_ms=12.0, device_s=0.0105, device_cv=0.01)
    row = row_text(client, task)
    assert row[6:12] == ["12.0 ms", "10.5 ms", "", "", "", "quiet"]
    assert row[12] == "1 min 5 s"


def test_row_and_api_show_the_peak_memory_of_the_last_attempt(client, alice):
    task = make_measured_task(alice)
    assert 'task-table__memory" title="not recorded">' in client.get("/tasks/").text
    Attempt.objects.filter(task=task).update(host_memory_bytes=149 << 20)
    assert row_text(client, task)[8] == "149 MiB"
    Attempt.objects.filter(task=task).update(gpu_memory_bytes=5 << 29)
    assert 'title="GPU 2.50 GiB">149 MiB' in client.get("/tasks/").text
    figures = client.get("/api/v1/tasks/").json()["results"][0]["figures"]
    assert (figures["host_memory_bytes"], figures["gpu_memory_bytes"]) == (149 << 20, 5 << 29)


def test_difference_is_relative_to_the_pinned_baseline_and_has_no_colour(client, alice):
    worker = make_worker()
    pinned = make_measured_task(alice, worker, device_s=0.010)
    task = make_measured_task(alice, worker, device_s=0.011)
    other = make_measured_task(alice, worker, name="other.mge", device_s=0.5)
    assert row_text(client, task)[9] == ""
    pin_baseline(pinned)
    assert row_text(client, task)[9] == "+10.0 %"
    assert row_text(client, pinned)[9] == "Baseline"
    assert row_text(client, other)[9] == ""
    page = client.get("/tasks/").text
    assert f"Device time compared with task #{pinned.pk} (10.0 ms), the pinned baseline" in page
    profiles = [Profile.objects.get(attempt__task=each).pk for each in (pinned, task)]
    assert f"/profiles/compare/?p={profiles[0]}&amp;p={profiles[1]}" in page
    unpin_baseline(pinned)
    assert row_text(client, task)[9] == ""


def test_baselines_and_times_of_other_users_do_not_count(client, alice):
    worker, bob = make_worker(), make_user("bob")
    pin_baseline(make_measured_task(bob, worker, device_s=0.5))
    task = make_measured_task(alice, worker)
    figures = figures_of([task])[task.pk]
    assert (figures.baseline, figures.history_s) == (None, (0.01,))
    # an administrator sees the owner's
    client.force_login(make_user("root", is_staff=True))
    assert row_text(client, task)[10:12] == ["", ""]


def test_sparkline_shows_the_times_up_to_the_task(client, alice):
    worker = make_worker()
    times_s = [0.010, 0.012, 0.011]
    tasks = [make_measured_task(alice, worker, device_s=time_s) for time_s in times_s]
    make_measured_task(alice, worker, name="other.mge", device_s=9.0)
    make_measured_task(alice, make_worker(), device_s=9.0)
    assert row_text(client, tasks[0])[10] == ""
    assert row_text(client, tasks[2])[10] == (
        "Device time of the last 3 tasks, oldest first: 10.0 ms, 12.0 ms, 11.0 ms"
    )
    assert figures_of([tasks[1]])[tasks[1].pk].history_s == (0.010, 0.012)


def test_history_is_limited(alice):
    worker = make_worker()
    tasks = [make_measured_task(alice, worker, device_s=n / 1000) for n in range(1, 24)]
    history_s = figures_of(tasks)[tasks[-1].pk].history_s
    assert len(history_s) == MOST_TIMES
    assert history_s[-1] == 0.023


def test_small_differences_look_small_in_a_sparkline():
    def height(times_s):
        ys = [float(point.split(",")[1]) for point in sparkline_of(times_s).points.split()]
        return max(ys) - min(ys)

    assert height([1.0, 1.01]) < 1.0 < HEIGHT / 2 < height([1.0, 2.0])
    assert height([0.0, 0.0]) == 0
    assert sparkline_of([1.0]) is None


def test_tasks_without_a_result_have_no_figures_but_their_reason(client, alice):
    waiting = make_waiting_task(alice)
    assert row_text(client, waiting)[6] == ""
    failed = make_waiting_task(alice)
    fail_task(failed, reason="model_invalid", detail="no such operator")
    assert row_text(client, failed)[6] == "MegEngine cannot read the model file."
    running = start_run(alice).task
    assert row_text(client, running)[7].endswith(" s")
    # none of them can be pinned
    assert "data-pin=" not in client.get("/tasks/").text


def test_results_without_some_figures_leave_them_blank(client, alice):
    # without clean pass, of one pass; below the clock's resolution; without profiled pass
    quick = make_measured_task(alice, median_ms=None)
    zero = make_measured_task(alice, device_s=0.0)
    clean = make_measured_task(alice)
    Profile.objects.filter(attempt__task=clean).delete()
    assert row_text(client, quick)[6:8] == ["", "10.0 ms"]
    assert row_text(client, clean)[6:8] == ["12.0 ms", ""]
    for baseline in (zero, clean):
        pin_baseline(baseline)
        assert row_text(client, quick)[9] == ""


def test_retried_task_has_the_figures_of_its_last_attempt(alice):
    task = make_measured_task(alice)
    Attempt.objects.filter(task=task).update(number=2)
    first = Attempt.objects.get(task=task)
    Attempt.objects.create(
        task=task, worker=task.worker, number=1, slot=0, ended_at=first.ended_at,
        lease_expires_at=first.lease_expires_at,
    )  # fmt: skip
    pin_baseline(task)
    figures = figures_of([task])[task.pk]
    assert (figures.device_s, figures.run_s) == (0.01, pytest.approx(65))
    assert figures.baseline.device_s == 0.01


@pytest.mark.parametrize(
    ("cv", "is_disturbed", "noise"),
    [(None, False, None), (0.01, False, "quiet"), (0.05, False, "moderate"),
     (0.3, False, "noisy"), (0.01, True, "noisy"), (None, True, "noisy")],
)  # fmt: skip
def test_noise_has_three_steps(cv, is_disturbed, noise):
    assert noise_of(cv, is_disturbed=is_disturbed) == noise


@pytest.mark.parametrize("name", ["n" * 246 + ".mge", "<b>ń.mge"])
def test_any_file_name_is_shown_and_can_be_pinned(client, alice, name):
    task = make_measured_task(alice, name=name)
    client.post(f"/tasks/{task.pk}/baseline/", {"pin": "yes"})
    page = client.get("/tasks/").text
    assert "<b>ń" not in page
    assert name.replace("<", "&lt;").replace(">", "&gt;") in page
    assert figures_of([task])[task.pk].baseline.task == task.pk


def test_pin_of_the_list_returns_to_its_filters(client, alice):
    task = make_measured_task(alice)
    fields = {"pin": "yes", "query": "status=succeeded&next=https://example.org"}
    answer = client.post(f"/tasks/{task.pk}/baseline/", fields)
    assert answer["Location"] == f"/tasks/?status=succeeded#task-{task.pk}"


def test_tasks_of_a_page_are_grouped_by_model(client, alice):
    worker = make_worker()
    names = ["a.mge", "b.mge", "a.mge"]
    tasks = [make_measured_task(alice, worker, name=name) for name in names]
    page = client.get("/tasks/?group=model").text
    found = re.findall(r'rowgroup"[^>]*><span class="hostile">([^<]+)|<tr data-task="(\d+)"', page)
    a, b, c = (str(task.pk) for task in tasks)
    assert ["".join(each) for each in found] == ["a.mge", c, a, "b.mge", b]


def test_tabs_count_tasks_by_status_and_keep_other_filters(client, alice):
    desk, phone = make_worker("desk"), make_worker("phone")
    for _ in range(3):
        make_measured_task(alice, desk)
    for worker in (desk, phone):
        fail_task(make_waiting_task(alice, worker), reason="model_invalid")
    start_run(alice, worker=phone)
    make_waiting_task(alice, desk)

    def tabs(query=""):
        page = client.get(f"/tasks/?{query}").text
        nav = re.search(r'id="task-tabs".*?</nav>', page, re.DOTALL)[0]
        links = re.findall(r'href="([^"]+)"[^>]*>(.*?)</a>', nav)
        return {re.sub(r"<[^>]*>", "", text): link for link, text in links}

    assert list(tabs()) == ["All 7", "Waiting 1", "Running 1", "Failed 2"]
    assert list(tabs("status=failed")) == list(tabs())
    assert list(tabs("device=phone")) == ["All 2", "Waiting 0", "Running 1", "Failed 1"]
    running = tabs("device=phone&status=failed")["Running 1"]
    assert running == "/tasks/?status=running&amp;device=phone"
    # a text is not counted, because it may have to search all tasks
    assert list(tabs("q=net")) == ["All", "Waiting", "Running", "Failed"]


def test_comparison_of_selected_tasks_starts_with_the_pinned_one(client, alice):
    worker = make_worker()
    tasks = [make_measured_task(alice, worker) for _ in range(3)]
    pin_baseline(tasks[1])
    fields = {"act": "compare", "task": [task.pk for task in tasks]}
    location = client.post("/tasks/act/", fields)["Location"]
    numbers = [Profile.objects.get(attempt__task=tasks[n]).pk for n in (1, 0, 2)]
    assert location.endswith("&".join(f"p={number}" for number in numbers))


@pytest.mark.parametrize("address", ["/tasks/", "/tasks/?group=model", "/api/v1/tasks/"])
def test_number_of_queries_does_not_depend_on_results(client, alice, address):
    def count():
        with CaptureQueriesContext(connection) as queries:
            assert client.get(address).status_code == 200
        return len(queries)

    worker = make_worker()
    pin_baseline(make_measured_task(alice, worker))
    client.get(address)
    first = count()
    for n in range(12):
        pin_baseline(make_measured_task(alice, make_worker(), name=f"{n}.mge"))
    assert count() == first


def test_api_lists_the_figures(client, alice):
    worker = make_worker()
    pinned = make_measured_task(alice, worker, device_s=0.010, device_cv=0.2)
    make_measured_task(alice, worker, device_s=0.012)
    make_waiting_task(alice, worker)
    pin_baseline(pinned)
    waiting, task, first = client.get("/api/v1/tasks/").json()["results"]
    figures = first["figures"]
    assert (figures["latency_p50_ms"], figures["device_total_s"]) == (12.0, 0.010)
    assert (figures["noise"], figures["run_s"]) == ("noisy", pytest.approx(65))
    assert (figures["baseline"], figures["difference"]) == (pinned.pk, None)
    assert task["figures"]["baseline"] == pinned.pk
    assert task["figures"]["difference"] == pytest.approx(0.2)
    assert set(waiting["figures"].values()) == {None, pinned.pk}
