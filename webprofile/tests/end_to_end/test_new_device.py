"""End-to-end test from the pasted installation command to a task on the new device."""

import hashlib
import html
import io
import json
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from webprofile.operations.devserver.demo import ONLINE_WITHIN_S, Visitor
from webprofile.operations.devserver.site import ADMIN
from webprofile.tests.end_to_end.runs import page, submit, submit_form, watch
from webprofile.tests.site import ROOT, EmbeddedSite

pytestmark = [pytest.mark.exhaustive, pytest.mark.megengine, pytest.mark.embedded]


@pytest.fixture(scope="module")
def administrator(site: EmbeddedSite) -> Iterator[Visitor]:
    visitor = Visitor(site.address, {"email": ADMIN, "password": site.admin_password})
    yield visitor
    visitor.close()


def install_command(administrator: Visitor, name: str) -> str:
    """Register a device; return the command that its page shows."""
    fields = {"name": name, "slots": "1", "labels": "", "is_public": "on"}
    text = submit_form(administrator, "/admin/workers/worker/add/", **fields)
    command = re.search(r">(curl [^<]*)<", text)
    assert command, text
    return html.unescape(command[1])


def paste(line: str, folder: Path, megengine_python: str) -> str:
    """Run a command as on a machine with Python and one MegEngine; return its output."""
    programs = folder / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    python = programs / "python3"
    if not python.exists():
        python.symlink_to(getattr(sys, "_base_executable", sys.executable))
    environment = {
        "HOME": str(folder),
        "PATH": f"{programs}:/usr/bin:/bin",
        "MEGENGINE_PYTHON": megengine_python,
    }
    result = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


@dataclass(frozen=True)
class NewDevice:
    """The device that the command installed, and the output of the command."""

    home: Path
    line: str
    output: str
    python: str

    @property
    def folder(self) -> Path:
        return self.home.parent

    def reconnect(self) -> None:
        """Kill agent and launcher, and start the launcher again."""
        launcher = int((self.home / "launch.pid").read_text())
        (agent,) = psutil.Process(launcher).children()
        agent.kill()
        wait_until(lambda: not psutil.pid_exists(launcher))
        command = f"python3 -I {self.home}/launch.py >/dev/null 2>&1 & echo $!"
        (self.home / "launch.pid").write_text(paste(command, self.folder, self.python).strip())


@pytest.fixture(scope="module")
def device(administrator, megengine_python: str, tmp_path_factory) -> Iterator[NewDevice]:
    home = tmp_path_factory.mktemp("pasted") / "agent"
    line = f"{install_command(administrator, 'pasted')} --no-service --no-measure --home {home}"
    try:
        yield NewDevice(home, line, paste(line, home.parent, megengine_python), megengine_python)
    finally:
        script = ROOT / "agent" / "install" / "install.py"
        paste(f"python3 {script} --uninstall --home {home}", home.parent, "")
    assert not home.exists()


def test_pasted_command_installs_a_device_that_runs_a_task(visitor, device: NewDevice, testdata):
    assert "This device is enrolled as 'pasted'." in device.output
    worker = visitor.device("pasted")
    assert [runtime["problem"] for runtime in worker["runtimes"]] == [""]
    assert (device.home / "agent.token").stat().st_mode & 0o777 == 0o600
    assert device.home.stat().st_mode & 0o777 == 0o700

    task = submit(
        visitor,
        {testdata / "models" / "tiny.mge": {"kind": "model"}},
        on="pasted",
        runtime_version=worker["runtimes"][0]["version"],
        options={"iter": 3},
        plan={"preset": "quick"},
    )
    assert watch(visitor, task)[0][-1] == "succeeded", page(visitor, task)


def test_health_check_of_the_device_passes(administrator, visitor, device: NewDevice):
    visitor.device("pasted")
    submit_form(administrator, "/workers/pasted/check/")
    wait_until(lambda: ">passed</span>" in visitor.get("/workers/pasted/").text)
    text = visitor.get("/workers/pasted/").text
    assert re.search(r"\d (ms|µs|us)</td>", text)
    assert "health.mge" not in text + visitor.get("/tasks/").text


def test_pasting_the_same_command_again_changes_nothing(visitor, device: NewDevice):
    before = (device.home / "agent.token").read_text()
    output = paste(device.line, device.folder, device.python)
    assert "This device is already enrolled as pasted." in output
    assert "Downloading" not in output
    assert (device.home / "agent.token").read_text() == before
    visitor.device("pasted")


def test_enrolment_code_works_once(device: NewDevice, tmp_path):
    line = device.line.replace(str(device.home), str(tmp_path / "agent"))
    with pytest.raises(AssertionError, match="each code can be used only once"):
        paste(line, tmp_path, device.python)
    assert not (tmp_path / "agent" / "agent.toml").exists()


def test_agent_updates_to_the_version_of_the_site(site: EmbeddedSite, visitor, device: NewDevice):
    old = (device.home / "agent.pyz").read_bytes()
    new = serve_agent(site, old, "0.1.0+00000001")
    device.reconnect()
    wait_until(lambda: (device.home / "agent.pyz").read_bytes() == new)
    wait_until(lambda: not (device.home / "trial").exists())
    assert (device.home / "agent.before.pyz").read_bytes() == old
    visitor.device("pasted")
    text = visitor.get("/workers/pasted/").text
    assert "0.1.0+00000001" in text
    assert "this site has" not in text


def test_agent_rolls_back_a_broken_version(site: EmbeddedSite, visitor, device: NewDevice):
    good = (device.home / "agent.pyz").read_bytes()
    serve_agent(site, good, "0.1.0+00000002", main=b"raise SystemExit(1)")
    device.reconnect()
    wait_until(lambda: (device.home / "refused.json").exists())
    wait_until(lambda: (device.home / "agent.pyz").read_bytes() == good)
    visitor.device("pasted")
    wait_until(lambda: "this site has 0.1.0+00000002" in visitor.get("/workers/pasted/").text)


def serve_agent(
    site: EmbeddedSite, bundle: bytes, version: str, main: bytes | None = None
) -> bytes:
    """Let the site serve this agent under another version; return the file."""
    changed = {"version.txt": version.encode()}
    changed["site/agent/__init__.py"] = f'__version__ = "{version}"\n'.encode()
    if main is not None:
        changed["__main__.py"] = main
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(bundle)) as source, zipfile.ZipFile(target, "w") as archive:
        for name in source.namelist():
            archive.writestr(name, changed.get(name) or source.read(name))
    content = target.getvalue()
    folder = site.home / "agent-files"
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / f"{version}.pyz").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    file = {"name": f"{version}.pyz", "sha256": digest, "size_bytes": len(content)}
    manifest |= {"version": version, "files": dict.fromkeys(manifest["files"], file)}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return content


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + ONLINE_WITHIN_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.5)
