"""The commands `agent enrol` and `agent doctor`."""

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.cli import main
from agent.config import load_config
from agent.tests.http_sites import HttpSite, serving
from webprofile.tests.needs import need


class AgentSite(HttpSite):
    """A fake server with the two HTTP endpoints; the test sets the responses."""

    def __init__(self) -> None:
        super().__init__()
        self.answer: tuple[int, object] = (200, {})
        self.authorization, self.body = "", b""

    def reply(self, path: str, authorization: str, body: bytes) -> tuple[int, bytes]:
        self.authorization, self.body = authorization, body
        status, answer = self.answer
        return status, answer if isinstance(answer, bytes) else json.dumps(answer).encode()

    def healthy(self, ahead_s: float = 0) -> None:
        at = time.time() + ahead_s
        self.answer = (200, {"worker": "local", "server_time": at, "protocol": 1})


@pytest.fixture
def site() -> Iterator[AgentSite]:
    site = AgentSite()
    with serving(site.http):
        yield site


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    path = tmp_path / "load_and_run"
    path.write_text("#!/bin/sh\necho 'using MegBrain 1.13.0(0) and MegDNN 9.3.0' >&2\n")
    path.chmod(0o755)
    return path


def enrol(site_url: str, config: Path, *more: str) -> int:
    return main(["enrol", "--server", site_url, "--code", "AB-12", "--config", str(config), *more])


def write_config(folder: Path, site_url: str, runtime: str = "") -> Path:
    path = folder / "agent.toml"
    path.write_text(f'server = "{site_url}"\ntoken = "mgw_secret"\nspool = "spool"\n{runtime}')
    path.chmod(0o600)
    return path


def scripts_on(python: str) -> str:
    """Extend a configuration: scripts are allowed, and there is a wheel to run them."""
    runtime = f'[[runtime]]\nversion = "1.13.0"\nkind = "wheel"\npath = "{python}"\n'
    return "[scripts]\nallow = true\n" + runtime


def test_enrol_writes_a_valid_configuration(site, tmp_path, binary, capsys):
    site.answer = (200, {"worker": "local", "token": "mgw_secret"})
    config = tmp_path / "etc" / "agent.toml"
    assert enrol(site.url + "/", config, "--runtime-binary", str(binary)) == 0
    body = json.loads(site.body)
    assert (site.requested_paths, body["code"]) == (["/api/agent/enrol/"], "AB-12")
    assert body["hostname"]
    read = load_config(config)
    assert (read.server, read.token) == (site.url, "mgw_secret")
    assert read.spool == config.parent / "spool"
    assert (read.runtimes[0].version, read.runtimes[0].path) == ("1.13.0", str(binary))
    assert read.warnings == ()
    assert "mgw_secret" not in config.read_text()
    assert (config.parent / "agent.token").stat().st_mode & 0o777 == 0o600
    assert "'local'" in capsys.readouterr().out


def test_enrol_replaces_a_configuration_only_with_force(site, tmp_path, capsys):
    site.answer = (200, {"worker": "local", "token": "mgw_new"})
    config = write_config(tmp_path, site.url)
    assert enrol(site.url, config) == 1
    assert "--force" in capsys.readouterr().err
    assert site.requested_paths == []
    assert enrol(site.url, config, "--force") == 0
    assert load_config(config).token == "mgw_new"


def test_enrolling_again_keeps_the_choices_of_the_owner(site, tmp_path, binary, capsys):
    site.answer = (200, {"worker": "local", "token": "mgw_old"})
    config = tmp_path / "agent.toml"
    enrol(site.url, config, "--runtime-binary", str(binary), "--update")
    before = config.read_text()
    chosen = before.replace("update = true", "update = false\nrequire_sandbox = true")
    chosen += '[labels]\nchip = "Kirin 990"\n'
    config.write_text(chosen)
    site.answer = (200, {"worker": "local", "token": "mgw_new"})
    assert enrol(site.url, config, "--update", "--force") == 0
    assert config.read_text() == chosen
    assert load_config(config).token == "mgw_new"
    assert f"{config} was kept" in capsys.readouterr().out
    config.write_text(chosen.replace(site.url, "https://other.example.org"))
    assert enrol(site.url, config, "--force") == 0
    assert load_config(config).server == site.url
    assert not load_config(config).require_sandbox


