"""The installer, run against a fake site."""

import hashlib
import io
import json
import os
import platform
import pty
import pwd
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.install import install
from agent.tests.http_sites import HttpSite, serving

#: not the Python of the virtual environment, which may be removed
PYTHON = sys._base_executable
KIND = f"linux-{platform.machine()}-cp3{sys.version_info[1]}"
#: a fake agent that can enrol
FAKE_AGENT = """
import os, pathlib, sys
words = sys.argv[1:]
config = pathlib.Path(words[words.index("--config") + 1])
if words[words.index("--code") + 1] != "good":
    sys.exit("agent: the server refused")
server = words[words.index("--server") + 1]
config.write_text(f'server = "{server}"\\n[[runtime]]\\n')
config.with_suffix(".token").write_text("mgw_good\\n")
print("enrolled", *words, "as", os.environ.get("ACTS_AS"))
"""


LAUNCHER = """
import os, time
open("who", "w").write(str(os.environ.get("ACTS_AS")))
time.sleep(60)
"""


def bundle(main: str = FAKE_AGENT) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr("__main__.py", main)
        file.writestr("site/agent/install/launch.py", LAUNCHER)
    return content.getvalue()


class BundleSite(HttpSite):
    """Fake site that serves one agent and accepts one token."""

    def __init__(self) -> None:
        super().__init__()
        self.content = bundle()
        self.kind, self.damaged, self.token = KIND, False, "mgw_good"

    def reply(self, path: str, authorization: str, body: bytes) -> tuple[int, bytes]:
        if path == "/agent/manifest.json":
            digest = hashlib.sha256(self.content).hexdigest()
            file = {"name": "a.pyz", "sha256": digest, "size_bytes": len(self.content)}
            return 200, json.dumps({"version": "1", "files": {self.kind: file}}).encode()
        if path == "/agent/a.pyz":
            return 200, self.content[: -1 if self.damaged else None]
        if path == "/api/agent/check/":
            good = authorization == f"Bearer {self.token}"
            return (200, b'{"worker": "desk"}') if good else (401, b"{}")
        return 404, b"{}"


@pytest.fixture
def site() -> Iterator[BundleSite]:
    site = BundleSite()
    with serving(site.http):
        yield site


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "agent"


def run(site: BundleSite, home: Path, *words: str, code: str = "good") -> int:
    where = ["--server", site.url, "--home", str(home), "--no-service"]
    options = ["--megengine", "find", "--no-measure", *(("--code", code) if code else ())]
    return install.main([*where, *options, *words])


def test_a_fresh_device_is_enrolled(site: BundleSite, home: Path, capfd):
    assert run(site, home) == 0
    output = capfd.readouterr().out
    assert "--update --find-runtimes" in output
    assert f"To start the agent: {PYTHON} -I" in output
    assert (home / "agent.pyz").read_bytes() == site.content
    assert {path.name: oct(path.stat().st_mode & 0o77) for path in (home, home / "launch.py")} == {
        "agent": "0o0",
        "launch.py": "0o0",
    }


def test_a_second_installation_needs_no_code(site: BundleSite, home: Path, capfd):
    run(site, home)
    site.requested_paths.clear()
    assert run(site, home, code="") == 0
    assert "This device is already enrolled as desk." in capfd.readouterr().out
    assert "/agent/a.pyz" not in site.requested_paths


def test_a_new_code_replaces_a_revoked_token(site: BundleSite, home: Path, capfd):
    run(site, home)
    site.token = "mgw_another"
    assert run(site, home) == 0
    assert "--force" in capfd.readouterr().out


def test_a_newer_agent_replaces_the_old_one(site: BundleSite, home: Path):
    run(site, home)
    site.content = bundle(FAKE_AGENT + "# newer")
    assert run(site, home, code="") == 0
    assert (home / "agent.pyz").read_bytes() == site.content


@pytest.mark.parametrize(
    ("wrong", "words", "message"),
    [
        ({"damaged": True}, (), "damaged"),
        ({"kind": "linux-riscv64-cp311"}, (), "only for: linux-riscv64-cp311"),
        ({}, ("--code", ""), "give --code"),
        ({}, ("--code", "spent"), "was not enrolled"),
        ({}, ("--server", "http://127.0.0.1:9"), "cannot be reached"),
        ({}, ("--server", ""), "give --server"),
    ],
)
def test_a_failed_installation_reports_the_error_and_leaves_no_configuration(
    site, home, capfd, wrong, words, message
):
    for name, value in wrong.items():
        setattr(site, name, value)
    assert run(site, home, *words) == 1
    assert message in capfd.readouterr().err
    assert not (home / "agent.toml").exists()


