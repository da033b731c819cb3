"""Tests of the Chinese catalogue: completeness, punctuation and terms."""

import re
import shutil
from functools import cache
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po
from django.contrib import admin
from django.contrib.admin.utils import flatten_fieldsets, label_for_field
from django.core.management import call_command
from django.utils import translation

from webprofile.admin.site import set_up_admin_site
from webprofile.tests.needs import need

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs/glossary.md"
CATALOGUE = Path("webprofile/locale/zh_Hans/LC_MESSAGES/django.po")


@cache
def read(path: Path) -> Catalog:
    with path.open("rb") as file:
        return read_po(file, locale="zh_Hans")


def as_tuple(text: str | tuple[str, ...] | list[str]) -> tuple[str, ...]:
    """Return the forms of a text, of which only plurals have several."""
    return (text,) if isinstance(text, str) else tuple(text)


def test_each_text_has_a_translation_with_all_placeholders():
    for message in read(ROOT / CATALOGUE):
        if not message.id:
            continue
        assert all(as_tuple(message.string)), message.id
        assert not message.fuzzy, message.id
        assert list(message.check()) == [], message.id


#: labels of the administration that are the same in both languages
SAME_IN_CHINESE = {"agent", "ID", "MD5", "MegEngine"}


def test_labels_of_the_administration_are_translated():
    set_up_admin_site()
    labels = set()
    with translation.override("zh-hans"):
        for model, page in admin.site._registry.items():
            for part in (page, *(inline(model, admin.site) for inline in page.inlines)):
                options = part.model._meta
                labels |= {str(options.verbose_name), str(options.verbose_name_plural)}
                shown = {*getattr(part, "list_display", ()), *part.readonly_fields}
                shown |= {name for name in getattr(part, "list_filter", ()) if type(name) is str}
                shown |= {*(part.fields or ()), *flatten_fieldsets(part.fieldsets or ())}
                for name in shown - {"action_checkbox", "__str__"}:
                    labels.add(str(label_for_field(name, part.model, part)))
    untranslated = {label for label in labels if not re.search("[\u4e00-\u9fff]", label)}
    assert untranslated <= SAME_IN_CHINESE
    # without a plural of its own, Django appends an "s" to the name of a model
    assert [label for label in labels if re.search("[\u4e00-\u9fff]s$", label)] == []
    assert len(labels) > 50


def test_no_text_is_cut_off():
    for message in read(ROOT / CATALOGUE):
        english, chinese = as_tuple(message.id)[0], as_tuple(message.string)[0]
        assert not english.endswith(" ") or english.endswith((": ", ", ", "; ")), english
        if len(re.findall("[a-z]{3,}", english)) > 6:
            assert re.search("[\u4e00-\u9fff]", chinese), english


def texts() -> list[str]:
    """Return all Chinese texts of the catalogue."""
    return [
        text
        for message in read(ROOT / CATALOGUE)
        if message.id
        for text in as_tuple(message.string)
    ]


def test_chinese_texts_have_no_half_width_punctuation():
    han = "[\u4e00-\u9fff”“（）]"
    # a colon with a word after it may be code: N:first
    half_width = re.compile(rf"{han} ?[,;!?(]|{han} ?:(?!\w)|[,;:!?)] ?{han}")
    code = re.compile(r"[\w.]*\w\([^()]*\)|%\(\w+\)s|\{\w+\}|“[:;]”|\( \) \[|\?\w+=")
    wrong = [text for text in texts() if half_width.search(code.sub("x", text))]
    assert wrong == []


def test_no_text_has_a_word_that_the_glossary_excludes():
    rows = [line.split("|") for line in GLOSSARY.read_text("utf-8").splitlines() if "|" in line]
    excluded = [word.strip() for row in rows[2:] for word in row[3].split(",") if word.strip()]
    assert len(excluded) > 10
    english = [part for m in read(ROOT / CATALOGUE) for part in as_tuple(m.id)]
    pattern = re.compile("|".join(map(re.escape, excluded)), re.IGNORECASE)
    assert [text for text in [*texts(), *english] if pattern.search(text)] == []


def test_catalogue_contains_exactly_the_texts_of_the_sources(tmp_path, monkeypatch, settings):
    need("gettext")
    folders = ("accounts", "workers", "tasks", "profiles", "webprofile", "templates")
    # the texts of what agents report, which the server translates
    for folder in (*folders, "agent/protocol"):
        ignored = shutil.ignore_patterns("__pycache__", "tests")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    shutil.copy(ROOT / "manage.py", tmp_path)
    # the catalogue of the copy is written
    settings.LOCALE_PATHS = [tmp_path / CATALOGUE.parents[2]]
    monkeypatch.chdir(tmp_path)
    call_command("makemessages", locale=["zh_Hans"], no_obsolete=True, verbosity=0)
    expected = {(m.context, m.id) for m in read(tmp_path / CATALOGUE) if m.id}
    actual = {(m.context, m.id) for m in read(ROOT / CATALOGUE) if m.id}
    assert (expected - actual, actual - expected) == (set(), set())
