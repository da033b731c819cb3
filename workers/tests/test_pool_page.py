"""The admin page of a pool: in the user's language, and without JavaScript."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders

from tasks.tests.make import make_user, make_worker
from workers.models import Pool
from workers.services import retire_worker

pytestmark = pytest.mark.django_db

POOLS = "/admin/workers/pool/"
#: a string in single or double quotes
TEXT = r"(?:'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\")"


class Scripts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.sources: list[str] = []

    def handle_starttag(self, tag, attrs):
        source = dict(attrs).get("src")
        if tag == "script" and source:
            self.sources.append(source)


def scripts_of(page: str) -> list[str]:
    parser = Scripts()
    parser.feed(page)
    return parser.sources


@pytest.fixture
def root(client):
    user = make_user("root", is_staff=True, is_superuser=True, language="zh-hans")
    client.force_login(user)
    return user


@pytest.fixture
def pool(root):
    pool = Pool.objects.create(name="arm")
    pool.workers.add(make_worker("box"))
    return pool


def box_of(page: str, name: str) -> str:
    """Return the checkbox tag of a device."""
    (tag,) = re.findall(rf"(<input[^>]*name=\"workers\"[^>]*>)\s*{name}\b", page)
    return tag


def test_devices_are_selected_with_checkboxes(client, pool):
    make_worker("board")
    retire_worker(make_worker("old"), by=None)
    page = client.get(f"{POOLS}{pool.pk}/change/").content.decode()
    assert 'type="checkbox"' in box_of(page, "box")
    assert "checked" in box_of(page, "box")
    assert "checked" not in box_of(page, "board")
    assert "old.retired" not in page


@pytest.mark.parametrize("path", ["{pk}/change/", "add/", ""])
def test_texts_of_scripts_are_translated_to_chinese(client, pool, path):
    scripts = scripts_of(client.get(POOLS + path.format(pk=pool.pk)).content.decode())
    (catalogue,) = (script for script in scripts if "jsi18n" in script)
    known = client.get(catalogue).content.decode()
    sources = "".join(
        Path(finders.find(script.removeprefix("/static/"))).read_text()
        for script in scripts
        if script.startswith("/static/")
    )
    texts = [one or two for one, two in re.findall(rf"\bn?gettext\({TEXT}", sources)]
    assert [text for text in texts if f"{json.dumps(text)}: " not in known] == []
