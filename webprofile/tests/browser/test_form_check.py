"""Browser tests of validating the form on the server: when it is requested, how it is shown."""

import threading

import pytest

from tasks.models import Task
from tasks.submission.drafts import draft_of
from tasks.tests.make import make_user, make_worker
from webprofile.errors import DomainError
from webprofile.tests.browser.conftest import block_urls
from webprofile.tests.browser.form import Form

pytestmark = [pytest.mark.exhaustive, pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def form(browser, live_server, settings, log_in) -> Form:
    # the device stays online even on a slow machine
    settings.HEARTBEAT_S = 600
    make_worker("wheel")
    log_in(make_user())
    return Form(browser, live_server.url)


def test_unchecked_form_is_not_sent(form, model):
    form.open()
    form.find("#model").send_keys(str(model))
    block_urls(form.browser, "*/tasks/*")
    form.find("#option-iter").send_keys("7")
    failed = form.find("#command-failed")
    form.until(lambda: "cannot be checked now" in failed.text, "that nobody knows")
    assert form.lines == []
    form.click("#submit")
    form.until(lambda: "cannot be checked" in form.text("#form-error"), "why it stays")
    assert not form.find("#transfer").is_displayed()
    block_urls(form.browser)
    form.find("#option-iter").send_keys("0")
    form.until(lambda: form.lines and "--iter=70" in form.lines[0], "the command again")
    assert not failed.is_displayed()
    assert not Task.objects.exists()


def test_refusal_without_a_field_is_shown(form, model, monkeypatch):
    form.open()
    form.find("#model").send_keys(str(model))

    def refuse(*_):
        raise DomainError("storage_unreachable", status=503)

    monkeypatch.setattr("tasks.api.views.draft_of", refuse)
    form.find("#option-iter").send_keys("7")
    form.click("#submit")
    text = "Object storage does not respond"
    form.until(lambda: text in form.text("#command-failed"), "the refusal")
    assert text in form.text("#form-error")
    assert not form.find("#transfer").is_displayed()


@pytest.mark.parametrize(("later_s", "questions"), [(0, 1), (90, 2)])
def test_valid_form_is_not_validated_again_at_once(form, monkeypatch, later_s, questions):
    form.open()
    bodies = []

    def counted(body, reader):
        bodies.append(body)
        return draft_of(body, reader)

    monkeypatch.setattr("tasks.api.views.draft_of", counted)
    form.find("#option-iter").send_keys("7")
    form.until(lambda: "--iter=7" in form.lines[-1], "the command line")
    later = "const now = Date.now() + arguments[0] * 1000; Date.now = () => now;"
    form.browser.execute_script(later, later_s)
    form.click("#submit")
    form.until(lambda: form.text("#model-error"), "that there is no model")
    assert len(bodies) == questions


def test_late_response_does_not_remove_an_error(form, model, monkeypatch):
    form.open()
    bodies, held = [], threading.Event()

    def slow(body, reader):
        bodies.append(body)
        held.wait(30)
        return draft_of(body, reader)

    form.find("#model").send_keys(str(model))
    form.click("#add-data")
    monkeypatch.setattr("tasks.api.views.draft_of", slow)
    # a data row without a file does not change the validated request
    form.find("[name=data-input]").send_keys("data")
    form.until(lambda: bodies, "the question")
    form.click("#submit")
    form.until(lambda: form.text(".data-row__error"), "what is missing")
    answers = (
        "return performance.getEntriesByType('resource').filter((entry) =>"
        " entry.name.endsWith('/judge/')).length"
    )
    before = form.browser.execute_script(answers)
    held.set()
    form.until(lambda: form.browser.execute_script(answers) > before, "the answer")
    form.browser.execute_async_script("setTimeout(arguments[0], 200)")
    assert form.text(".data-row__error")


def test_refused_form_can_be_sent_again(form, model, monkeypatch):
    form.open()
    form.find("#model").send_keys(str(model))

    def refuse(*_args, **_fields):
        raise DomainError("storage_unreachable", status=503)

    monkeypatch.setattr("tasks.api.views.create_task", refuse)
    form.click("#submit")
    form.until(lambda: form.text("#form-error"), "the refusal")
    form.until(lambda: not form.find("#transfer").is_displayed(), "the form again")
    assert form.find("#submit").is_enabled()
    assert form.find("#model").is_enabled()


def test_chosen_model_removes_the_error_about_a_missing_one(form, model):
    form.open()
    form.click("#submit")
    form.until(lambda: form.text("#model-error"), "that there is no model")
    form.find("#model").send_keys(str(model))
    form.until(lambda: not form.text("#model-error"), "that the message is gone")
