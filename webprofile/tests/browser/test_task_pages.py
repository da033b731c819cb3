"""Browser tests of the task list and of the page of a task."""

import itertools
import time
from pathlib import Path

import pytest

from profiles.tests.make import make_measured_task
from profiles.tests.pages import make_result
from tasks.baselines import pin_baseline
from tasks.lifecycle.cancel import cancel_task
from tasks.lifecycle.outcomes import fail_task
from tasks.models import Task
from tasks.tests.make import (
    SLOWEST,
    make_task,
    make_waiting_task,
    make_worker,
    model_file,
    receive_report,
    start_run,
    started_report,
)
from testdata import good_profile
from webprofile.storage import storage as object_store
from webprofile.tests.browser.conftest import DESK, PHONE, PageObject, resize
from webprofile.tests.browser.pages import allow

pytestmark = [pytest.mark.exhaustive, pytest.mark.browser, pytest.mark.django_db(transaction=True)]


class Pages(PageObject):
    """The task list, or the page of a task."""

    def open(self, path: str) -> None:
        self.browser.get(self.address + path)

    def row_colour(self, number: int) -> str:
        """Return the colour of a task's row in the list."""
        cell = self.find(f"[data-task='{number}'] .task-table__device")
        return cell.value_of_css_property("background-color")


@pytest.fixture
def pages(browser, live_server, alice, log_in) -> Pages:
    log_in(alice)
    return Pages(browser, live_server.url)


@pytest.fixture
def downloads(storage, settings) -> None:
    """Allow pages to fetch files from the storage of the test."""
    allow(settings, "connect-src", "'self'", settings.S3_PUBLIC_ENDPOINT_URL)


def with_model(task: Task, content: bytes) -> Task:
    file = task.files.get(kind="model")
    object_store.write(file.object_key, content)
    task.files.update(stored_at=task.created_at)
    return task


def state(pages: Pages) -> str:
    return pages.find("#model-graph").get_attribute("data-state")


def test_model_of_a_waiting_or_failed_task_opens_in_the_viewer(pages, alice, downloads, testdata):
    content = (Path(testdata) / "models" / "tiny.mge").read_bytes()
    size = [model_file(size_bytes=len(content))]
    waiting = with_model(make_waiting_task(alice, files=size), content)
    failed = with_model(make_waiting_task(alice, files=size), content)
    fail_task(failed, reason="model_invalid", detail="no such operator")
    for task in (waiting, failed):
        pages.open(f"/tasks/{task.pk}/model/")
        pages.until(lambda: state(pages) == "drawn", "the model")
    pages.open(f"/tasks/{waiting.pk}/")
    pages.find("#tabs [data-view=graph]").click()
    pages.until(lambda: state(pages) == "drawn", "the model on the task's page")
    assert pages.path == f"/tasks/{waiting.pk}/graph/"
    pages.find("#tabs [data-view=details]").click()
    assert pages.find("#about-title").is_displayed()
    assert not pages.find("#log-title").is_displayed()
    pages.js("history.back()")
    pages.until(lambda: pages.find("#model-graph").is_displayed(), "the view before")
    log = pages.browser.get_log("browser")
    assert [entry["message"] for entry in log if "Content Security" in entry["message"]] == []


def test_row_of_a_task_shows_title_options_reason_and_links(pages, alice, storage):
    failed = make_waiting_task(alice, title="with fast run", options={"fast_run": True})
    fail_task(failed, reason="model_invalid", detail="no such operator")
    finished = make_result(good_profile("tiny"), owner=alice).attempt.task
    resize(pages.browser, PHONE)
    pages.open("/tasks/")
    row = pages.find(f"[data-task='{failed.pk}']")
    assert "with fast run" in row.text
    assert "--fast_run" in row.text
    reason = pages.find(f"#reason-{failed.pk}")
    assert "no such operator" in reason.get_attribute("title")
    for link in (reason, pages.find(f"#task-{finished.pk}")):
        box = link.rect
        assert link.text
        assert 0 < box["x"] < box["x"] + box["width"] <= PHONE[0]
    reason.click()
    pages.until(lambda: pages.path == f"/tasks/{failed.pk}/#failure", "why it failed")


