"""`make test-arm64`: test the agent on emulated 64-bit ARM. Started by hand.

Takes minutes and needs root, debootstrap and qemu-user. First it runs a task end to end: with a
site on this machine, an agent in an arm64 Debian, started by the entrypoint of its container, and a
fake load_and_run. Then it runs the tests of the agent there. Tests that need the wheel of
MegEngine, which arm64 does not have, are skipped; `emulation` lists those that qemu-user cannot
run.
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from testdata import DATA
from webprofile.operations.devserver.demo import Visitor, table
from webprofile.tests.arm64.emulation import deselect_options
from webprofile.tests.arm64.machine import ROOT, Machine, log
from webprofile.tests.end_to_end.runs import submit, watch
from webprofile.tests.site import EmbeddedSite, running_site

_NAME = "arm64-1"
_CODE = f"""
from workers.services import ensure_worker
from workers.tokens import issue_code
print(issue_code(ensure_worker(name={_NAME!r})))
"""
#: packages that the tests need in addition to those of the agent
_TOOLS = ("pytest", "pytest-asyncio", "hypothesis")
_WITHIN_S = 900.0
_INSTALL = """
import sys
sys.path.insert(0, "/opt/source/agent/runtimes/tests")
from fake_load_and_run import install_fake
print(install_fake("/opt/mge", "1.13.0", "-nocuda"))
"""


def main(arguments: list[str]) -> int:
    if os.geteuid():
        raise SystemExit("root is needed: chroot and mounts")
    # exit through the context manager, which stops all processes in the machine
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    with Machine(base / "megengine-web-profile" / "arm64") as machine:
        machine.install([ROOT / "requirements" / "agent.txt"], _TOOLS)
        if "--tests-only" not in arguments:
            run_a_task(machine)
        if "--task-only" in arguments:
            return 0
        return run_tests(machine, [word for word in arguments if not word.startswith("--t")])


def run_a_task(machine: Machine) -> None:
    """Run a task end to end. Raises AssertionError."""
    temporary = tempfile.TemporaryDirectory(prefix="mgw-arm64-")
    with temporary as home, running_site(Path(home) / "home") as site:
        agent = enrol(machine, site)
        try:
            with site.login() as visitor:
                check_worker(visitor, visitor.device(_NAME, _WITHIN_S))
                run_model(visitor)
        finally:
            machine.end(agent)


def enrol(machine: Machine, site: EmbeddedSite) -> subprocess.Popen[str]:
    (machine.root / "opt" / "mge").mkdir(exist_ok=True)
    machine.run(["/usr/bin/python3", "-c", _INSTALL])
    code = site.manage("shell", "-v", "0", "-c", _CODE).splitlines()[-1]
    home = "/var/lib/agent"
    machine.run(["sh", "-c", f"rm -rf {home} && mkdir -p {home} /usr/local/bin"])
    machine.run(["ln", "-sf", "/usr/bin/python3", "/usr/local/bin/python"])
    log(f"enrolling {_NAME}")
    return machine.start(
        [
            "PATH=/usr/local/bin:/usr/bin:/bin",
            f"SERVER={site.address}",
            f"ENROL_CODE={code}",
            f"AGENT_HOME={home}",
            "RUNTIME_BINARY=/opt/mge/load_and_run-1.13.0-nocuda",
            # qemu-user has no namespaces for bubblewrap
            "REQUIRE_SANDBOX=false",
            "/opt/source/docker/agent/entrypoint.sh",
            "run",
        ]
    )


def check_worker(visitor: Visitor, worker: dict) -> None:
    facts = worker["facts"]
    assert facts["machine"] == "aarch64", facts
    assert "aarch64" in visitor.get(f"/workers/{_NAME}/").text
    log(f"{_NAME} is online: {facts['machine']}, {facts['platform']}")


def run_model(visitor: Visitor) -> None:
    files = {
        DATA / "models" / "tiny.mge": {"kind": "model"},
        DATA / "inputs" / "tiny" / "data.npy": {"kind": "data", "input": "data"},
    }
    task = submit(visitor, files, on=_NAME, options={"iter": 4})
    assert watch(visitor, task)[0][-1] == "succeeded"
    text = table(visitor, task, 5)
    assert "total device time" in text.lower(), text
    log(f"task {task} succeeded on {_NAME}:\n{text}")


def run_tests(machine: Machine, arguments: list[str]) -> int:
    """Run the tests of the agent with a pytest.ini without Django; return the exit code."""
    (machine.root / "opt" / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
        "markers =\n    megengine\n    browser\n    embedded\n    alone\n"
    )
    command = ["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c"]
    command += ["/opt/pytest.ini", "--rootdir", "/opt/source", "--confcutdir", "/opt/source/agent"]
    command += deselect_options("/opt/source")
    if all(word.startswith("-") for word in arguments):
        command.append("/opt/source/agent")
    return machine.start([*command, *arguments]).wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
