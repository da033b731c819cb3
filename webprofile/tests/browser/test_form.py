"""Browser tests of the form for a new task before it is submitted."""

import hashlib
import re

import pytest
from selenium.webdriver.support.ui import Select

from agent.protocol.options import OPTIONS
from agent.protocol.plan import Plan
from tasks.models import OptionPreset, Task
from tasks.submission.request import InputRequest
from tasks.tests.make import (
    MODEL,
    data_file,
    make_task,
    make_worker,
    model_file,
    npy_bytes,
    set_last_heartbeat,
)
from webprofile.storage import storage as object_store
from webprofile.tests.browser.conftest import PHONE, resize, set_cookie
from webprofile.tests.browser.form import Form
from workers.models import Runtime, Worker

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def devices(settings) -> None:
    # devices stay online even on a slow machine
    settings.HEARTBEAT_S = 600
    make_worker("wheel", facts={"cpu_model": "AMD EPYC"})
    binary = make_worker("binary")
    fields = {"kind": "binary", "builds": ["cuda"], "libraries": ["mine"]}
    Runtime.objects.filter(worker=binary).update(**fields)


@pytest.fixture
def form(browser, live_server, devices, alice, log_in) -> Form:
    log_in(alice)
    return Form(browser, live_server.url)


@pytest.mark.exhaustive
def test_unsupported_options_are_disabled_with_the_reason(form):
    form.open()
    form.choose("#worker", "wheel")
    form.expand()
    why = "#check_dispatch-why"
    form.until(lambda: "compiled load_and_run" in form.find(why).text, "the reason")
    assert not form.find("#option-check_dispatch").is_enabled()
    assert "AMD" in form.text("#enable_nchw88-why")
    assert "CUDA" in form.text("#enable_nchw4-why")
    form.choose("#worker", "binary")
    form.until(lambda: form.find("#option-check_dispatch").is_enabled(), "a switch to use")
    assert not form.find(why).is_displayed()
    assert form.find("#option-enable_nchw4").is_enabled()
    form.choose("#option-c_opr_lib", "mine")
    form.until(lambda: "--c_opr_lib=mine" in form.lines[0], "the library in the command")


@pytest.mark.exhaustive
def test_command_line_is_updated_and_problems_are_shown_at_their_options(form):
    form.open()
    form.find("#option-iter").send_keys("7")
    form.until(lambda: "--iter=7" in form.lines[-1], "the option in the command")
    form.click("#option-fast_run")
    form.expand()
    form.click("#option-full_run")
    form.until(lambda: "cannot be combined" in form.error("fast_run"), "the problem")
    assert "cannot be combined" in form.error("full_run")
    assert form.lines == []
    form.click("#option-full_run")
    form.until(lambda: form.lines and "--fast_run" in form.lines[0], "the command again")
    assert form.error("fast_run") == ""


def test_switch_that_is_on_by_default_can_be_turned_off(form):
    form.open()
    form.expand()
    assert "--no_sanity_check" in form.lines[0]
    assert form.find("#option-no_sanity_check").is_selected()
    form.click("#option-no_sanity_check")
    form.until(lambda: form.lines and "--no_sanity_check" not in form.lines[0], "it gone")


@pytest.mark.exhaustive
def test_option_search_finds_names_and_words_of_both_languages(form):
    form.open()
    at_first = form.visible_options()
    assert 3 <= len(at_first) <= 7
    search = form.find("#option-search")
    for words, expected in (("nchw88", "enable_nchw88"), ("Winograd", "weight_preprocess"),
                            ("残差", "enable_fuse_conv_bias_with_z")):  # fmt: skip
        search.clear()
        search.send_keys(words)
        form.until(lambda expected=expected: expected in form.visible_options(), expected)
        assert len(form.visible_options()) < 6
        assert f"of {sum(o.kind != 'agent' for o in OPTIONS.values())}" in form.text(
            "#option-count"
        )
    search.clear()
    search.send_keys("no such thing")
    form.until(lambda: form.find("#option-none").is_displayed(), "that nothing was found")
    search.clear()
    search.send_keys(" ")
    form.until(lambda: form.visible_options() == at_first, "the groups closed again")


@pytest.mark.exhaustive
def test_plan_values_are_shown_only_for_a_custom_plan(form):
    form.open()
    fields = form.find("#custom-plan")
    assert not fields.is_displayed()
    form.click("[name=preset][value=standard]")
    form.until(lambda: len(form.lines) == 2, "two kinds of passes")
    assert not fields.is_displayed()
    form.click("[name=preset][value=custom]")
    assert fields.is_displayed()
    form.find("[name=profiled]").clear()
    form.find("[name=profiled]").send_keys("0")
    form.until(
        lambda: len(form.lines) == 1 and "profile" not in form.lines[0], "a clean pass alone"
    )