def test_enrol_with_a_used_code_explains_the_next_step(site, tmp_path, capsys):
    site.answer = (400, {"error": "code_used", "message": "This code was used."})
    assert enrol(site.url, tmp_path / "agent.toml") == 1
    errors = capsys.readouterr().err
    assert "This code was used. (each code can be used only once: an administrator can" in errors
    assert list(tmp_path.iterdir()) == []


def test_a_failed_enrol_keeps_the_old_token(site, tmp_path):
    site.answer = (200, {"worker": "local", "token": "mgw_old"})
    config = tmp_path / "agent.toml"
    enrol(site.url, config)
    site.answer = (400, {"error": "code_used", "message": "This code was used."})
    assert enrol(site.url, config, "--force") == 1
    assert load_config(config).token == "mgw_old"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("answer", [(200, b"<html>"), (404, b"nothing here"), (200, [])])
def test_enrol_at_another_kind_of_server_is_an_error(site, tmp_path, capsys, answer):
    site.answer = answer
    assert enrol(site.url, tmp_path / "agent.toml") == 1
    assert "is not MegEngine Web Profile" in capsys.readouterr().err


def test_an_error_of_a_proxy_does_not_blame_the_url(site, tmp_path, capsys):
    site.answer = (502, b"<html>Bad Gateway</html>")
    assert enrol(site.url, tmp_path / "agent.toml") == 1
    assert "answered 502: it may be restarting" in capsys.readouterr().err


def test_enrol_at_an_unreachable_server_is_an_error(tmp_path, capsys):
    assert enrol("http://127.0.0.1:9", tmp_path / "agent.toml") == 1
    assert "http://127.0.0.1:9 cannot be reached" in capsys.readouterr().err


def test_enrol_checks_the_runtime_before_it_uses_the_code(site, tmp_path, capsys):
    assert enrol(site.url, tmp_path / "agent.toml", "--runtime-binary", "/nowhere/l_a_r") == 1
    assert "/nowhere/l_a_r" in capsys.readouterr().err
    assert site.requested_paths == []


def test_enrol_refuses_two_runtimes_of_one_version_before_it_uses_the_code(
    site, tmp_path, binary, capsys
):
    again = tmp_path / "again"
    again.symlink_to(binary)
    words = ("--runtime-binary", str(binary), "--runtime-binary", str(again))
    assert enrol(site.url, tmp_path / "agent.toml", *words) == 1
    assert "runtime '1.13.0' is given twice" in capsys.readouterr().err
    assert site.requested_paths == []


def test_doctor_reports_no_problem_of_a_healthy_device(site, tmp_path, binary, capsys):
    site.healthy()
    runtime = f'[[runtime]]\nversion = "1.13.0"\nkind = "binary"\npath = "{binary}"\n'
    assert main(["doctor", "--config", str(write_config(tmp_path, site.url, runtime))]) == 0
    out = capsys.readouterr().out
    assert (site.requested_paths, site.authorization) == (
        ["/api/agent/check/"],
        "Bearer mgw_secret",
    )
    for line in (
        "ok            config",
        "ok            server",
        "ok            token     this device is 'local'",
    ):
        assert line in out
    assert "ok            runtime   MegEngine 1.13.0 (binary)" in out
    assert "note          gate      disabled: add a [gate] table" in out
    assert "ok            cores     " in out
    assert "ok            device    load, memory; " in out
    for setting in ("smt", "governor", "turbo", "aslr", "thp", "irq", "quota", "cpuset"):
        assert re.search(rf"^(ok|unfavourable|unknown) +{setting} +\w", out, re.MULTILINE), setting
    assert "ok            cache     downloaded files: at most 10.0 GiB" in out
    assert (
        "ok            scripts   not allowed: tasks can run models only. To allow scripts, set"
        in out
    )
    assert f"section [scripts] of {tmp_path.resolve()}/" in out
    assert "mgw_secret" not in out


def test_doctor_reports_an_unknown_token_and_the_next_step(site, tmp_path, capsys):
    site.answer = (401, {"error": "unknown_token", "message": "This token is unknown."})
    assert main(["doctor", "--config", str(write_config(tmp_path, site.url))]) == 1
    out = capsys.readouterr().out
    assert (
        "problem       token     the server refused the request: This token is unknown.: create "
        in out
    )
    assert "problem       runtime   none: add a [[runtime]]" in out


