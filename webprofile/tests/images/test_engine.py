"""What podman is told, by one that only notes it: where tests run there is none."""

import json
from pathlib import Path

import pytest

from webprofile.tests.deployment.composition import composition, filled
from webprofile.tests.images.__main__ import BUILT, DOCKER, HOSTS
from webprofile.tests.images.engine import Engine, Failed

_NOTES = """#!/bin/sh
printf '%s\\n' "$@" >>"{notes}"
echo end >>"{notes}"
case "$*" in *broken*) echo "no such thing" >&2; exit 125 ;; esac
"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("${A}b", "1b"),
        ("${NONE:-else}", "else"),
        ("${A:-else}", "1"),
        ("${NONE:-${A}/x}", "1/x"),
        ("${A:+mail ${A}}", "mail 1"),
        ("${NONE:+mail ${NONE}}", ""),
        ("${NONE}", ""),
        ("$HOME {}", "$HOME {}"),
    ],
)
def test_variables_are_replaced_as_compose_does(text, found):
    assert filled(text, {"A": "1"}) == found


def test_a_variable_that_has_to_be_given_is_asked_for():
    with pytest.raises(KeyError, match=r"in docker/\.env"):
        composition(DOCKER / "compose.yaml", {})


@pytest.fixture
def told(tmp_path: Path):
    """An engine, and what its podman heard: the words of each call."""
    notes, podman = tmp_path / "notes", tmp_path / "podman"
    podman.write_text(_NOTES.format(notes=notes))
    podman.chmod(0o755)
    described = composition(DOCKER / "compose.yaml", HOSTS)
    engine = Engine(str(podman), DOCKER, described, secrets=tmp_path / "secrets")

    def heard() -> list[list[str]]:
        calls = notes.read_text().split("end\n")[:-1]
        return [call.splitlines() for call in calls]

    return engine, heard


def test_a_service_has_the_rights_the_limits_and_the_secrets_that_its_file_gives(told, tmp_path):
    engine, heard = told
    engine.start("web-1")
    run, check = heard()
    words = " ".join(run)
    assert words.startswith("run -d --name mgw-try-web-1 ")
    for option in (
        "--user 10001:10001",
        "--read-only --read-only-tmpfs=false",
        "--cap-drop all",
        "--security-opt no-new-privileges",
        "--memory 2g",
        "--network mgw-try-inside,mgw-try-outside",
        "--env SITE_URL=https://site.test",
        f"--volume {tmp_path}/secrets/secret_key:/run/secrets/secret_key:ro",
    ):
        assert option in words, option
    assert run[-1] == "web"
    assert json.loads(run[run.index("--health-cmd") + 1])[1:] == ["health", "web"]
    assert check == ["healthcheck", "run", "mgw-try-web-1"]


def test_the_agent_is_on_the_network_of_devices_alone(told):
    engine, heard = told
    engine.start("agent")
    words = " ".join(heard()[0])
    assert "--network mgw-try-devices " in words and "inside" not in words
    assert "unmask=ALL" in words and "seccomp=unconfined" in words and "apparmor" not in words


def test_every_image_that_the_file_builds_is_built(told):
    engine, _ = told
    described = composition(DOCKER / "compose.yaml", HOSTS)["services"]
    wanted = {service["image"] for service in described.values() if "build" in service}
    assert {described[name]["image"] for name in BUILT} == wanted
    for name in BUILT:
        engine.build(name, [])


def test_what_podman_refuses_is_said(told):
    engine, _ = told
    with pytest.raises(Failed, match="the image of backup was not built: podman ended with 125"):
        engine.build("backup", ["broken"])
    with pytest.raises(Failed, match="no such thing"):
        engine.once("migrate", "broken")