#: counts how often the page would send a form
CLICK_TWICE = """
let sent = 0;
document.addEventListener("submit", (event) => {
  sent += event.defaultPrevented ? 0 : 1;
  event.preventDefault();
});
document.getElementById(arguments[0]).click();
document.getElementById(arguments[0]).click();
return sent;
"""


def test_double_click_sends_a_form_once(pages, alice, storage):
    task = make_waiting_task(alice)
    fail_task(task, reason="worker_went_offline")
    pages.open(f"/tasks/{task.pk}/")
    assert pages.js(CLICK_TWICE, "rerun") == 1


def test_list_is_dense_and_fits_the_window(pages, alice, storage):
    worker = make_worker()
    for name in ("n" * 246 + ".mge", *["resnet50.mge"] * 3):
        task = make_measured_task(alice, worker, name=name)
    pin_baseline(task)
    failed = make_waiting_task(alice, worker)
    fail_task(failed, reason="worker_went_offline")
    resize(pages.browser, DESK)
    pages.open("/tasks/")
    # the test's server has no sockets
    pages.js("document.getElementById('connection').remove()")
    places = [row.rect for row in pages.all("#task-rows tbody tr")]
    assert [place["height"] for place in places] == [28] * 5
    assert places[0]["y"] <= 200
    box = pages.find("#task-rows .table-scroll")
    assert pages.js("return arguments[0].scrollWidth - arguments[0].clientWidth", box) == 0
    resize(pages.browser, PHONE)
    pages.open("/tasks/")
    row = pages.find(f"[data-task='{task.pk}']")
    assert all(text in row.text for text in ("resnet50.mge", "succeeded", "12.0 ms"))
    assert "went offline" in pages.find(f"[data-task='{failed.pk}']").text
    assert pages.js("return document.documentElement.scrollWidth") <= PHONE[0]


def test_baseline_is_pinned_and_unpinned_in_the_list(pages, alice, storage):
    worker = make_worker()
    first = make_measured_task(alice, worker, device_s=0.010)
    second = make_measured_task(alice, worker, device_s=0.012)
    pages.open("/tasks/")
    pages.js("window.unchanged = true")
    pages.find(f"#pin-{first.pk}").click()
    row = f"[data-task='{second.pk}']"
    pages.until(lambda: "+20.0 %" in pages.find(row).text, "the difference")
    assert pages.find(f"#pin-{first.pk}").get_attribute("aria-pressed") == "true"
    pages.find(f"#pin-{first.pk}").click()
    pages.until(lambda: "+20.0 %" not in pages.find(row).text, "no difference")
    assert pages.js("return window.unchanged") is True


def test_list_says_why_a_baseline_is_not_pinned(pages, alice, storage):
    task = make_measured_task(alice, make_worker())
    pages.open("/tasks/")
    Task.objects.all().delete()
    pages.find(f"#pin-{task.pk}").click()
    pages.until(lambda: not pages.all(f"[data-task='{task.pk}']"), "the list without it")
    assert pages.find("#pin-problem").text.startswith("Not found, or you don’t have access.")


