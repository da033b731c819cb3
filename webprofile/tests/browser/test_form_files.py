"""Browser tests of files in the form: refusals after the upload, earlier results, and Back."""

import time

import numpy as np
import pytest
from django.contrib.sessions.models import Session
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from accounts.models import User
from agent.protocol.inputs import json_inputs
from agent.protocol.pairs import Pairing
from profiles.models import AttemptMeasurement
from tasks.lifecycle.transitions import transition_if
from tasks.models import Task
from tasks.states import Outcome, TaskState
from tasks.submission.request import ArmRequest, PairingRequest
from tasks.submission.uploads import confirm_task, submit_task
from tasks.tests.make import (
    MODEL,
    data_file,
    make_attempt,
    make_task,
    make_user,
    make_worker,
    model_file,
    stored_objects,
)
from webprofile.storage import storage
from webprofile.tests.browser.conftest import DESK, PHONE, resize
from webprofile.tests.browser.form import Form, save
from webprofile.tests.browser.pages import PASSWORD, allow
from webprofile.tests.machine import CHROMIUM, HEADLESS_SHELL
from workers.models import Runtime, Worker

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.object_storage,
]


@pytest.fixture
def form(browser, live_server, settings, log_in) -> Form:
    # the device stays online even on a slow machine
    settings.HEARTBEAT_S = 600
    make_worker("wheel")
    Runtime.objects.filter(worker=make_worker("binary")).update(kind="binary")
    log_in(make_user())
    return Form(browser, live_server.url)


@pytest.fixture
def uploads(storage, settings) -> None:
    """Allow pages to send files to the storage of the test."""
    allow(settings, "connect-src", "'self'", settings.S3_PUBLIC_ENDPOINT_URL)


def test_invalid_model_file_is_refused_when_it_is_chosen(form, tmp_path, model):
    form.open()
    picture = tmp_path / "photo.mge"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    form.find("#model").send_keys(str(picture))
    form.until(lambda: "is a picture" in form.text("#model-status"), "the refusal")
    assert "trace.dump" in form.text("#model-status")
    assert "1" in form.text("#submit-state")
    form.click("#submit")
    form.until(lambda: form.focused == "model", "the way to the field")
    assert not form.find("#transfer").is_displayed()
    form.find("#model").send_keys(str(model))
    form.until(lambda: "Ready: net.mge on binary" in form.text("#submit-state"), "the state")
    assert not form.find("#model").get_attribute("aria-invalid")
    assert not Task.objects.exists()


def test_row_shows_type_and_shape_and_refuses_object_arrays(form, tmp_path):
    form.open()
    choose = form.find("#data-files").send_keys
    choose(str(save(tmp_path, "data.npy", np.zeros((1, 3, 8, 8), "f4"))))
    form.until(lambda: form.row_status == "float32 {1,3,8,8}", "type and shape")
    assert form.find("[name=data-input]").get_attribute("value") == "data"
    columns = np.asfortranarray(np.zeros((2, 3), "f4"))
    form.find("[name=data-file]").send_keys(str(save(tmp_path, "columns.npy", columns)))
    form.until(lambda: "float32 {2,3} in Fortran order" in form.row_status, "the order of axes")
    objects = np.array([{}], dtype=object)
    form.find("[name=data-file]").send_keys(str(save(tmp_path, "objects.npy", objects)))
    form.until(lambda: "Python objects" in form.row_status, "that it is refused")
    form.find("[name=data-file]").send_keys(str(save(tmp_path, "wide.npy", np.zeros(2))))
    form.until(
        lambda: "float64" in form.row_status and "float32" in form.row_status, "the type to take"
    )


def test_data_type_is_checked_for_the_chosen_runtime(form, tmp_path):
    form.open()
    form.choose("#worker", "wheel")
    form.find("#data-files").send_keys(str(save(tmp_path, "ids.npy", np.zeros((2, 3), "i8"))))
    form.until(lambda: form.row_status == "int64 {2,3}", "type and shape")
    form.choose("#worker", "binary")
    form.until(lambda: "compiled load_and_run cannot read" in form.row_status, "that it is refused")
    form.choose("#worker", "wheel")
    form.until(lambda: form.row_status == "int64 {2,3}", "that it is taken again")


