"""Tests of the enrolment by docker/agent/entrypoint.sh, with a site that accepts every code."""

import json
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from agent.tests.http_sites import HttpSite, serving
from webprofile.tests.deployment.environment_names import ROOT

SCRIPT = ROOT / "docker" / "agent" / "entrypoint.sh"


class EnrolSite(HttpSite):
    """Gives each code a token with its name."""

    def reply(self, path: str, authorization: str, body: bytes) -> tuple[int, bytes]:
        if path != "/api/agent/enrol/":
            return 404, b""
        return 200, json.dumps(
            {"worker": "x86-1", "token": f"of {json.loads(body)['code']}"}
        ).encode()


@pytest.fixture
def site():
    site = EnrolSite()
    with serving(site.http):
        yield site


@pytest.fixture
def environment(site, tmp_path):
    (tmp_path / "code").write_text("mge_new")
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "AGENT_HOME": str(tmp_path / "home"),
        "RUN_FOLDER": str(tmp_path),
        "REQUIRE_SANDBOX": "false",
        "SERVER": site.url,
        "ENROL_CODE_FILE": str(tmp_path / "code"),
    }


@pytest.mark.parametrize("left", ["agent.toml.token", "agent.toml.enrolled"])
def test_device_whose_enrolment_was_killed_is_enrolled_with_a_new_code(
    environment, site, tmp_path, left
):
    home = tmp_path / "home"
    home.mkdir()
    (home / left).write_text(f'server = "{site.url}"\ntoken_file = "agent.toml.token"\n')
    agent = subprocess.Popen([SCRIPT, "run"], env=environment, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        # the script removes the other file last
        while agent.poll() is None and not (
            (home / "agent.toml").exists() and not (home / "agent.toml.enrolled").exists()
        ):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        agent.terminate()
        _, output = agent.communicate(timeout=60)
    assert (home / "agent.toml").exists(), output
    assert (home / "agent.toml.token").read_text() == "of mge_new\n"
    assert not (home / "agent.toml.enrolled").exists()


def test_enrolled_device_gets_a_new_token_and_keeps_its_configuration(environment, site, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "agent.toml.token").write_text("of mge_old\n")
    config = f'require_sandbox = true\nserver = "{site.url}"\ntoken_file = "agent.toml.token"\n'
    (home / "agent.toml").write_text(config)
    words = ["agent", "enrol", "--server", site.url, "--code", "mge_new", "--force"]
    subprocess.run([SCRIPT, *words], env=environment, check=True)
    assert (home / "agent.toml.token").read_text() == "of mge_new\n"
    assert tomllib.loads((home / "agent.toml").read_text())["require_sandbox"] is True