def test_filters_apply_while_they_are_changed(pages, alice, storage):
    worker = make_worker("desk")
    for name in ("resnet50.mge", "mobilenet.mge"):
        make_measured_task(alice, worker, name=name)
    make_waiting_task(alice, make_worker("phone"))
    pages.open("/tasks/")
    assert len(pages.all("tr[data-task]")) == 3
    pages.find("#id_q").send_keys("resnet")
    pages.until(lambda: len(pages.all("tr[data-task]")) == 1, "the matching task")
    assert pages.path == "/tasks/?q=resnet"
    pages.find("#id_q").clear()
    pages.find("#id_device").send_keys("desk")
    pages.until(lambda: pages.find("#task-tabs").text.split("\n")[0] == "All 2", "the counts")
    assert pages.path == "/tasks/?device=desk"
    # it is saved as it is shown
    pages.find("#save-view summary").click()
    pages.find("#save-view [name=name]").send_keys("on desk\n")
    pages.until(lambda: "on desk" in pages.find("#task-tabs").text, "the saved view")
    assert pages.find("#task-tabs [aria-current]").text == "on desk"


def test_language_change_keeps_filters_and_view(pages, alice):
    """Scripts change the address of a page without loading it again."""
    task = make_waiting_task(alice)
    fail_task(task, reason="worker_went_offline")
    pages.open("/tasks/")
    pages.find("#id_q").send_keys("resnet")
    pages.until(lambda: pages.path == "/tasks/?q=resnet", "the filter in the address")
    pages.find(".language__button").click()
    pages.until(lambda: pages.find("html").get_attribute("lang") == "zh-hans", "Chinese")
    assert pages.path == "/tasks/?q=resnet"
    pages.open(f"/tasks/{task.pk}/")
    pages.find("#tabs [data-view=details]").click()
    pages.until(lambda: pages.path == f"/tasks/{task.pk}/details/", "the other view")
    pages.find(".language__button").click()
    pages.until(lambda: pages.find("html").get_attribute("lang") == "en", "English")
    assert pages.path == f"/tasks/{task.pk}/details/"


def test_no_task_is_ticked_after_returning_to_the_list(pages, alice):
    """Browsers restore ticks by position, and in the meantime another task has taken the place."""
    task = make_waiting_task(alice)
    pages.open("/tasks/")
    # pages with such a listener are loaded again
    pages.js("window.addEventListener('unload', () => {})")
    pages.find(f"#tick-{task.pk}").click()
    pages.find(f"#task-{task.pk}").click()
    pages.until(lambda: pages.all("#task-status"), "the task's page")
    make_waiting_task(alice)
    pages.browser.back()
    pages.until(lambda: len(pages.all("tr[data-task]")) == 2, "both tasks")
    pages.until(lambda: not pages.find("[data-bulk]").is_enabled(), "the script of the list")
    assert not pages.all("[name=task]:checked")
    assert pages.find("#bulk-count").text == "Select tasks for bulk actions"


#: Shows the page after another one, and returns whether a text of the list is still selected
_RETURN = """
    const done = arguments[0];
    const box = document.getElementById("task-rows");
    getSelection().selectAllChildren(box.querySelector(".task-table__model"));
    new MutationObserver(() => {
        if (!box.hasAttribute("aria-busy")) done(String(getSelection()));
    }).observe(box, { attributeFilter: ["aria-busy"] });
    document.dispatchEvent(new Event("visibilitychange"));
"""


def test_list_is_fetched_on_return_and_keeps_what_is_selected(pages, alice):
    """A connection may break unnoticed while a computer sleeps."""
    task = make_waiting_task(alice)
    pages.open("/tasks/")
    pages.until(lambda: not pages.find("[data-bulk]").is_enabled(), "the script of the list")
    pages.browser.set_script_timeout(20)
    # as a minute ago; only the time has changed
    pages.js("document.querySelector('#task-rows [data-ago]').textContent = 'now'")
    assert pages.browser.execute_async_script(_RETURN) == task.model_name
    Task.objects.all().delete()
    pages.browser.execute_async_script(_RETURN)
    assert not pages.all("tr[data-task]")


def test_ring_of_a_cancelled_task_is_round_and_thinner_than_a_digit(pages, alice):
    cancelled = make_waiting_task(alice)
    cancel_task(cancelled)
    pages.open(f"/tasks/{cancelled.pk}/")
    width, height, border = pages.js(RING, pages.find(".badge--cancelled"))
    # a fraction of a pixel is drawn as an oval
    assert width == height == int(width)
    assert border == 1


