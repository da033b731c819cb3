"""Tests of the page of all options, in both languages."""

import html
import re

import pytest
from django.utils import translation

from agent.protocol.options import OPTIONS, Capabilities, unavailable
from tasks.models import Task
from tasks.options import COMMON, NEVER_TAKEN, OPTION_HELP
from tasks.tests.make import make_user, make_worker
from webprofile.errors import DomainError
from webprofile.messages.errors import word
from workers.models import Runtime

pytestmark = pytest.mark.django_db

USER_OPTIONS = [option for option in OPTIONS.values() if option.kind != "agent"]
LANGUAGES = ["en", "zh-hans"]
CHINESE = re.compile(r"[\u4e00-\u9fff]")


@pytest.fixture(scope="module", params=LANGUAGES)
def language(request):
    return request.param


@pytest.fixture(scope="module")
def pages() -> dict[tuple[str, str], str]:
    """The pages that were loaded, by address and language."""
    return {}


def load(pages, client, address: str, language: str) -> str:
    """Return a page, which is loaded once."""
    if (address, language) not in pages:
        client.cookies["django_language"] = language
        pages[address, language] = html.unescape(client.get(address).text)
    return pages[address, language]


@pytest.fixture
def form(client, language, pages) -> str:
    make_worker()
    client.force_login(make_user())
    return load(pages, client, "/tasks/new/", language)


@pytest.fixture
def docs(client, language, pages) -> str:
    return load(pages, client, "/docs/options/", language)


def help_of(name: str, language: str) -> str:
    with translation.override(language):
        return str(OPTION_HELP[name])


def test_every_option_has_help_in_both_languages():
    assert list(OPTION_HELP) == list(OPTIONS)
    for name in OPTIONS:
        assert len(help_of(name, "en")) > 15, name
        assert CHINESE.search(help_of(name, "zh-hans")), name


def test_form_has_a_control_with_help_for_every_user_option(form, language):
    for option in USER_OPTIONS:
        control = f'data-option="{option.name}"'
        assert form.count(control) == 1, option.name
        box = form[form.index(control) :].split('role="alert"')[0]
        assert help_of(option.name, language) in box
        assert f'name="{option.name}' in box
        if option.kind == "choice":
            assert all(f'value="{c}"' in box for c in option.choices if c != option.default)


def test_form_has_no_control_for_options_of_the_agent(form):
    for option in OPTIONS.values():
        if option.kind == "agent":
            assert f'name="{option.name}"' not in form


def test_search_index_contains_the_help_of_both_languages(form):
    for option in USER_OPTIONS:
        box = form[form.index(f'data-option="{option.name}"') :].split(">", 1)[0]
        for language in LANGUAGES:
            assert help_of(option.name, language).lower() in box


def test_form_shows_few_options_outside_of_collapsed_groups(form):
    assert 3 <= len(COMMON) <= 7
    assert "<details" in form
    assert not re.search(r"<details[^>]*\bopen\b[^>]*data-group", form)


def test_options_page_explains_every_option(docs, language):
    for option in USER_OPTIONS:
        part = docs[docs.index(f'id="{option.name}"') :].split("</article>")[0]
        assert help_of(option.name, language) in part
        for other in (*option.needs, *option.excludes):
            assert other in part, (option.name, other)
        if option.since:
            assert option.since in part
        for limit in (option.minimum, option.maximum):
            if isinstance(limit, int):
                assert str(limit) in part


def test_options_page_lists_rejected_options_with_reasons(docs, language):
    part = docs[docs.index('id="never"') :]
    assert {o.name for o in OPTIONS.values() if o.kind == "agent"} < set(NEVER_TAKEN)
    for names, why in NEVER_TAKEN.items():
        with translation.override(language):
            assert names in part
            assert str(why) in part
    assert "flagfile" in part


def test_options_page_is_public_and_linked_from_the_form(client, form, language):
    assert 'href="/docs/options/"' in form
    client.logout()
    assert client.get("/docs/options/").status_code == 200


RUNTIMES = [
    Capabilities("wheel"),
    Capabilities("wheel", builds=frozenset({"cuda"}), cpu_model="AMD EPYC 9654"),
    Capabilities("binary", cpu_model="AMD EPYC 9654"),
    Capabilities("binary", flags=frozenset({"iter", "fast_run"})),
    Capabilities("binary", libraries=frozenset({"mine"})),
]


@pytest.mark.parametrize("runtime", RUNTIMES, ids=["wheel", "cuda", "amd", "old", "library"])
def test_judge_explains_options_that_the_runtime_lacks(client, runtime, language):
    worker = make_worker(facts={"cpu_model": runtime.cpu_model})
    Runtime.objects.filter(worker=worker).update(
        kind=runtime.kind,
        flags=sorted(runtime.flags),
        builds=sorted(runtime.builds),
        libraries=sorted(runtime.libraries),
    )
    client.force_login(make_user())
    client.cookies["django_language"] = language
    body = {"worker": worker.pk, "runtime_version": "1.13.0"}
    answer = client.post("/api/v1/tasks/judge/", body, content_type="application/json").json()
    expected = {o.name: code for o in USER_OPTIONS if (code := unavailable(o, runtime))}
    assert set(answer["unavailable"]) == set(expected)
    assert answer["libraries"] == sorted(runtime.libraries)
    for name, code in expected.items():
        with translation.override(language):
            assert answer["unavailable"][name] == word(DomainError(f"option_{code}", option=name))
        assert name in answer["unavailable"][name]
        assert "Something went wrong" not in answer["unavailable"][name]


def test_sample_runtimes_cover_every_reason():
    unavailable_sets = {
        frozenset(n for n, o in OPTIONS.items() if unavailable(o, runtime)) for runtime in RUNTIMES
    }
    assert len(unavailable_sets) == len(RUNTIMES)
    codes = {unavailable(o, runtime) for o in OPTIONS.values() for runtime in RUNTIMES}
    assert codes == {"", "never", "wheel", "flag", "cuda", "tensorrt", "opencl", "amd", "library"}


def test_changed_options_of_a_task_omit_defaults():
    options = {"fast_run": True, "iter": 10, "batch_size": 8, "io_dump": False, "cpu": False}
    task = Task(options={**options, "no_sanity_check": False, "gone_by_now": "x"})
    assert task.changed_options == [
        "--fast_run",
        "--batch_size=8",
        "--no_sanity_check=false",
        "--gone_by_now=x",
    ]
    assert Task(options={}).changed_options == []


def test_changed_options_of_a_script_are_its_arguments():
    assert Task(script={"arguments": ["--steps", "a b"]}).changed_options == ["--steps 'a b'"]
    assert Task(script={"arguments": []}).changed_options == []