def test_several_data_files_are_chosen_at_once(form, tmp_path, model):
    form.open()
    paths = [save(tmp_path, f"{name}.npy", np.zeros((1, 2), "f4")) for name in "abc"]
    form.click("#add-data")
    form.find("#data-files").send_keys("\n".join(map(str, paths)))
    form.until(lambda: len(form.all(".data-row")) == 3, "a row for each, the empty one used")
    names = [field.get_attribute("value") for field in form.all("[name=data-input]")]
    assert names == ["a", "b", "c"]
    form.until(lambda: form.lines and "c:input" in form.lines[0], "all in the command")


def test_file_that_changed_after_it_was_chosen_is_named(form, tmp_path, model):
    form.open()
    form.find("#model").send_keys(str(model))
    paths = [save(tmp_path, f"{name}.npy", np.zeros((1, 2), "f4")) for name in "abc"]
    form.find("#data-files").send_keys("\n".join(map(str, paths)))
    form.until(lambda: len(form.all(".data-row")) == 3, "the rows")
    form.until(lambda: "Ready" in form.text("#submit-state"), "the checked files")
    save(tmp_path, "b.npy", np.zeros((2, 2), "f4"))
    form.click("#submit")
    form.until(lambda: form.find("#form-error").text, "the error")
    assert form.find("#form-error").text.startswith("“b.npy” could not be read.")
    assert not form.find("#transfer").is_displayed()
    assert not Task.objects.exists()


def test_refusal_after_the_upload_creates_no_task_and_can_be_corrected(
    form, model, tmp_path, uploads, monkeypatch
):
    form.open()
    form.find("#model").send_keys(str(model))
    data = tmp_path / "x.json"
    # as a site of another release, of which only the server knows the limit
    monkeypatch.setattr(json_inputs, "LONGEST_JSON", 1 << 20)
    content = '{"a": {"shape": [1], "type": "int8", "raw": [1]}}'
    data.write_text(content + " " * (1 << 20))
    form.find("#data-files").send_keys(str(data))
    error = ".data-row .data-row__error"
    for _ in range(3):
        form.click("#submit")
        form.until(lambda: "is larger than" in form.find(error).text, "the refusal at its row")
        form.until(lambda: form.find("#submit").is_enabled(), "the form again")
        top = form.browser.execute_script(
            "return document.querySelector(arguments[0]).getBoundingClientRect().top", error
        )
        assert 0 < top < DESK[1]
        assert not form.find("#transfer").is_displayed()
        assert not Task.objects.exists()
    data.write_text(content)
    form.find("[name=data-file]").send_keys(str(data))
    form.click("#submit")
    form.until(lambda: form.find("#task-status"), "the task's page")
    assert Task.objects.count() == 1


#: the site handles the first request for a task, but its response is lost
LOSE_ONE_ANSWER = """
const fetchReal = window.fetch;
window.fetch = async (url, options) => {
  const response = await fetchReal(url, options);
  if (!url.endsWith("/api/v1/tasks/")) return response;
  window.fetch = fetchReal;
  throw new TypeError("connection lost");
};
"""


def test_second_try_after_a_lost_answer_creates_no_second_task(form, model, uploads):
    form.open()
    form.find("#model").send_keys(str(model))
    form.browser.execute_script(LOSE_ONE_ANSWER)
    form.click("#submit")
    form.until(lambda: "does not respond" in form.text("#form-error"), "the error")
    form.until(lambda: form.find("#submit").is_enabled(), "the form again")
    assert Task.objects.count() == 1
    form.click("#submit")
    form.until(lambda: form.find("#task-status"), "the task's page")
    assert Task.objects.get().status == "waiting"


def test_other_model_makes_a_paired_comparison(form, model, tmp_path, uploads):
    other = tmp_path / "new.mge"
    other.write_bytes(MODEL)
    model.write_bytes(MODEL)
    form.open()
    form.find("#model").send_keys(str(model))
    form.click("#pairing summary")
    form.find("#other-model").send_keys(str(other))
    form.browser.execute_script("document.getElementById('pairing-margin').value = '0.02'")
    form.until(lambda: "Ready" in form.text("#submit-state"), "the state")
    form.click("#submit")
    form.until(lambda: form.path != "/tasks/new/", "the page of the task")
    task = Task.objects.get()
    assert form.path == f"/tasks/{task.pk}/"
    assert [(file.arm, file.name) for file in task.files.all()] == [(0, "net.mge"), (1, "new.mge")]
    assert task.pairing["margin"] == 0.02
    assert form.find("h1").text == "net.mge ↔ new.mge"


