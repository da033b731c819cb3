"""A device with a fake wheel, whose process is pre-started."""

from pathlib import Path
from typing import TYPE_CHECKING

from agent.inventory import LocalRuntime
from agent.protocol.messages import RuntimeInfo
from agent.tests.fakes import NORMAL_RUN, is_alive, make_load_and_run, wait_until

if TYPE_CHECKING:
    from agent.tests.conftest import AgentDevice

#: an interpreter with the wheel that records in `pids` how it was started
INTERPRETER = """\
import json
is_warm = sys.argv[2:] == ["--wait-for-arguments"]
with open({pids!r}, "a") as pids:
    pids.write(("warm " if is_warm else "cold ") + str(os.getpid()) + "\\n")
if is_warm:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    sys.argv[2:] = json.loads(line)
{body}"""


class WarmDevice:
    """A device with one wheel; `start_kinds` tells how its processes were started."""

    def __init__(self, device: "AgentDevice") -> None:
        self.device, self.pids = device, device.folder / "pids"
        self.install()

    def install(self, body: str = NORMAL_RUN, versions: tuple[str, ...] = ("1.13.0",)) -> None:
        text = INTERPRETER.format(pids=str(self.pids), body=body)
        path = make_load_and_run(self.device.folder, text)
        self.device.runtimes = {
            version: LocalRuntime(RuntimeInfo(version=version, kind="wheel"), (str(path), "folder"))
            for version in versions
        }

    def start_kinds(self) -> list[str]:
        return [line.split()[0] for line in self._lines()]

    def pid(self, number: int = -1) -> int:
        return int(self._lines()[number].split()[1])

    async def wait_for_processes(self, count: int = 1) -> None:
        """Wait until `count` processes have been pre-started in total."""
        await wait_until(lambda: self.start_kinds().count("warm") >= count)

    def folders(self) -> list[Path]:
        return list((self.device.spool / "warm").iterdir())

    def _lines(self) -> list[str]:
        if not self.pids.exists():
            return []
        return [line for line in self.pids.read_text().splitlines(keepends=True) if "\n" in line]


async def wait_until_gone(pid: int) -> None:
    await wait_until(lambda: not is_alive(pid))


PROBE = """\
import socket
def try_to(name, act):
    try:
        say(name + " " + str(act()))
    except OSError as error:
        say(name + " " + type(error).__name__)
attempts = os.path.dirname(os.path.dirname(os.getcwd()))
try_to("token", lambda: repr(open({token!r}).read()))
try_to("site", lambda: open({site!r}).read())
try_to("others", lambda: os.listdir(attempts) == [os.path.basename(os.path.dirname(os.getcwd()))])
try_to("write", lambda: open({outside!r}, "w"))
try_to("network", lambda: socket.create_connection(("127.0.0.1", {port}), 1))
try_to("home", lambda: open({home!r}).read())
try_to("homes", lambda: sorted(set(os.listdir("/root")) & {{".bashrc", ".profile", ".ssh"}}))
try_to("services", lambda: os.listdir("/run"))
try_to("memory", lambda: os.listdir("/dev/shm"))
try_to("powers", lambda: open("/proc/self/status").read().split("CapEff:")[1].split()[0])
disks = ("vd", "sd", "nvme")
try_to("disk", lambda: [name for name in os.listdir("/dev") if name.startswith(disks)])
try_to("kernel", lambda: open("/proc/sys/kernel/core_pattern", "a"))
try_to("parent", lambda: os.kill({agent}, 0))
try_to("processes", lambda: len([name for name in os.listdir("/proc") if name.isdigit()]) < 5)
write_profile()
"""
