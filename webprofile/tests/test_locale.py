"""The Chinese catalogue is complete."""

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


def test_every_text_has_its_translation_and_no_placeholder_is_lost():
    for message in read(ROOT / CATALOGUE):
        if not message.id:
            continue
        texts = message.string if isinstance(message.string, tuple) else (message.string,)
        assert all(texts), message.id
        assert not message.fuzzy, message.id
        assert list(message.check()) == [], message.id


def texts() -> list[str]:
    """Every Chinese text of the catalogue."""
    strings = [message.string for message in read(ROOT / CATALOGUE) if message.id]
    return [
        text for string in strings for text in (string if isinstance(string, tuple) else (string,))
    ]


def test_chinese_sentences_have_no_half_width_marks():
    han = "[\u4e00-\u9fff”“（）]"
    # a colon and what follows may be code: N:first
    half_width = re.compile(rf"{han} ?[,;!?(]|{han} ?:(?!\w)|[,;:!?)] ?{han}")
    code = re.compile(r"[\w.]*\w\([^()]*\)|%\(\w+\)s|\{\w+\}|“[:;]”|\( \) \[|\?\w+=")
    wrong = [text for text in texts() if half_width.search(code.sub("x", text))]
    assert wrong == []


def test_a_pass_has_one_word_of_its_own():
    """A run, 运行, is an attempt: it consists of passes, 轮次."""
    other = re.compile("剖析运行|不带剖析的运行|[各单]次运行|轮运行|运行次数")
    assert [text for text in texts() if other.search(text)] == []


def test_the_catalogue_holds_exactly_the_texts_of_the_sources(tmp_path):
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
    there = {(m.context, m.id) for m in read(ROOT / CATALOGUE) if m.id}
    assert (expected - there, there - expected) == (set(), set())