def test_doctor_reports_the_clock_offset(site, tmp_path, capsys):
    site.healthy(ahead_s=60)
    main(["doctor", "--config", str(write_config(tmp_path, site.url))])
    assert "note          clock     60 s behind the server's" in capsys.readouterr().out


def test_doctor_reports_why_no_model_can_run(site, tmp_path, capsys, monkeypatch):
    site.healthy()
    monkeypatch.setenv("PATH", str(tmp_path))
    settings = "require_sandbox = true\n[measure]\ncores = [999]\n[gate]\nwait_s = 7\n"
    assert main(["doctor", "--config", str(write_config(tmp_path, site.url, settings))]) == 1
    out = capsys.readouterr().out
    assert (
        "problem       sandbox   none, but `require_sandbox` is set: models cannot run. bubblewrap"
        in out
    )
    assert "problem       cores     cores [999] are not available" in out
    assert (
        "ok            gate      other load below 0.5 cores, CPU below 85 °C; waits up to 7 s"
        in out
    )


def test_doctor_reports_why_no_allowed_script_can_run(site, tmp_path, capsys, monkeypatch):
    site.healthy()
    config = write_config(tmp_path, site.url, "[scripts]\nallow = true\n")
    assert main(["doctor", "--config", str(config)]) == 1
    assert "problem       scripts   allowed, but none can run. " in capsys.readouterr().out
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["doctor", "--config", str(config)]) == 1
    words = "allowed, but none can run. Scripts run in a sandbox only. bubblewrap is not installed"
    assert words in capsys.readouterr().out


@pytest.mark.megengine
def test_doctor_explains_the_risk_of_allowing_scripts(site, tmp_path, capsys, megengine_python):
    need("bubblewrap")
    site.healthy()
    config = write_config(tmp_path, site.url, scripts_on(megengine_python))
    main(["doctor", "--config", str(config)])
    words = "allowed: all users of this device can run programs on it, in a closed sandbox, "
    out = capsys.readouterr().out
    assert f"scripts   {words}" in out
    assert ("as a separate user" in out) == (os.geteuid() == 0 and bool(shutil.which("setpriv")))


@pytest.mark.megengine
@pytest.mark.skipif(os.geteuid() != 0, reason="about an agent that runs as root")
def test_doctor_warns_if_scripts_would_run_as_root(
    site, tmp_path, capsys, monkeypatch, megengine_python
):
    need("bubblewrap")
    site.healthy()
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "setpriv" else which(name))
    config = write_config(tmp_path, site.url, scripts_on(megengine_python))
    main(["doctor", "--config", str(config)])
    out = capsys.readouterr().out
    assert "note          scripts   allowed: " in out
    assert "as root, in a separate namespace: to use a separate user, install setpriv" in out


@pytest.mark.megengine
@pytest.mark.skipif(os.geteuid() != 0, reason="root looks at another user's agent")
def test_doctor_does_not_change_the_spool_of_another_user(site, tmp_path, capsys, megengine_python):
    need("bubblewrap")
    site.healthy()
    config = write_config(tmp_path, site.url, scripts_on(megengine_python))
    spool = tmp_path / "spool"
    spool.mkdir(exist_ok=True)
    (spool / "seccomp.bpf").write_bytes(b"the agent's")
    for path in (spool, spool / "seccomp.bpf"):
        os.chown(path, 1234, 1234)
    main(["doctor", "--config", str(config)])
    assert "the spool belongs to user 1234: run doctor as that user" in capsys.readouterr().out
    assert (spool / "seccomp.bpf").read_bytes() == b"the agent's"
    assert (spool / "seccomp.bpf").stat().st_uid == 1234


def test_doctor_reports_a_missing_configuration(tmp_path, capsys):
    assert main(["doctor", "--config", str(tmp_path / "none.toml")]) == 1
    assert "python -m agent enrol" in capsys.readouterr().out


def test_doctor_reports_an_unreachable_server(tmp_path, capsys):
    assert main(["doctor", "--config", str(write_config(tmp_path, "http://127.0.0.1:9"))]) == 1
    assert "cannot be reached" in capsys.readouterr().out


def test_run_without_a_configuration_exits_with_1(tmp_path, capsys):
    assert main(["run", "--config", str(tmp_path / "none.toml")]) == 1
    assert "agent enrol" in capsys.readouterr().err