def test_paired_comparison_is_repeated_with_changed_arms(form, model, tmp_path, uploads):
    task = make_task(
        files=[model_file(), model_file(name="b.mge", arm=1), model_file(name="c.mge", arm=2)],
        pairing=PairingRequest(
            Pairing(margin=0.02), (ArmRequest(), ArmRequest(options={"fast_run": True}))
        ),
    )
    for file in task.files.all():
        storage.write(file.object_key, MODEL)
    submit_task(task, stored_objects(task))
    form.open(f"?from={task.pk}")
    form.until(lambda: len(form.lines) == 3, "the commands of three arms")
    assert "--fast_run" in form.lines[2]
    letters = [row.text for row in form.browser.find_elements("css selector", ".arms__letter")]
    assert letters == ["B", "C"]
    form.click("#origin-arms [value='1']")
    form.until(lambda: len(form.lines) == 2, "the commands without arm B")
    form.browser.refresh()
    form.until(lambda: len(form.lines) == 2, "the same commands after a reload")
    assert form.find("#origin-arms").is_displayed()
    other = tmp_path / "new.mge"
    other.write_bytes(MODEL)
    form.find("#other-model").send_keys(str(other))
    form.until(lambda: len(form.lines) == 3, "the commands with the new arm")
    form.until(lambda: "Ready" in form.text("#submit-state"), "the state")
    form.click("#submit")
    form.until(lambda: form.find("#task-status"), "the page of the task")
    copy = Task.objects.get(copied_from=task)
    assert [(file.arm, file.name) for file in copy.files.all()] == [
        (0, "net.mge"),
        (1, "c.mge"),
        (2, "new.mge"),
    ]
    assert copy.pairing["margin"] == 0.02
    assert [arm["options"] for arm in copy.pairing["arms"]] == [{"fast_run": True}, None]


# only the complete browser keeps pages in its cache when a user goes on to the next one
@pytest.mark.parametrize(
    ("browser", "is_cached"),
    [(CHROMIUM, True), (HEADLESS_SHELL, False)],
    ids=["from-cache", "reloaded"],
    indirect=["browser"],
)
def test_form_can_be_sent_again_after_going_back(form, model, tmp_path, uploads, is_cached):
    form.open()
    if not is_cached:
        form.browser.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": True})
        form.browser.execute_script("window.addEventListener('unload', () => {})")
    form.find("#model").send_keys(str(model))
    form.find("#data-files").send_keys(str(save(tmp_path, "x.npy", np.zeros((1, 2), "f4"))))
    form.find("#option-iter").send_keys("7")
    form.until(lambda: any("--iter=7" in line for line in form.lines), "the command")
    form.browser.execute_script("window.unchanged = true")
    form.click("#submit")
    form.until(lambda: form.find("#task-status"), "the task's page")
    form.browser.back()
    form.until(lambda: form.find("#submit").is_enabled(), "the form")
    # the old page from the cache, or a new one
    assert form.browser.execute_script("return window.unchanged ?? false") is is_cached
    assert form.find("#option-iter").get_attribute("value") == "7"
    assert form.find("[name=data-input]").get_attribute("value") == "x"
    assert not form.find("#transfer").is_displayed()
    assert form.find("#title").is_enabled()
    for field, path in (("#model", model), ("[name=data-file]", tmp_path / "x.npy")):
        if not form.find(field).get_attribute("value"):
            form.find(field).send_keys(str(path))
    form.until(lambda: "Ready" in form.text("#submit-state"), "the state")
    form.click("#submit")
    form.until(lambda: form.find("#task-status"), "the page of another task")
    assert Task.objects.count() == 2