@pytest.mark.exhaustive
def test_ragged_input_is_reported_at_its_row(form):
    form.open()
    form.click("#add-data")
    Select(form.find("[name=data-mode]")).select_by_value("numbers")
    form.find("[name=data-input]").send_keys("x")
    form.find("[name=data-numbers]").send_keys("[[1,2],[3]]")
    row_error = ".data-row .data-row__error"
    form.until(lambda: "different lengths" in form.find(row_error).text, "the problem")
    form.find("[name=data-numbers]").clear()
    form.find("[name=data-numbers]").send_keys("[[1,2],[3,4]]")
    form.until(lambda: form.lines and "x:input_0.npy" in form.lines[0], "the input")
    assert not form.find(row_error).is_displayed()


def test_json_file_needs_no_variable(form, tmp_path):
    form.open()
    (tmp_path / "inputs.json").write_text("{}")
    form.click("#add-data")
    form.find("[name=data-file]").send_keys(str(tmp_path / "inputs.json"))
    assert not form.find("[name=data-input]").is_enabled()
    form.until(lambda: "input-0.json" in form.lines[0], "the file in the command")


@pytest.mark.exhaustive
def test_set_option_is_kept_when_the_device_does_not_support_it(form):
    form.open()
    form.choose("#worker", "binary")
    form.expand()
    form.until(lambda: form.find("#option-check_dispatch").is_enabled(), "a switch to use")
    form.click("#option-check_dispatch")
    form.click("#option-enable_nchw4")
    form.until(lambda: form.lines and "--check_dispatch" in form.lines[0], "the option")
    summary = form.find("#form-impossible")
    assert not summary.is_displayed()
    form.choose("#worker", "wheel")
    form.until(lambda: "compiled load_and_run" in form.error("check_dispatch"), "the reason")
    assert "CUDA" in form.error("enable_nchw4")
    assert form.lines == []
    assert "2 (" in summary.text
    assert {"check_dispatch", "enable_nchw4"} <= set(re.findall(r"\w+", summary.text))
    # neither another invalid value nor a search hides them
    form.find("#option-iter").send_keys("x")
    form.until(lambda: "integer" in form.error("iter"), "the other problem")
    assert "compiled load_and_run" in form.error("check_dispatch")
    form.find("#option-search").send_keys("nchw88")
    form.until(lambda: "enable_nchw88" in form.visible_options(), "the search")
    assert form.find("#option-check_dispatch").is_displayed()
    form.find("#option-search").clear()
    form.find("#option-search").send_keys(" ")
    form.expand()
    form.find("#option-iter").clear()
    for name in ("check_dispatch", "enable_nchw4"):
        assert form.find(f"#option-{name}").is_selected()
        form.click(f"#option-{name}")
    form.until(lambda: form.lines and "check_dispatch" not in form.lines[0], "it gone")
    assert not summary.is_displayed()
    assert form.error("check_dispatch") == ""


@pytest.mark.exhaustive
def test_form_is_not_sent_without_the_chosen_library(form, model):
    Runtime.objects.filter(worker__name="wheel").update(libraries=["other"])
    form.open()
    form.choose("#worker", "binary")
    form.expand()
    form.until(lambda: len(form.all("#option-c_opr_lib option")) == 2, "the library")
    form.choose("#option-c_opr_lib", "mine")
    form.until(lambda: form.lines and "--c_opr_lib=mine" in form.lines[0], "it in the command")
    form.find("#model").send_keys(str(model))
    form.choose("#worker", "wheel")
    form.until(lambda: form.error("c_opr_lib"), "that it is not there")
    assert "c_opr_lib" in form.text("#form-impossible")
    form.click("#submit")
    form.until(lambda: form.focused == "option-c_opr_lib", "the way to the problem")
    assert not form.find("#transfer").is_displayed()
    assert not Task.objects.exists()
    form.choose("#option-c_opr_lib", form.text("#option-c_opr_lib option"))
    form.until(lambda: form.lines and "c_opr_lib" not in form.lines[0], "it gone")
    assert form.error("c_opr_lib") == ""


def test_copied_task_shows_unsupported_options(form, alice):
    binary = Worker.objects.get(name="binary")
    old = make_task(alice, binary, options={"check_dispatch": True, "c_opr_lib": "mine"})
    set_last_heartbeat(None, binary.pk)
    form.open_without_command(f"?from={old.pk}")
    form.until(lambda: "compiled load_and_run" in form.error("check_dispatch"), "the reason")
    form.until(lambda: form.error("c_opr_lib"), "the other reason")
    library = "#option-c_opr_lib"
    form.until(lambda: Select(form.find(library)).first_selected_option.text == "mine", "its name")
    assert "2 (" in form.text("#form-impossible")


