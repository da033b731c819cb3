"""`agent runtime add`, `list` and `check`: what they print, write and return."""

import json
import stat
from pathlib import Path

import pytest

from agent.config import load_config
from agent.runtimes.config_file import append_runtime, checks_path
from agent.runtimes.install import RuntimeProblem
from agent.runtimes.manage import runtime_add, runtime_check, runtime_list
from agent.runtimes.tests.fake_load_and_run import install_fake

BEGINNING = b"""\
# written by hand \xe4\xbd\xa0
server = "https://profile.example.org"   # ours
token = "mgw_secret"
spool = "spool"\r
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "device" / "agent.toml"
    path.parent.mkdir()
    path.write_bytes(BEGINNING)
    path.chmod(0o600)
    return path


def test_a_wheel_is_installed_and_added(config, python_folder, capsys):
    assert runtime_add(config, "1.13.0") == 0
    assert "Added MegEngine 1.13.0" in capsys.readouterr().out
    assert config.read_bytes().startswith(BEGINNING)  # unchanged
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    (entry,) = load_config(config).runtimes
    assert (entry.version, entry.kind) == ("1.13.0", "wheel")
    assert entry.path.endswith("megengine-1.13.0-py3.10/bin/python")
    assert [path.name for path in config.parent.iterdir()] == ["agent.toml"]


def test_several_runtimes_can_be_added(config, python_folder, tmp_path):
    (python_folder / "version").write_text("1.12.0")
    assert runtime_add(config, "1.12.0") == 0
    for version in ("1.6.0", "1.10.0"):
        binary = install_fake(tmp_path, version)
        assert runtime_add(config, version, binary=str(binary)) == 0
    entries = [(entry.version, entry.kind) for entry in load_config(config).runtimes]
    assert entries == [("1.12.0", "wheel"), ("1.6.0", "binary"), ("1.10.0", "binary")]


def test_an_existing_version_is_rejected_before_the_installation(config, python_folder, capsys):
    assert runtime_add(config, "1.13.0") == 0
    before, calls = config.read_bytes(), (python_folder / "calls.txt").read_text()
    assert runtime_add(config, "1.13.0") == 1
    assert "already" in capsys.readouterr().err
    assert config.read_bytes() == before and (python_folder / "calls.txt").read_text() == calls


def test_a_version_without_a_wheel_changes_nothing(config, python_folder, capsys):
    (python_folder / "no-wheel").write_text(
        "ERROR: No matching distribution found for MegEngine==1.9.0"
    )
    assert runtime_add(config, "1.9.0") == 1
    assert "PyPI has MegEngine 1.13.0 for Linux x86-64" in capsys.readouterr().err
    assert config.read_bytes() == BEGINNING


@pytest.mark.parametrize(
    ("version", "name", "problem"),
    [("1.12.0", "", "is MegEngine 1.13.0, not 1.12.0"), ("1.13.0", "none", "is not a file")],
)
def test_an_invalid_binary_is_rejected(version, name, problem, config, tmp_path, capsys):
    binary = tmp_path / name if name else install_fake(tmp_path)
    assert runtime_add(config, version, binary=str(binary)) == 1
    assert problem in capsys.readouterr().err
    assert config.read_bytes() == BEGINNING


def test_a_configuration_without_a_final_line_break_is_extended(config):
    config.write_bytes(BEGINNING.rstrip())
    append_runtime(config, "1.13.0", "binary", '/opt/my "mge"/load_and_run')
    assert load_config(config).runtimes[0].path == '/opt/my "mge"/load_and_run'


@pytest.mark.parametrize(
    "content",
    [
        BEGINNING + b'runtime = [{version = "1.0", kind = "binary", path = "/x"}]\n',
        BEGINNING + b"broken",
        b"\xff",
    ],
)
def test_a_configuration_that_cannot_be_extended_is_not_changed(content, config):
    config.write_bytes(content)
    with pytest.raises(RuntimeProblem, match="add it yourself"):
        append_runtime(config, "1.13.0", "wheel", "/x")
    assert config.read_bytes() == content


def test_a_link_to_the_configuration_stays_a_link(config, tmp_path):
    link = tmp_path / "link.toml"
    link.symlink_to(config)
    append_runtime(link, "1.13.0", "wheel", "/x")
    assert link.is_symlink() and load_config(config).runtimes[0].version == "1.13.0"


def test_a_missing_configuration_is_a_problem(tmp_path, capsys):
    none = tmp_path / "none.toml"
    assert runtime_add(none, "1.13.0") == runtime_list(none) == runtime_check(none) == 1
    assert capsys.readouterr().err.count("does not exist") == 3


def test_list_shows_the_state_of_each_runtime(config, tmp_path, capsys):
    assert runtime_list(config) == 0
    assert "runtime add" in capsys.readouterr().out
    good = install_fake(tmp_path, "1.10.0")
    append_runtime(config, "1.10.0", "binary", str(good))
    append_runtime(config, "1.9.0", "binary", str(tmp_path / "gone"))
    assert runtime_list(config) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.split()[:2] == ["1.10.0", "binary"] and str(good) in first
    assert "not checked yet" in first and "missing" in second
    runtime_check(config, "1.10.0")
    capsys.readouterr()
    runtime_list(config)
    assert "works (checked 20" in capsys.readouterr().out.splitlines()[0]


def test_check_of_a_binary_without_a_wheel_runs_no_model(config, tmp_path, capsys):
    append_runtime(config, "1.6.0", "binary", str(install_fake(tmp_path, "1.6.0")))
    assert runtime_check(config) == 0
    out = capsys.readouterr().out
    assert "not run: there is no MegEngine wheel" in out and "style legacy" in out
    record = json.loads(checks_path(config).read_text())["1.6.0"]
    assert record["problem"] == ""
    assert record["checked_at"].endswith("+00:00")


@pytest.fixture
def model_maker(config: Path, tmp_path: Path) -> Path:
    """A wheel whose interpreter makes a model (any bytes), but cannot run one."""
    python = tmp_path / "wheel" / "python"
    python.parent.mkdir()
    python.write_text(
        '#!/bin/sh\ncase "$2" in *tiny.dump*) printf "%0500d" 7 > "$3" ;;\n'
        """*) echo 'mgw-runtime:["1.13.0", "3.10.1"]' ;; esac\n"""
    )
    python.chmod(0o755)
    append_runtime(config, "1.13.0", "wheel", str(python))
    return python


@pytest.mark.parametrize("version", ["1.6.0", "1.9.1", "1.11.1"])
def test_check_of_a_binary_runs_a_model_made_by_a_wheel(
    version, model_maker, config, tmp_path, capsys
):
    append_runtime(config, version, "binary", str(install_fake(tmp_path, version)))
    assert runtime_check(config, version) == 0
    out = capsys.readouterr().out
    assert "a small model ran in 0.0" in out and "devices  cpu\n" in out
    # the binary has CUDA, but its run shows that this machine has none
    assert "CUDA     not usable" in out
    if version != "1.6.0":
        assert "built    cuda" in out and "request gpu0" in out


def test_check_reports_a_runtime_that_cannot_run_the_model(model_maker, config, capsys):
    assert runtime_check(config) == 1
    assert "PROBLEM  the small model did not run" in capsys.readouterr().out
    assert json.loads(checks_path(config).read_text())["1.13.0"]["problem"]


def test_check_reports_a_runtime_of_another_version(config, tmp_path, capsys):
    append_runtime(config, "1.12.0", "binary", str(install_fake(tmp_path)))
    assert runtime_check(config) == 1
    assert "is MegEngine 1.13.0, but the configuration says 1.12.0" in capsys.readouterr().out


def test_check_of_an_unknown_version_is_an_error(config, capsys):
    assert runtime_check(config, "1.5.0") == 1
    assert "no runtime 1.5.0" in capsys.readouterr().err
    assert not checks_path(config).exists()


@pytest.mark.parametrize("content", ["", "[]", '{"1.13.0": 1}', "{"])
def test_a_damaged_record_of_checks_is_ignored(content, config, tmp_path):
    append_runtime(config, "1.13.0", "binary", str(install_fake(tmp_path)))
    checks_path(config).write_text(content)
    assert runtime_list(config) == 0
    assert runtime_check(config) == 0


@pytest.mark.exhaustive
@pytest.mark.megengine
def test_check_of_the_real_wheel_succeeds(megengine_python, config, capsys):
    append_runtime(config, "1.13.0", "wheel", megengine_python)
    # its limits are measured by a test that runs alone
    code, out = runtime_check(config, limits=False), capsys.readouterr().out
    assert code == 0, out
    assert "version  1.13.0" in out and "devices  cpu" in out and "a small model ran" in out