def test_a_device_of_another_site_is_replaced_only_with_force(site: BundleSite, home: Path, capfd):
    run(site, home)
    (home / "agent.toml").write_text('server = "https://other.example.org"\n')
    assert run(site, home) == 1
    assert "is for another site: use --force" in capfd.readouterr().err
    assert run(site, home, "--force") == 0


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("version_of", lambda path: [3, 9, 1], "needs Python 3.11 to 3.14"),
        ("version_of", lambda path: [3, 15, 0], "needs Python 3.11 to 3.14"),
        ("version_of", lambda path: [0], "uv python install"),
    ],
)
def test_the_error_without_a_supported_python_names_a_solution(
    site: BundleSite, home: Path, capfd, monkeypatch, name, value, message
):
    monkeypatch.setattr(install, name, value)
    assert run(site, home) == 1
    assert message in capfd.readouterr().err


def test_a_python_that_is_too_new_searches_for_an_older_one(monkeypatch):
    versions = {"/usr/bin/python3.15": [3, 15, 0], "/usr/bin/python3.13": [3, 13, 1]}
    monkeypatch.setattr(install.sys, "_base_executable", "/usr/bin/python3.15")
    monkeypatch.setattr(
        install.shutil,
        "which",
        lambda name: next((path for path in versions if path.endswith(name)), None),
    )
    monkeypatch.setattr(install, "version_of", versions.__getitem__)
    assert install.choose_python() == "/usr/bin/python3.13"


def run_installer(*words: str) -> None:
    """Run the installer in a separate process, so that its children are not ours."""
    subprocess.run(
        [sys.executable, install.__file__, *words], check=True, stdout=subprocess.DEVNULL
    )


def test_the_installer_starts_and_stops_only_its_own_process(site: BundleSite, home: Path):
    where = ("--home", str(home))
    words = ("--server", site.url, "--code", "good", "--no-service", "--no-measure", "--start")
    run_installer(*words, *where)
    first = int((home / "launch.pid").read_text())
    assert install.is_ours(first, str(home))
    run_installer(*words, *where)
    second = int((home / "launch.pid").read_text())
    assert second != first
    assert not install.is_ours(first, str(home))
    # the pid of another process
    (home / "launch.pid").write_text(str(os.getpid()))
    install.stop_process(str(home))
    (home / "launch.pid").write_text(str(second))
    run_installer("--uninstall", *where)
    assert not home.exists()
    assert not install.is_ours(second, str(home))


def test_uninstall_keeps_the_former_settings_of_a_tuned_device(tmp_path: Path, capfd):
    (tmp_path / "spool").mkdir()
    for name in ("launch.py", "spool/tuning.json"):
        (tmp_path / name).touch()
    assert install.main(["--uninstall", "--home", str(tmp_path)]) == 1
    command = f"-I {tmp_path}/agent.pyz tune --restore --config {tmp_path}/agent.toml` first"
    assert f"run `{install.choose_python()} {command}" in capfd.readouterr().err
    assert (tmp_path / "spool/tuning.json").exists()