RING = """
const style = getComputedStyle(arguments[0], "::before");
return [style.width, style.height, style.borderTopWidth].map(parseFloat);
"""


def test_results_are_compared_from_the_task_list(pages, alice, storage):
    first, second = (make_result(good_profile("tiny"), owner=alice) for _ in range(2))
    waiting = make_waiting_task(alice)
    pages.open("/tasks/")
    compare = pages.find("[value=compare]")
    assert not compare.is_enabled()
    pages.find(f"#tick-{first.attempt.task_id}").click()
    pages.find(f"#tick-{waiting.pk}").click()
    assert pages.row_colour(first.attempt.task_id) != pages.row_colour(second.attempt.task_id)
    assert not compare.is_enabled()
    pages.find(f"#tick-{second.attempt.task_id}").click()
    pages.find(f"#tick-{waiting.pk}").click()
    assert compare.is_enabled()
    compare.click()
    pages.until(lambda: pages.path.startswith("/profiles/compare/"), "the comparison")
    assert f"?p={first.pk}&p={second.pk}" in pages.path


@pytest.mark.parametrize("is_scrolled", [False, True], ids=["left-alone", "scrolled"])
def test_task_page_opens_the_result_unless_it_was_scrolled(pages, alice, storage, is_scrolled):
    task = make_result(good_profile("tiny"), owner=alice).attempt.task
    Task.objects.filter(pk=task.pk).update(state="running", outcome="")
    pages.open(f"/tasks/{task.pk}/")
    if is_scrolled:
        resize(pages.browser, (DESK[0], 400))
        pages.browser.execute_script("window.scrollBy(0, 300)")
    Task.objects.filter(pk=task.pk).update(state="finished", outcome="succeeded")
    pages.fetch_state()
    if is_scrolled:
        pages.until(lambda: pages.all("#to-result"), "the end")
        # wait, in case the page opens the result
        pages.browser.execute_async_script("setTimeout(arguments[0], 1000)")
        assert not pages.all("#operator-table")
    else:
        pages.until(lambda: pages.all("#operator-table"), "the result")


def test_task_without_a_stored_model_has_no_link_to_it(pages, alice):
    task = make_task(alice)
    pages.open("/tasks/")
    assert pages.find(f"[data-task='{task.pk}']")
    assert not pages.all(f"#model-{task.pk}")
    pages.open(f"/tasks/{task.pk}/model/")
    assert "not been uploaded yet" in pages.find("#model-reason").text


def test_running_task_shows_its_steps_and_first_operators_as_they_come(pages, alice):
    attempt = start_run(alice, passes_done=3)
    pages.open(f"/tasks/{attempt.task_id}/")
    assert pages.browser.title.startswith("▶ 4/8 net · ")
    assert pages.find("[aria-current=step]").text == "Profiled pass 1 of 5"
    assert not pages.all("#first-operators")
    report = started_report(attempt, passes=8, passes_done=4, slowest=SLOWEST)
    receive_report(attempt, report)
    pages.fetch_state()
    pages.until(lambda: pages.all("#first-operators"), "the first operators")
    assert pages.browser.title.startswith("▶ 5/8 net · ")
    assert pages.find("[aria-current=step]").text == "Profiled pass 2 of 5"
    assert pages.find("#first-operators-mark").text == "1 of 5 passes"
    rows = [row.text for row in pages.all("#first-operators tbody tr")]
    assert rows == [
        "1 conv(data,conv1.weight)[493] ConvolutionForward 1.95 ms 14.2 %",
        "2 <i>relu</i>[2] <b>Elemwise</b> 1.11 ms 8.0 %",
    ]
    for size in (PHONE, DESK):
        resize(pages.browser, size)
        assert pages.js("return document.documentElement.scrollWidth") <= size[0]