def test_number_beyond_json_is_reported_at_its_field(form, model):
    form.open()
    form.find("#option-iter").send_keys("1e999")
    form.until(lambda: "integer" in form.error("iter"), "the problem")
    form.find("#model").send_keys(str(model))
    form.click("#submit")
    form.until(lambda: form.focused == "option-iter", "the way to the problem")
    assert not form.find("#transfer").is_displayed()
    assert "integer" in form.error("iter")
    assert not Task.objects.exists()


@pytest.mark.exhaustive
def test_large_number_keeps_all_digits(form, model, storage):
    form.open()
    form.choose("#worker", "wheel")
    form.expand()
    form.find("#option-workspace_limit").send_keys("9223372036854775807")
    form.until(lambda: "=9223372036854775807" in " ".join(form.lines), "the number as typed")
    form.find("#model").send_keys(str(model))
    form.click("#submit")
    form.until(Task.objects.exists, "the task")
    assert Task.objects.get().options == {"workspace_limit": 2**63 - 1}


def test_copied_task_is_submitted_without_an_upload(form, alice, storage):
    contents = {"net.mge": MODEL, "data.npy": npy_bytes()}
    data = data_file(
        size_bytes=len(contents["data.npy"]), md5=hashlib.md5(contents["data.npy"]).hexdigest()
    )
    old = make_task(
        alice,
        files=[model_file(), data],
        options={"iter": 7, "no_sanity_check": False},
        plan=Plan(
            preset="custom",
            clean=True,
            clean_passes=4,
            clean_min_s=0.5,
            budget_s=30,
            half_width=0.02,
            profiled=2,
        ),
        inputs=(InputRequest("x", shape=(2, 3), dtype="int8"), InputRequest("y", literal="1,2")),
        seed=9_007_199_254_740_993,
        time_limit_s=90,
    )
    for file in old.files.all():
        object_store.write(file.object_key, contents[file.name])
    old.files.update(stored_at=old.created_at)
    form.open(f"?from={old.pk}")
    form.until(lambda: any("--iter=7" in line for line in form.lines), "the old option")
    assert form.text("#model-stored") == f"Using net.mge from task #{old.pk}"
    # the browser's own "No file chosen" is hidden
    assert form.find("#model").value_of_css_property("color") == "rgba(0, 0, 0, 0)"
    form.find("#option-warmup_iter").send_keys("2")
    form.click("#submit")
    form.until(lambda: Task.objects.count() == 2, "the new task")
    old.refresh_from_db()
    copy = Task.objects.exclude(pk=old.pk).get()
    assert copy.options == {"iter": 7, "warmup_iter": 2, "no_sanity_check": False}
    assert (copy.plan, copy.inputs, copy.seed) == (old.plan, old.inputs, old.seed)
    assert copy.time_limit_s == 90
    assert copy.copied_from == old
    assert [f.name for f in copy.files.all()] == ["net.mge", "data.npy"]


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_form_with_all_options_fits_a_phone(form, language):
    resize(form.browser, PHONE)
    set_cookie(form.browser, form.address, "django_language", language)
    form.open()
    form.expand()
    form.click("#add-data")
    assert not form.is_too_wide()
    assert form.console_errors() == []


@pytest.mark.exhaustive
def test_own_preset_of_options_is_saved_used_and_deleted(form, alice):
    form.open()
    form.choose("#worker", "wheel")
    form.expand()
    form.find("#option-iter").send_keys("7")
    form.find("#own-preset summary").click()
    form.find("#preset-name").send_keys("seven\n")
    own = "#option-presets [data-preset]"
    form.until(lambda: form.all(own), "the preset")
    assert form.find(own).get_attribute("aria-pressed") == "true"
    assert OptionPreset.objects.get().options["iter"] == 7
    assert not Task.objects.exists()
    # it stands before the presets of the site
    assert form.all("#option-presets button")[0].text == "seven"
    form.all("#option-presets [data-options]")[0].click()
    form.until(lambda: not form.find("#option-iter").get_property("value"), "the defaults")
    form.open()
    form.find(own).click()
    form.expand()
    assert form.find("#option-iter").get_property("value") == "7"
    form.find("#own-preset summary").click()
    form.find("#preset-save").click()
    form.until(lambda: form.find("#preset-problem").text, "that it needs a name")
    form.find("#preset-remove").click()
    form.until(lambda: not form.all(own), "its end")
    assert not OptionPreset.objects.exists()


@pytest.mark.exhaustive
def test_own_preset_that_another_tab_deleted_can_be_deleted(form, alice):
    OptionPreset.objects.create(owner=alice, name="seven", options={"iter": 7})
    form.open()
    own = "#option-presets [data-preset]"
    form.find(own).click()
    OptionPreset.objects.all().delete()
    form.find("#own-preset summary").click()
    form.find("#preset-remove").click()
    form.until(lambda: not form.all(own), "its end")
    assert form.find("#preset-problem").text == ""
