"""Browser tests of the inputs of a model: read from its file, and compared with what is given."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from selenium.webdriver.support.ui import Select

from accounts.models import User
from tasks.models import Task
from tasks.submission.request import InputRequest
from tasks.tests.make import make_task, make_user, make_worker, model_file
from testdata import DATA
from webprofile.storage import storage as object_store
from webprofile.tests.browser.conftest import PHONE, block_urls, resize
from webprofile.tests.browser.form import Form, save
from webprofile.tests.browser.pages import allow

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

MODELS = DATA / "models"


@pytest.fixture
def form(browser, live_server, settings, log_in) -> Form:
    # the device stays online even on a slow machine
    settings.HEARTBEAT_S = 600
    make_worker("wheel")
    log_in(make_user())
    form = Form(browser, live_server.url)
    form.open()
    return form


def choose_model(form: Form, name: str = "two_inputs.mge") -> None:
    form.find("#model").send_keys(str(MODELS / name))
    form.until(lambda: "MegEngine model" in form.text("#model-status"), "the model")


def choose_data(form: Form, folder: Path, name: str, array: np.ndarray) -> None:
    form.find("#data-files").send_keys(str(save(folder, name, array)))


def listed(form: Form) -> list[str]:
    return [item.text.replace("\n", " ") for item in form.all(".model-input")]


def state(form: Form) -> str:
    return form.find("#submit-state").text


def test_inputs_of_the_model_are_listed_when_it_is_chosen(form):
    block_urls(form.browser, "*/api/*", "*/tasks/*")
    choose_model(form)
    assert [text.removesuffix(" Set values") for text in listed(form)] == [
        "mask float32 {2,1,32,32} random values",
        "data float32 {2,3,32,32} random values",
    ]
    # another model replaces the list
    form.find("#model").send_keys(str(MODELS / "hostile_names.mge"))
    form.until(lambda: "<script>alert(1)</script>" in listed(form)[0], "its name as text")


def test_data_is_matched_to_the_inputs_by_name(form, tmp_path):
    choose_data(form, tmp_path, "mask.npy", np.zeros((2, 1, 32, 32), "f4"))
    form.until(lambda: form.row_status == "float32 {2,1,32,32}", "type and shape")
    choose_model(form)
    form.until(lambda: form.row_status.endswith("as in the model"), "that they match")
    assert listed(form)[0] == "mask float32 {2,1,32,32} mask.npy"
    assert "Ready" in state(form)


def test_wrong_name_is_told_at_once_and_mended_by_a_click(form, tmp_path):
    choose_model(form)
    choose_data(form, tmp_path, "images.npy", np.zeros((2, 3, 32, 32), "f4"))
    form.until(lambda: "has no input “images”" in form.row_status, "the wrong name")
    assert "mask float32 {2,1,32,32}, data float32 {2,3,32,32}" in form.row_status
    form.until(lambda: state(form) == "1 error", "the state")
    form.click("#submit")
    form.until(lambda: "data-input" in form.focused, "the way to the name")
    assert not Task.objects.exists()
    # the input of the same shape comes first
    offered = [button.text for button in form.all(".data-row__uses button")]
    assert offered == ["Use images.npy as data", "Use images.npy as mask"]
    form.click(".data-row__uses button")
    form.until(lambda: form.row_status.endswith("as in the model"), "that it matches")
    assert form.find("[name=data-input]").get_attribute("value") == "data"
    assert not form.find(".data-row__uses").is_displayed()
    form.until(lambda: "Ready" in state(form), "the state")


def test_wrong_type_is_refused_and_another_shape_is_only_told(form, tmp_path):
    choose_model(form)
    choose_data(form, tmp_path, "data.npy", np.zeros((2, 3, 32, 32), "i4"))
    form.until(lambda: "float32 in the model, but int32 here" in form.row_status, "the type")
    assert state(form) == "1 error"
    array = np.zeros((4, 3, 32, 32), "f4")
    other = tmp_path / "other"
    other.mkdir()
    form.find("[name=data-file]").send_keys(str(save(other, "data.npy", array)))
    form.until(lambda: "{2,3,32,32} in the model" in form.row_status, "the shape")
    form.until(lambda: "Ready" in state(form), "the state")
    # the device repeats data to the batch size, so that the first axis does not matter
    form.find("#option-batch_size").send_keys("8")
    form.until(lambda: form.row_status.endswith("as in the model"), "that it matches")


def test_typed_numbers_and_random_values_are_compared(form):
    choose_model(form)
    form.click(".model-input:last-child button")
    assert form.find("[name=data-input]").get_attribute("value") == "data"
    mode = Select(form.find("[name=data-mode]"))
    mode.select_by_value("numbers")
    form.find("[name=data-numbers]").send_keys("1,2")
    form.until(lambda: "Write 1.0 instead of 1" in form.row_status, "the type of the numbers")
    mode.select_by_value("random")
    Select(form.find("[name=data-dtype]")).select_by_value("int8")
    form.until(lambda: "but int8 here" in form.row_status, "the other type")
    Select(form.find("[name=data-dtype]")).select_by_value("float32")
    form.find("[name=data-shape]").send_keys("2,3,8,8")
    form.until(lambda: "{2,3,32,32} in the model" in form.row_status, "the other shape")
    form.find("[name=data-input]").send_keys("set")
    form.until(lambda: "no input “dataset”" in form.row_status, "the wrong name")
    form.click(".data-row__remove")
    form.until(lambda: "Ready" in state(form), "the state")


def test_json_names_are_compared(form, tmp_path):
    choose_model(form)
    entry = '{"shape": [1], "type": "float32", "raw": [1]}'
    (tmp_path / "inputs.json").write_text(f'{{"data": {entry}, "label": {entry}}}')
    form.find("#data-files").send_keys(str(tmp_path / "inputs.json"))
    form.until(lambda: "no input “label”" in form.row_status, "the wrong name")
    assert listed(form)[1] == "data float32 {2,3,32,32} inputs.json"
    assert not form.find(".data-row__uses").is_displayed()


@pytest.mark.parametrize("name", ["tiny_fbs1.mge", "packed.mge"])
def test_inputs_of_another_format_are_left_to_the_device(form, tmp_path, name):
    (tmp_path / "packed.mge").write_bytes(b"packed_model" + bytes(20))
    choose_model(form, name if name != "packed.mge" else str(tmp_path / name))
    status = form.text("#model-status")
    assert "A format other than FBS_V2: the device determines which inputs the model has" in status
    assert not form.find("#model-inputs").is_displayed()
    choose_data(form, tmp_path, "anything.npy", np.zeros((1, 2), "f4"))
    form.until(lambda: form.row_status == "float32 {1,2}", "type and shape")
    assert "Ready" in state(form)


def test_damaged_model_is_left_to_the_device(form):
    form.find("#model").send_keys(str(DATA / "bad" / "models" / "flipped_64.mge"))
    form.until(lambda: "could not be read in the browser" in form.text("#model-status"), "the note")
    assert not form.find("#model-inputs").is_displayed()
    assert "Ready" in state(form)


def test_no_model_is_told_at_once(form, tmp_path):
    (tmp_path / "x.mge").write_bytes(bytes(range(256)) * 8)
    form.find("#model").send_keys(str(tmp_path / "x.mge"))
    form.until(lambda: "“x.mge” is not a MegEngine model" in form.text("#model-status"), "it")
    form.until(lambda: state(form) == "1 error", "the state")


def test_presets_set_and_clear_options(form):
    def pressed() -> str:
        return form.text("#option-presets [aria-pressed=true]")

    assert pressed() == "Defaults"
    form.find("#option-iter").send_keys("7")
    form.click("#option-presets button:nth-child(2)")
    line = "--enable_fuse_conv_bias_nonlinearity"
    form.until(lambda: form.lines and line in form.lines[-1], "its options")
    assert "--optimize_for_inference" in form.lines[-1]
    assert "--iter=7" in form.lines[-1]
    assert pressed() == "Inference"
    form.click("#option-presets button:nth-child(3)")
    form.until(lambda: form.lines and "--fast_run" in form.lines[-1], "the other one's")
    assert pressed() == "Fastest algorithms"
    form.click("#option-fast_run")
    form.until(lambda: not form.all("#option-presets [aria-pressed=true]"), "that none is set")
    form.click("#option-presets button:nth-child(1)")
    form.until(lambda: form.lines and "--iter" not in form.lines[-1], "the defaults")
    assert "optimize_for_inference" not in form.lines[-1]


def test_two_tabs_keep_their_own_forms(form, tmp_path):
    first = form.browser.current_window_handle
    form.find("#title").send_keys("first")
    # its storage begins as a copy of the first tab's
    form.js("window.open(location.href)")
    form.browser.switch_to.window(form.browser.window_handles[-1])
    form.until(lambda: form.lines, "the command line")
    assert form.find("#title").get_attribute("value") == ""
    form.find("#title").send_keys("second")
    form.browser.refresh()
    form.until(lambda: form.find("#title").get_attribute("value") == "second", "its own title")
    form.browser.close()
    form.browser.switch_to.window(first)
    form.browser.refresh()
    form.until(lambda: form.find("#title").get_attribute("value") == "first", "the other title")


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_long_names_fit_a_phone(form, tmp_path, language):
    form.browser.add_cookie({"name": "django_language", "value": language})
    resize(form.browser, PHONE)
    form.open()
    form.find("#model").send_keys(str(MODELS / "hostile_names.mge"))
    choose_data(form, tmp_path, f"{'n' * 240}.npy", np.zeros((2, 16), "f4"))
    form.until(lambda: form.all(".data-row__uses button"), "the offer")
    assert not form.is_too_wide()
    assert form.console_errors() == []


@pytest.mark.object_storage
def test_matched_data_is_sent_for_its_input(form, tmp_path, storage, settings):
    allow(settings, "connect-src", "'self'", settings.S3_PUBLIC_ENDPOINT_URL)
    form.open()
    choose_model(form)
    choose_data(form, tmp_path, "images.npy", np.zeros((2, 3, 32, 32), "f4"))
    form.until(lambda: form.all(".data-row__uses button"), "the offer")
    form.click(".data-row__uses button")
    form.until(lambda: "Ready" in state(form), "the state")
    form.click("#submit")
    form.until(lambda: form.all("#task-status"), "the task's page")
    assert [file.input for file in Task.objects.get().files.filter(kind="data")] == ["data"]


@pytest.mark.object_storage
def test_form_without_javascript_submits_a_task(form, storage):
    form.browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    form.browser.refresh()
    for css in ("#add-data", "#option-presets", "#command"):
        assert not form.find(css).is_displayed(), css
    form.find("#model").send_keys(str(MODELS / "two_inputs.mge"))
    form.find("#title").send_keys("plain")
    form.find("#submit").click()
    form.until(lambda: form.all("#task-status"), "the task's page")
    task = Task.objects.get()
    assert (task.title, task.model_name) == ("plain", "two_inputs.mge")


def test_inputs_of_a_stored_model_are_read_from_storage(form, storage, settings):
    allow(settings, "connect-src", "'self'", settings.S3_PUBLIC_ENDPOINT_URL)
    content = (MODELS / "two_inputs.mge").read_bytes()
    file = model_file(
        name="two_inputs.mge", size_bytes=len(content), md5=hashlib.md5(content).hexdigest()
    )
    task = make_task(
        User.objects.get(), files=[file], inputs=(InputRequest("image", shape=(2, 3, 32, 32)),)
    )
    row = task.files.get()
    object_store.write(row.object_key, content)
    task.files.update(stored_at=task.created_at)
    form.open_without_command(f"?from={task.pk}")
    form.until(lambda: "has no input “image”" in form.row_status, "the wrong name")
    assert listed(form)[0].startswith("mask float32 {2,1,32,32}")
    form.all(".data-row__uses button")[0].click()
    form.until(lambda: form.find(".data-row [name=data-input]").get_property("value") == "data")
    # the form that is restored after a reload knows them, too
    form.browser.refresh()
    form.until(lambda: len(listed(form)) == 2, "the inputs")
    # a chosen file replaces the stored one
    form.find("#model").send_keys(str(MODELS / "tiny.mge"))
    form.until(lambda: listed(form)[0].startswith("data float32 {2,8}"), "its inputs")


def test_form_submits_if_a_stored_model_cannot_be_read(form, storage):
    task = make_task(User.objects.get(), files=[model_file()])
    task.files.update(stored_at=task.created_at)
    form.open_without_command(f"?from={task.pk}")
    form.until(lambda: "The device will read them" in form.text("#model-status"), "the reason")
    assert listed(form) == []