def test_uninstall_keeps_a_folder_without_an_agent(tmp_path: Path, capfd):
    (tmp_path / "thesis.tex").touch()
    assert install.main(["--uninstall", "--home", str(tmp_path)]) == 1
    assert "no agent is installed in" in capfd.readouterr().err
    assert (tmp_path / "thesis.tex").exists()


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a fake systemctl that records its arguments; for user units, without root."""
    programs, notes = tmp_path / "bin", tmp_path / "asked"
    programs.mkdir()
    (programs / "systemctl").write_text(f'#!/bin/sh\necho "$@" >> {notes}\n')
    (programs / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(install, "has_systemd", lambda: True)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    return notes


def test_a_systemd_unit_is_installed_and_removed(
    site: BundleSite, home: Path, systemd: Path, tmp_path
):
    words = ["--server", site.url, "--home", str(home), "--code", "good", "--no-measure"]
    assert install.main([*words, "--start"]) == 0
    unit = tmp_path / "config" / "systemd" / "user" / install.SERVICE
    text = unit.read_text()
    assert f"ExecStart={PYTHON} -I {home}/launch.py" in text
    assert "RestartPreventExitStatus=2" in text
    assert "WantedBy=default.target" in text
    calls = systemd.read_text().splitlines()
    assert calls == [
        "--user daemon-reload",
        f"--user enable {install.SERVICE}",
        f"--user restart {install.SERVICE}",
    ]
    assert install.main(["--uninstall", "--home", str(home)]) == 0
    assert not unit.exists()
    assert systemd.read_text().splitlines()[-1] == f"--user disable --now {install.SERVICE}"


def test_a_service_replaces_a_process_that_was_started_without_one(
    site: BundleSite, home: Path, systemd: Path
):
    words = ["--server", site.url, "--home", str(home), "--code", "good", "--no-measure"]
    run_installer(*words, "--no-service", "--start")
    process = int((home / "launch.pid").read_text())
    assert install.is_ours(process, str(home))
    assert install.main([*words, "--start"]) == 0
    assert not install.is_ours(process, str(home))


def test_words_of_a_command_line_in_a_unit_are_quoted():
    assert install.unit_word("/opt/agent/launch.py") == "/opt/agent/launch.py"
    assert install.unit_word('/home/a b/50%/$x/"') == '"/home/a b/50%%/$$x/\\""'


@pytest.fixture
def as_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pretend that root runs the installer; a change of the user is recorded only.

    Returns the path of the unit.
    """
    unit = tmp_path / "system" / install.SERVICE
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(install, "unit_path", lambda: str(unit))
    monkeypatch.setattr(install, "become", lambda name: os.environ.update(ACTS_AS=name))
    return unit


def other_user() -> str:
    """Return a user other than root, to whom a folder can be given."""
    return "nobody" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name


def test_root_installs_and_starts_the_agent_as_the_given_user(site, home, as_root, capfd):
    user = other_user()
    assert run(site, home, "--start", "--user", user) == 0
    output = capfd.readouterr().out
    assert f"as {user}\n" in output
    try:
        assert pwd.getpwuid(home.stat().st_uid).pw_name == user
        until = time.monotonic() + 30
        while not (home / "who").exists() or not (home / "who").read_text():
            assert time.monotonic() < until
            time.sleep(0.02)
        assert (home / "who").read_text() == user
        assert not as_root.exists()
    finally:
        install.stop_process(str(home))


def test_a_second_installation_by_root_keeps_the_user(
    site, home, as_root, systemd, monkeypatch, capfd
):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    user = other_user()
    words = ["--server", site.url, "--home", str(home), "--code", "good", "--no-measure"]
    assert install.main([*words, "--user", user]) == 0
    assert f"\nUser={user}\n" in as_root.read_text()
    site.content = bundle(FAKE_AGENT + "# newer")
    site.token = "mgw_another"
    capfd.readouterr()
    assert install.main(words) == 0
    assert f"\nUser={user}\n" in as_root.read_text()
    assert f"as {user}\n" in capfd.readouterr().out


@pytest.mark.parametrize("words", [("--user", "root"), ("--user", "no-such-user")])
def test_root_does_not_install_into_a_folder_of_another_user(site, home, as_root, capfd, words):
    home.mkdir()
    os.chown(home, pwd.getpwnam(other_user()).pw_uid, -1)
    assert run(site, home, *words) == 1
    assert list(home.iterdir()) == []
    message = capfd.readouterr().err
    assert "belongs to another user" in message or "no such user" in message
    assert site.requested_paths == []


def test_a_python_that_the_user_cannot_run_is_an_error(site, home, as_root, capfd, monkeypatch):
    versions = iter([[3, 11, 2], [0]])
    monkeypatch.setattr(install, "version_of", lambda path: next(versions))
    assert run(site, home, "--user", other_user()) == 1
    assert "the user cannot run" in capfd.readouterr().err
    assert site.requested_paths == []


@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 7), (b"\n", 3)])
def test_the_answer_to_a_question_is_read_from_the_terminal(answer: bytes, code: int):
    child, terminal = pty.fork()
    if not child:
        os._exit(7 if install.ask("Install it? ") else 3)
    os.write(terminal, answer)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == code
    os.close(terminal)


def test_only_root_can_choose_a_user(site, home, monkeypatch, capfd):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert run(site, home, "--user", other_user()) == 1
    assert "only root" in capfd.readouterr().err


def test_write_file_replaces_a_link_instead_of_following_it(tmp_path: Path):
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    for name in ("file", "file.new"):
        (tmp_path / name).symlink_to(victim)
    install.write_file(str(tmp_path / "file"), b"new", 0o600)
    assert victim.read_text() == "untouched"
    assert (tmp_path / "file").read_bytes() == b"new"
    assert not (tmp_path / "file").is_symlink()
