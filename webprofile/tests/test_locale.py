"""Tests of the Chinese catalogue: completeness, punctuation and terms."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po

from webprofile.tests.needs import need

ROOT = Path(__file__).parents[2]
CATALOGUE = Path("webprofile/locale/zh_Hans/LC_MESSAGES/django.po")


def read(path: Path) -> Catalog:
    with path.open("rb") as file:
        return read_po(file, locale="zh_Hans")


def test_each_text_has_a_translation_with_all_placeholders():
    for message in read(ROOT / CATALOGUE):
        if not message.id:
            continue
        texts = message.string if isinstance(message.string, tuple) else (message.string,)
        assert all(texts), message.id
        assert not message.fuzzy, message.id
        assert list(message.check()) == [], message.id


def texts() -> list[str]:
    """Return all Chinese texts of the catalogue."""
    strings = [message.string for message in read(ROOT / CATALOGUE) if message.id]
    return [
        text for string in strings for text in (string if isinstance(string, tuple) else (string,))
    ]


def test_chinese_texts_have_no_half_width_punctuation():
    han = "[\u4e00-\u9fff”“（）]"
    # a colon with a word after it may be code: N:first
    half_width = re.compile(rf"{han} ?[,;!?(]|{han} ?:(?!\w)|[,;:!?)] ?{han}")
    code = re.compile(r"[\w.]*\w\([^()]*\)|%\(\w+\)s|\{\w+\}|“[:;]”|\( \) \[|\?\w+=")
    wrong = [text for text in texts() if half_width.search(code.sub("x", text))]
    assert wrong == []


def test_chinese_term_for_pass_is_used_consistently():
    """运行 is an attempt, which consists of passes, 轮次."""
    other = re.compile("剖析运行|不带剖析的运行|[各单]次运行|轮运行|运行次数")
    assert [text for text in texts() if other.search(text)] == []


def test_catalogue_contains_exactly_the_texts_of_the_sources(tmp_path):
    need("gettext")
    folders = ("accounts", "workers", "tasks", "profiles", "webprofile", "templates")
    for folder in folders:
        ignored = shutil.ignore_patterns("__pycache__", "tests")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    shutil.copy(ROOT / "manage.py", tmp_path)
    command = [sys.executable, "manage.py", "makemessages", "-l", "zh_Hans", "--no-obsolete"]
    subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ
        | {"DJANGO_SETTINGS_MODULE": "webprofile.settings.test", "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
    )
    expected = {(m.context, m.id) for m in read(tmp_path / CATALOGUE) if m.id}
    actual = {(m.context, m.id) for m in read(ROOT / CATALOGUE) if m.id}
    assert (expected - actual, actual - expected) == (set(), set())