def test_form_is_restored_after_a_new_login(form, model, tmp_path):
    form.open()
    form.find("#model").send_keys(str(model))
    form.find("#data-files").send_keys(str(save(tmp_path, "x.npy", np.zeros((1, 2), "f4"))))
    form.find("#title").send_keys("what I tried")
    form.choose("#worker", "binary")
    form.find("#option-iter").send_keys("7")
    # a pending validation would open the dialog before the next letter is typed
    form.until(lambda: form.lines and "--iter=7" in form.lines[-1], "the command line")
    Session.objects.all().delete()
    form.find("#option-iter").send_keys("0")
    form.until(lambda: form.find("#session-ended").is_displayed(), "that the session has ended")
    form.click("#log-in-again")
    form.until(lambda: form.find("[name=login]"), "the login")
    form.find("[name=login]").send_keys("alice@example.com")
    form.find("[name=password]").send_keys(PASSWORD)
    form.click("main form [type=submit]")
    form.until(lambda: form.find("#restored-form").is_displayed(), "the form again")
    assert "net.mge, x.npy" in form.text("#restored-form-files")
    assert form.find("#title").get_attribute("value") == "what I tried"
    assert form.find("#option-iter").get_attribute("value") == "70"
    assert form.find("[name=data-input]").get_attribute("value") == "x"
    chosen = Select(form.find("#worker")).first_selected_option
    assert chosen.get_attribute("data-name") == "binary"
    form.until(
        lambda: "Choose “net.mge” again" in form.text("#model-status"), "the request to choose it"
    )
    form.find("#data-files").send_keys(str(tmp_path / "x.npy"))
    form.until(lambda: form.row_status == "float32 {1,2}", "the file in its row")
    assert len(form.all(".data-row")) == 1
    form.click("#discard-form")
    form.until(lambda: form.find("#title").get_attribute("value") == "", "an empty form")
    assert not form.find("#restored-form").is_displayed()


def test_copied_task_asks_for_files_that_are_not_in_storage(form):
    task = make_task(User.objects.get(), files=[model_file(), data_file()])
    form.open(f"?from={task.pk}")
    form.until(lambda: "Choose “data.npy” again" in form.row_status, "the request")
    assert form.find("[name=data-input]").get_attribute("value") == "data"


def test_restored_form_asks_for_the_other_model_again(form, model, tmp_path):
    other = tmp_path / "new.mge"
    for path in (model, other):
        path.write_bytes(MODEL)
    form.open()
    form.find("#model").send_keys(str(model))
    form.click("#pairing summary")
    form.find("#other-model").send_keys(str(other))
    form.until(lambda: "Ready" in form.text("#submit-state"), "the state")
    for language in ("zh-hans", "en"):
        form.switch_language(language)
        form.until(lambda: "net.mge, new.mge" in form.text("#restored-form-files"), "both names")
    form.find("#model").send_keys(str(model))
    form.until(lambda: "“new.mge” again" in form.text("#other-model-status"), "the request")
    form.until(lambda: form.text("#submit-state") == "1 error", "the state")
    form.click("#submit")
    form.until(lambda: form.focused == "other-model", "the way to the field")
    assert not Task.objects.exists()
    form.click("#remove-other-model")
    form.until(lambda: "Ready" in form.text("#submit-state"), "the form without a comparison")
    other.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    form.find("#other-model").send_keys(str(other))
    form.until(lambda: "is a picture" in form.text("#other-model-status"), "the refusal")


#: Lets timers run fast from now on
FAST = """
    const { setTimeout } = window;
    window.setTimeout = (run, ms) => setTimeout(run, ms / 20);
"""


def test_end_of_the_session_is_told_once(form):
    """The user may close the dialog, for example to copy a text."""
    form.open()
    form.js(FAST)
    Session.objects.all().delete()
    form.js(
        "document.getElementById('versions').dispatchEvent(new Event('input', { bubbles: true }))"
    )
    form.until(lambda: form.find("#session-ended").is_displayed(), "that the session has ended")
    form.until(lambda: form.find("#command-failed").text, "the answer about the command")
    form.until(lambda: not form.all("#outlook[aria-busy]"), "the answer about the queue")
    form.js("document.getElementById('session-ended').close()")
    # 40 s of the page's timers
    time.sleep(2)
    assert not form.find("#session-ended").is_displayed()


