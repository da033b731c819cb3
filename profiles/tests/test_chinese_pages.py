"""Pages in Chinese use full-width punctuation, also where a page joins parts of a sentence."""

import re
from html.parser import HTMLParser

import pytest

from profiles.exports.fields import FIELDS, SOURCE_FIELDS
from profiles.tests.imports import make_import
from profiles.tests.make import UNDECIDED, make_paired_task
from profiles.tests.pages import make_result
from profiles.tests.passes import another_pass
from tasks.tests.make import make_waiting_task
from testdata import good_profile

pytestmark = pytest.mark.django_db

HAN = "[\u4e00-\u9fff]"
#: half-width punctuation as in English text; times, shapes and code have none before a space
HALF_WIDTH = re.compile(rf"{HAN} ?[,;:!?(]|[,;:!?)] ?{HAN}|[,;?!] |: ")
#: a space between two sentences of a paragraph
SPACED = re.compile(rf"[。；，：] {HAN}")
#: elements that hold users' names or code
_UNTRANSLATED = {"bdi", "code", "pre", "script", "style"}
_INLINE = {"a", "abbr", "b", "br", "i", "small", "span", "strong", "time"}
_VOID = {"br", "circle", "img", "input", "line", "link", "meta", "path", "rect"}


class Sentences(HTMLParser):
    """Collects the texts of a page, one for each block, without names and code."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts, self._open, self._hidden = [""], [], 0
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        classes = attributes.get("class") or ""
        hidden = tag in _UNTRANSLATED or "hostile" in classes
        is_line = "verdict-line" in classes or "__line" in classes or "data-word" in attributes
        if is_line or (tag not in _INLINE and tag not in _UNTRANSLATED):
            self.texts.append("")
        if tag not in _VOID:
            self._open.append((tag, hidden, "popover" in attributes))
            self._hidden += hidden

    def handle_endtag(self, tag):
        while self._open:
            open_tag, hidden, is_apart = self._open.pop()
            self._hidden -= hidden
            if is_apart:
                self.texts.append("")
            if open_tag == tag:
                break
        if tag not in _INLINE and tag not in _UNTRANSLATED:
            self.texts.append("")

    def handle_data(self, data):
        if not self._hidden:
            self.texts[-1] += re.sub(r"\s+", " ", data)


@pytest.fixture
def alice(alice, client):
    client.cookies["django_language"] = "zh-hans"
    return alice


def chinese_texts(client, address: str) -> list[str]:
    response = client.get(address)
    html = response.text
    assert response.status_code == 200, (address, html)
    return [text for text in Sentences(html).texts if re.search(HAN, text)]


def test_results_comparisons_and_reports_have_full_width_punctuation(client, alice):
    one, other = good_profile("resnet18"), good_profile("resnet18_opt")
    first, second = (
        make_result(data, *(another_pass(data, seed) for seed in range(2)), owner=alice)
        for data in (one, other)
    )
    imported = make_import(alice, one, b'{"profiler": {}}').profile
    addresses = (
        f"/tasks/{first.attempt.task_id}/?op=3",
        f"/profiles/{imported.pk}/",
        f"/profiles/{first.pk}/operators/3/",
        f"/profiles/compare/?p={first.pk}&p={second.pk}&p={imported.pk}&row=0",
        f"/profiles/{imported.pk}/export/report/",
        "/profiles/exports/",
    )
    for address in addresses:
        texts = chinese_texts(client, address)
        assert len(texts) > 20, address
        assert [text for text in texts if HALF_WIDTH.search(text)] == [], address
        assert [text for text in texts if SPACED.search(text)] == [], address


def test_sentences_of_a_paragraph_follow_each_other_without_a_space(client, alice):
    disturbed = make_paired_task(UNDECIDED, owner=alice)
    worker = disturbed.worker
    addresses = (
        f"/tasks/{disturbed.pk}/",
        f"/tasks/{make_waiting_task(alice, worker).pk}/",
        "/tasks/",
        "/tasks/new/",
        f"/tasks/new/?from={disturbed.pk}",
        "/profiles/",
        "/profiles/shares/",
        "/workers/",
        f"/workers/{worker.name}/",
        "/trust/",
        "/docs/options/",
        "/accounts/tokens/",
        "/accounts/webhooks/",
    )
    for address in addresses:
        texts = chinese_texts(client, address)
        assert texts, address
        assert [text for text in texts if SPACED.search(text)] == [], address


def test_every_exported_field_has_a_chinese_description(client, alice):
    html = client.get("/profiles/exports/").text
    descriptions = [text for text in re.findall("<td>(.*?)</td>", html) if text]
    assert len(descriptions) == len(FIELDS) + len(SOURCE_FIELDS)
    assert [text for text in descriptions if not re.search(HAN, text)] == [
        "computation_flo / memory_bytes。"
    ]
