"""Browser tests of script tasks: the form, the page of the task, its files."""

import pytest
from selenium.webdriver.support.ui import Select

from agent.protocol.messages import Script
from tasks.lifecycle.cancel import cancel_task
from tasks.models import Task
from tasks.tests.make import make_user, make_worker
from tasks.tests.scripts import PROGRAM, make_script_task, make_script_worker, program_file, zip_of
from webprofile.tests.browser.form import Form
from workers.models import Runtime

pytestmark = [pytest.mark.exhaustive, pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def devices() -> None:
    make_worker("a-models-only", offers_scripts=True)
    lab = make_script_worker("lab", facts={"cpu_model": "AMD EPYC"})
    Runtime.objects.create(worker=lab, version="1.14.0", kind="binary")


@pytest.fixture
def form(browser, live_server, devices, alice, log_in) -> Form:
    log_in(alice)
    return Form(browser, live_server.url)


@pytest.fixture
def files(tmp_path):
    """Function that creates files and returns their paths by name, one per line."""
    contents = {
        "train.py": PROGRAM,
        "all.zip": zip_of(train="1", lib__net="2"),
        "one.zip": zip_of(app__main="1", app__net="2"),
        "table.csv": b"1,2\n",
        "net.mge": b"a model",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    return lambda *names: "\n".join(str(tmp_path / name) for name in names)


def choose_script(form: Form) -> None:
    form.click("[name=kind][value=script]")


def offered_devices(form: Form) -> dict[str, bool]:
    """Return whether each device can be chosen, by name."""
    options = Select(form.find("#worker")).options
    return {option.text.split(" (")[0]: option.is_enabled() for option in options}


def test_script_is_submitted_by_the_form(form, files, storage):
    form.open()
    assert Select(form.find("#worker")).first_selected_option.text.startswith("a-models-only")
    choose_script(form)
    assert offered_devices(form) == {"a-models-only": False, "lab": True}
    text = form.find("#worker").text
    assert "runs no scripts: not allowed by an administrator" in text
    versions = {option.text: option.is_enabled() for option in form.all("#runtime option")}
    assert versions == {"1.13.0": True, "1.14.0": False}
    for hidden in ("#model", "#measuring", "#options"):
        assert not form.find(hidden).is_displayed()
    assert "without network" in form.text("#script-means")
    form.find("#program").send_keys(files("train.py"))
    form.find("#arguments").send_keys("--name 'two words")
    form.until(lambda: "quotation mark" in form.error("arguments"), "the problem")
    form.find("#arguments").send_keys("'")
    form.until(lambda: form.lines == ["python train.py --name 'two words'"], "the command")
    form.click("[name=formats][value=memory]")
    form.until(lambda: len(form.lines) == 2, "a run for each format")
    form.find("#extra-files").send_keys(files("table.csv", "net.mge"))
    form.click("#extra-files-list li:last-child button")
    form.click("#submit")
    task = form.until(lambda: Task.objects.first(), "the task")
    assert task.script["arguments"] == ["--name", "two words"]
    assert task.script["formats"] == ["chrome_timeline.json", "memory_flow.svg"]
    assert [file.name for file in task.files.all()] == ["train.py", "table.csv"]


def test_missing_fields_are_reported_before_the_upload(form, files):
    form.open_without_command("?kind=script")
    form.until(lambda: form.find("#outlook").text, "the queue")
    form.click("#submit")
    form.until(lambda: "Choose the program" in form.error("program"), "no program")
    form.find("#program").send_keys(files("net.mge"))
    form.click("#submit")
    form.until(lambda: "Choose “Model” above" in form.error("program"), "a model")
    form.find("#program").send_keys(files("all.zip"))
    form.click("[name=formats][value=timeline]")
    form.click("#submit")
    form.until(lambda: "Enter the name of the program" in form.error("entry"), "no entry point")
    assert "Programs in it: train.py, lib/net.py." in form.error("entry")
    assert "Choose what to record" in form.error("formats")
    assert not Task.objects.exists()
    form.click("[name=kind][value=model]")
    assert offered_devices(form) == {"a-models-only": True, "lab": True}
    assert form.find("#model").is_displayed()
    assert not form.find("#program").is_displayed()


def test_restored_form_asks_for_extra_files_again(form, files, storage):
    form.open()
    choose_script(form)
    form.find("#program").send_keys(files("train.py"))
    form.find("#extra-files").send_keys(files("table.csv", "net.mge"))
    for language in ("zh-hans", "en"):
        form.switch_language(language)
        form.until(lambda: "py, table.csv, net" in form.text("#restored-form-files"), "the names")
    form.find("#program").send_keys(files("train.py"))
    form.until(lambda: form.text("#submit-state") == "2 errors", "the state")
    assert "Choose “table.csv” again, or remove it." in form.text("#extra-files-list")
    form.click("#submit")
    form.until(lambda: form.focused == "extra-files", "the way to the field")
    assert not Task.objects.exists()
    form.find("#extra-files").send_keys(files("table.csv"))
    form.click("[aria-label='Remove: net.mge']")
    form.until(lambda: "Ready" in form.text("#submit-state"), "the state")
    form.click("#submit")
    task = form.until(lambda: Task.objects.first(), "the task")
    assert [file.name for file in task.files.all()] == ["train.py", "table.csv"]


def test_entry_point_in_a_zip_is_detected_and_a_missing_one_refused(form, files):
    form.open_without_command("?kind=script")
    entry = form.find("#entry")
    form.find("#program").send_keys(files("one.zip"))
    form.until(lambda: entry.get_attribute("value") == "app/main.py", "the program within")
    assert "Found in the archive: app/main.py." in form.text("#entry-hint")
    entry.send_keys("x")
    form.click("#submit")
    form.until(lambda: "has no “app/main.pyx”" in form.error("entry"), "no such program")
    assert "Programs in it: app/main.py, app/net.py." in form.error("entry")
    assert not Task.objects.exists()
    entry.clear()
    form.find("#program").send_keys(files("train.py"))
    form.until(lambda: not form.find("#entry-status").text, "an empty status")
    assert entry.get_attribute("value") == ""


def test_form_explains_how_to_allow_scripts(browser, live_server, alice, log_in):
    box = make_worker("box")
    log_in(alice)
    form = Form(browser, live_server.url)
    form.open()
    assert not form.find("#no-scripts").is_displayed()
    choose_script(form)
    assert "Ask an administrator." in form.text("#no-scripts")
    assert not form.find("#worker").is_displayed()
    assert not form.find("#submit").is_enabled()
    log_in(make_user("root", is_staff=True))
    form.open_without_command("?kind=script")
    link = form.find("#no-scripts a")
    assert link.get_attribute("href").endswith(f"/admin/workers/worker/{box.pk}/change/")
    assert "neither an administrator nor the device’s owner" in form.text("#no-scripts")


def test_copied_script_fills_the_form_with_its_stored_files(form, alice, storage):
    script = Script(
        entry="train/main.py", arguments=("--name", "two words"), formats=("memory_flow.svg",)
    )
    beside = [program_file(kind="data", name=name) for name in ("table.csv", "gone.csv")]
    task = make_script_task(alice, script=script, files=[program_file(name="all.zip"), *beside])
    cancel_task(task)
    task.files.filter(name="gone.csv").update(purged_at=task.created_at)
    form.open(f"?from={task.pk}")
    form.until(lambda: "all.zip" in form.text("#program-stored"), "the program")
    assert form.find("#entry").get_attribute("value") == "train/main.py"
    assert form.find("#arguments").get_attribute("value") == "--name 'two words'"
    assert [box.is_selected() for box in form.all("[name=formats]")] == [False, True]
    rows = [row.text for row in form.all("#extra-files-list li")]
    assert rows[0].split("\n") == ["table.csv", "Remove"]
    assert "Choose “gone.csv” again, or remove it." in rows[1]
    assert form.find("[name=kind][value=script]").is_selected()
