"""Public downloads with which a machine becomes a device."""

import hashlib
import json
import shlex

import pytest
from django.test import AsyncClient, Client

from tasks.tests.make import make_worker
from workers.releases import enrolment_commands, is_behind
from workers.tokens import issue_code

VERSION = "0.1.0+1a2b3c4d"
NAME = f"agent-{VERSION}-linux-x86_64-cp311.pyz"
WHEEL = f"megengine_web_profile_agent-{VERSION}-py3-none-any.whl"
CONTENT = bytes(range(256)) * 4096


@pytest.fixture
def built(tmp_path, settings):
    """A folder as `python -m agent.install` creates it, and a file that must not be served."""
    settings.AGENT_FOLDER = str(tmp_path)
    settings.SITE_URL = "https://profile.example.org"
    (tmp_path / NAME).write_bytes(CONTENT)
    (tmp_path / "secret.txt").write_text("no")
    file = {"name": NAME, "sha256": hashlib.sha256(CONTENT).hexdigest(), "size_bytes": len(CONTENT)}
    manifest = {
        "version": VERSION,
        "files": {"linux-x86_64-cp311": file},
        "wheel": {"name": WHEEL, "sha256": "", "size_bytes": 0},
    }
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    return tmp_path


def test_the_script_contains_the_sites_url_and_needs_no_login(built):
    answer = Client().get("/agent/install.py")
    text = answer.text
    assert answer.status_code == 200
    assert 'SITE = "https://profile.example.org"' in text
    compile(text, "install.py", "exec")


async def test_a_file_is_served_completely(built):
    answer = await AsyncClient().get(f"/agent/{NAME}")
    content = b"".join([piece async for piece in answer.streaming_content])
    assert content == CONTENT
    assert answer["Content-Length"] == str(len(CONTENT))
    assert "attachment" in answer["Content-Disposition"]


@pytest.mark.parametrize(
    "name", ["secret.txt", "..%2Fsecret.txt", "%2e%2e", "nothing", WHEEL, "manifest.json.new"]
)
async def test_an_unknown_file_is_not_found(built, name):
    assert (await AsyncClient().get(f"/agent/{name}")).status_code == 404


def test_the_page_shows_commands_and_checksums(built):
    text = Client().get("/agent/").text
    assert "curl -fsS https://profile.example.org/agent/install.py | python3 - " in text
    assert f"pipx run --spec https://profile.example.org/agent/{WHEEL}" in text
    assert hashlib.sha256(CONTENT).hexdigest() in text


@pytest.mark.parametrize("manifest", [None, "", "{}", '{"version": 1}', '{"files": []}', "[1]"])
def test_the_page_says_that_no_agent_was_built(tmp_path, settings, manifest):
    settings.AGENT_FOLDER = str(tmp_path / "none")
    if manifest is not None:
        settings.AGENT_FOLDER = str(tmp_path)
        (tmp_path / "manifest.json").write_text(manifest)
    text = Client().get("/agent/").text
    assert "make agent-bundle" in text
    assert "pipx" not in text
    answer = Client().get("/agent/manifest.json", headers={"Accept": "application/json"})
    assert answer.status_code == 404
    assert "make agent-bundle" in answer.text


def test_only_get_and_head_are_allowed(built):
    for address in ("/agent/", "/agent/install.py", f"/agent/{NAME}"):
        assert Client().post(address).status_code == 405


@pytest.mark.django_db
def test_the_commands_of_a_device_contain_its_code(built):
    worker = make_worker()
    code = issue_code(worker)
    lines = enrolment_commands(code)
    assert lines["curl"] == (
        f"curl -fsS https://profile.example.org/agent/install.py | python3 - --code {code} --start"
    )
    words = shlex.split(lines["pipx"])
    assert words[:4] == ["pipx", "run", "--spec", f"https://profile.example.org/agent/{WHEEL}"]
    assert words[words.index("--code") + 1] == code


@pytest.mark.django_db
def test_without_a_built_agent_there_is_no_pipx_command(tmp_path, settings):
    settings.AGENT_FOLDER = str(tmp_path)
    assert enrolment_commands("mge_x")["pipx"] == ""


@pytest.mark.parametrize(
    ("version", "behind"),
    [
        (VERSION, False),
        ("0.1.0+ffffffff", True),  # another build
        ("0.2.0+ffffffff", True),  # agents follow a downgrade of the site
        ("0.1.0", False),  # the agent of a clone is compared by its version number
        ("0.0.9", True),
        ("0.2.0", False),
        ("", False),  # never seen
    ],
)
def test_agents_of_another_build_or_an_older_version_are_behind(built, version, behind):
    assert is_behind(version) is behind