def test_language_change_keeps_the_form(form):
    form.open()
    form.find("#title").send_keys("what I tried")
    form.switch_language("zh-hans")
    form.until(lambda: form.find("#title").get_attribute("value"), "the form again")
    assert form.find("#title").get_attribute("value") == "what I tried"


def test_form_opened_by_a_link_is_empty(form):
    form.open()
    form.find("#title").send_keys("an earlier one")
    form.browser.get(f"{form.address}/tasks/")
    form.open()
    assert form.find("#title").get_attribute("value") == ""


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_submit_button_and_state_are_always_visible(form, size):
    resize(form.browser, size)
    form.open()
    for place in (0, 0.5, 1):
        form.browser.execute_script(
            "window.scrollTo(0, arguments[0] * document.documentElement.scrollHeight)", place
        )
        for css in ("#submit", "#submit-state"):
            box = form.find(css).rect
            top = box["y"] - form.browser.execute_script("return window.scrollY")
            assert 0 < top < size[1] - box["height"], (css, place)


def test_script_form_is_hidden_without_a_device_for_scripts(form):
    form.open_without_command("?kind=script")
    form.until(lambda: "runs scripts" in form.text("#submit-state"), "why not")
    assert not form.find("#submit").is_enabled()
    for css in ("#program", "#worker", "#command"):
        assert not form.find(css).is_displayed()
    form.find("[name=kind][value=model]").click()
    form.until(lambda: form.find("#submit").is_enabled(), "the other form")
    assert form.find("#worker").is_displayed()


def test_form_says_that_no_device_is_available(form):
    Worker.objects.update(is_enabled=False)
    form.open_without_command("")
    form.until(lambda: "No device accepts" in form.text("#submit-state"), "why not")
    assert form.find("#no-device").is_displayed()
    assert not form.find("#submit").is_enabled()


@pytest.fixture
def measured(form, uploads, tmp_path) -> Task:
    """A result of the model in `tmp_path`, whose stored file a check can copy."""
    (tmp_path / "net.mge").write_bytes(MODEL)
    task = make_task(User.objects.get(), Worker.objects.get(name="wheel"), files=[model_file()])
    storage.write(task.files.get().object_key, MODEL)
    confirm_task(task)
    AttemptMeasurement.objects.create(attempt=make_attempt(task), median_ms=8.9)
    transition_if(task, TaskState.FINISHED, set(TaskState), outcome=Outcome.SUCCEEDED)
    return task


def submit_again(form: Form, folder) -> None:
    form.open()
    form.choose("#worker", "wheel")
    form.find("#model").send_keys(str(folder / "net.mge"))
    form.until(lambda: "Ready" in form.text("#submit-state"), "a complete form")
    form.click("#submit")
    form.until(lambda: form.find("#earlier").is_displayed(), "the offer")


def test_an_earlier_result_is_offered_before_the_upload(form, measured, tmp_path):
    submit_again(form, tmp_path)
    assert f"by task #{measured.pk}: median latency" in form.text("#earlier-text")
    assert "8.90 ms" in form.text("#earlier-text")
    assert Task.objects.count() == 1
    form.find("#earlier").send_keys(Keys.ESCAPE)
    form.until(lambda: form.find("#submit").is_enabled(), "the form again")
    form.click("#submit")
    form.until(lambda: form.find("#earlier").is_displayed(), "the offer again")
    form.click("#earlier-again")
    form.until(lambda: "/tasks/new/" not in form.browser.current_url, "the new task")
    assert Task.objects.count() == 2
    assert not Task.objects.filter(copied_from=measured).exists()


def test_an_earlier_result_can_be_checked_or_used_without_an_upload(form, measured, tmp_path):
    submit_again(form, tmp_path)
    form.click("#earlier-check")
    form.until(lambda: "/tasks/new/" not in form.browser.current_url, "the check")
    check = Task.objects.get(copied_from=measured)
    assert form.browser.current_url.endswith(f"/tasks/{check.pk}/")
    submit_again(form, tmp_path)
    form.click("#earlier-use")
    form.until(lambda: form.browser.current_url.endswith(f"/tasks/{measured.pk}/"), "the result")
    assert Task.objects.count() == 2