ADD_LOG = """
const [pieces, done] = arguments;
const { LogPane } = await import("/static/js/tasks/detail/log_pane.js");
const part = (id) => document.getElementById(id);
const log = new LogPane(part("log"), { empty: part("log-empty"), cut: part("log-cut") });
pieces.forEach((text, at) => log.add({ id: at + 1, attempt: 1, text }));
done();
"""


def test_log_is_shown_by_step(pages, alice):
    attempt = start_run(alice, passes_done=1)
    pages.open(f"/tasks/{attempt.task_id}/")
    log = (
        "==== model inputs: load_and_run a\n| INPUT |\n"
        "==== latency 1 of 3, try 2: load_and_run b\niter 1/5\n"
        "==== profile 1 of 5: load_and_run c\nend\n==== ="
    )
    script = "(async (...arguments) => {" + ADD_LOG + "})(...arguments)"
    # each letter is a piece, so that headings come in parts
    pages.browser.execute_async_script(script, list(log))
    titles = [title.text for title in pages.all("#log summary")]
    assert titles == ["Inspect model inputs", "Latency pass 1 of 3, try 2", "Profiled pass 1 of 5"]
    texts = [text.get_attribute("textContent") for text in pages.all("#log .log__text")]
    assert "".join(texts) == log
    assert texts[2] == "==== latency 1 of 3, try 2: load_and_run b\niter 1/5\n"
    pages.find("#log summary").click()
    assert not pages.all("#log details")[0].get_attribute("open")


#: Runs timers fast, and returns how often the status is fetched
_COUNT_FETCHES = """
    const { setTimeout, fetch } = window;
    window.setTimeout = (run, ms) => setTimeout(run, ms / 10);
    window.fetches = 0;
    window.fetch = (...args) => {
        window.fetches += 1;
        return fetch(...args);
    };
    document.dispatchEvent(new Event("visibilitychange"));
"""


def test_page_of_a_task_that_was_deleted_says_so_and_fetches_nothing_more(pages, alice):
    task = make_waiting_task(alice)
    pages.open(f"/tasks/{task.pk}/")
    # the test's server has no sockets, which the page would tell again and again
    pages.until(lambda: pages.find("#connection").is_displayed(), "the lost connection")
    Task.objects.all().delete()
    pages.js(_COUNT_FETCHES)
    pages.until(lambda: "Task not found" in pages.find("#connection").text, "that it is gone")
    # 20 s of the page's timers
    time.sleep(2)
    assert pages.js("return window.fetches") <= 2


_PACED = """
    const [seconds, done] = arguments;
    const times = [];
    const { src } = document.querySelector("script[src*='tasks/detail/page']");
    const { statusUrl } = document.getElementById("task").dataset;
    import(src.replace("tasks/detail/page", "refresher")).then(({ makeRefresher }) => {
        const url = () => { times.push(performance.now()); return statusUrl; };
        const refresh = makeRefresher(document.createElement("div"), url, { delayMs: 10 });
        refresh();
        const calls = setInterval(() => refresh(1500), 50);
        setTimeout(() => { clearInterval(calls); refresh(); }, 1000 * seconds);
        setTimeout(() => done(times), 1000 * seconds + 1000);
    });
"""


def test_ends_of_passes_are_shown_with_pauses_and_other_changes_at_once(pages, alice):
    pages.open(f"/tasks/{make_waiting_task(alice).pk}/")
    pages.browser.set_script_timeout(60)
    # at 0 s, about 1.6 and 3.2 s, and at once after 4 s; a slow machine may lack one
    *paced_ms, last_ms = pages.browser.execute_async_script(_PACED, 4)
    assert 2 <= len(paced_ms) <= 3
    assert min(later - earlier for earlier, later in itertools.pairwise(paced_ms)) > 1500
    assert last_ms - paced_ms[-1] < 1500
