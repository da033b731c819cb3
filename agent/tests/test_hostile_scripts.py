"""Hostile programs: what they can access, and how they are ended."""

import contextlib
import os
import socket
import sys
import tempfile
from pathlib import Path

import pytest

from agent.config import RunLimits
from agent.protocol.messages import AttemptStarted, Cancel, EndReason
from agent.tests.fakes import TOKEN, explanation, marked_processes
from agent.tests.script_device import ScriptDevice, allow_scripts

pytestmark = pytest.mark.megengine

PROBE = """\
import ctypes, fcntl, os, socket, subprocess, sys, termios

def try_to(name, act):
    try:
        print(name, act(), flush=True)
    except Exception as error:
        print(name, type(error).__name__, flush=True)

def reach(family, address):
    with socket.socket(family) as reaching:
        reaching.settimeout(2)
        reaching.connect(address)
    return "reached"

def write(folder):
    with open(os.path.join(folder, "written"), "w"):
        return "written"

token, work, agent, port, unix, abstract = sys.argv[1:]
attempts = os.path.dirname(os.path.dirname(os.path.dirname(os.getcwd())))
try_to("token", lambda: open(token).read())
try_to("others", lambda: os.listdir(attempts) == [os.path.basename(work)])
places = "/etc/shadow /etc/passwd /etc/ssh /etc/hostname /root/.ssh /var /run /home /boot /mnt /srv"
for path in (*places.split(), "/proc/" + agent):
    try_to("sees " + path, lambda: os.path.exists(path))
    try_to("names in " + path, lambda: ",".join(os.listdir(path)) or "none")
try_to("kill", lambda: os.kill(int(agent), 0))
try_to("processes", lambda: len([name for name in os.listdir("/proc") if name.isdigit()]))
try_to("network", lambda: reach(socket.AF_INET, ("127.0.0.1", int(port))))
try_to("world", lambda: reach(socket.AF_INET, ("1.1.1.1", 53)))
try_to("unix", lambda: reach(socket.AF_UNIX, unix))
try_to("abstract", lambda: reach(socket.AF_UNIX, "\\0" + abstract))
try_to("host", lambda: socket.socket(40, socket.SOCK_STREAM) and "made")
places = "/ /dev /etc /usr /usr/lib /proc /sys /root"
for folder in (*places.split(), os.path.dirname(sys.executable), os.path.dirname(os.__file__)):
    try_to("writes " + folder, lambda: write(folder))
for folder in (".", "..", "/tmp", "/dev/shm"):
    try_to("may write " + folder, lambda: write(folder))
try_to("kernel", lambda: open("/proc/sys/kernel/core_pattern", "a") and "opened")
try_to("terminal", lambda: open("/dev/tty", "w") and "opened")
try_to("push", lambda: [fcntl.ioctl(fd, termios.TIOCSTI, b"x") for fd in (0, 1, 2)])
try_to("open", lambda: sorted(os.listdir("/proc/self/fd"))[:4])
try_to("secrets", lambda: [name for name in os.environ if "TOKEN" in name or "KEY" in name])
try_to("values", lambda: [name for name in os.environ if os.environ[name] == "mgw_secret"])
libc = ctypes.CDLL(None, use_errno=True)
try_to("namespace", lambda: libc.unshare(0x10000000) and ctypes.get_errno())
try_to("mount", lambda: libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) and ctypes.get_errno())
try_to("root", lambda: libc.setuid(0) and ctypes.get_errno())
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
print("powers", {status[name].strip() for name in status if name.startswith("Cap")}, flush=True)
print("new ones", status["NoNewPrivs"].strip())
"""


#: what the sandbox mounts: the interpreter with its packages, and the runner
MOUNTED = (sys.prefix, sys.base_prefix, __file__)


@contextlib.contextmanager
def listening(family, address):
    with socket.socket(family) as listener:
        listener.bind(address)
        listener.listen()
        yield


async def test_a_script_can_access_only_its_folder(script_device, server):
    device, abstract = script_device.device, f"web-profile-{os.getpid()}"
    (device.spool / "attempts" / "another").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as public:
        unix = f"{public}/service.sock"
        with listening(socket.AF_UNIX, unix), listening(socket.AF_UNIX, "\0" + abstract):
            order = script_device.make_order(PROBE)
            work = device.spool / "attempts" / str(order.attempt)
            arguments = (
                *(str(device.folder / "agent.token"), str(work), str(os.getpid())),
                *(str(server.port), unix, abstract),
            )
            script = order.script.model_copy(update={"arguments": arguments})
            await server.send(order.model_copy(update={"script": script}))
            await server.wait_for_end(order, 60)
    lines = server.log_text().splitlines()
    report = dict(line.rsplit(" ", 1) for line in lines if line.count(" "))
    assert report["token"] == "FileNotFoundError"
    assert "others True" in lines
    seen = {name.removeprefix("sees "): report[name] for name in report if name.startswith("sees ")}
    # in a clone below /home that folder exists, and holds only the way to what is mounted
    for place in (place for place, is_seen in seen.items() if is_seen != "False"):
        ways = [Path(path).relative_to(place) for path in MOUNTED if path.startswith(f"{place}/")]
        names = set(report[f"names in {place}"].split(","))
        assert names <= {way.parts[0] for way in ways}, (place, names)
    assert len(seen) == 12
    assert report["kill"] == "ProcessLookupError"
    assert int(report["processes"]) < 4
    for way in ("network", "world", "unix", "abstract"):
        assert report[way] in ("ConnectionRefusedError", "OSError", "FileNotFoundError"), way
    assert report["host"] == "OSError"
    written = {name: report[name] for name in report if name.startswith("writes ")}
    assert set(written.values()) <= {"OSError", "PermissionError", "FileNotFoundError"}, written
    assert len(written) == 10
    assert {report[f"may write {path}"] for path in (".", "..", "/tmp", "/dev/shm")} == {"written"}
    assert report["kernel"] in ("OSError", "PermissionError", "FileNotFoundError")
    assert report["terminal"] == "OSError"
    assert report["push"] in ("OSError", "PermissionError")
    # 3 is the descriptor of the listing itself
    assert "open ['0', '1', '2', '3']" in lines
    assert "secrets []" in lines
    assert "values []" in lines
    assert report["namespace"] not in ("0", "None")
    assert (report["mount"], report["root"]) != ("0", "0")
    assert "powers {'0000000000000000'}" in lines
    assert report["new ones"] == "1"
    assert TOKEN not in server.log_text()


#: doubles eight times only, in case the test fails
FORK_BOMB = """\
import os, time
for level in range(8):
    os.fork()
    time.sleep(0.05)
time.sleep(30)
"""
#: starts processes in sessions of their own
LEAVE = """\
import os, subprocess, time
for n in range(8):
    subprocess.Popen(["setsid", "-f", "sleep", "60"])
time.sleep(0.5)
"""
#: exceeds 2 GiB, most of which are a hole
WRITE_LARGE_FILE = """\
block = b"x" * (8 << 20)
with open("large", "wb") as file:
    file.seek(2040 << 20)
    for n in range(4):
        file.write(block)
"""
WRITE_EVERYWHERE = """\
import os, time
for number, folder in enumerate((".", "..", "/tmp", "/dev/shm")):
    with open(os.path.join(folder, "part"), "wb") as file:
        file.write(b"x" * (40 << 20))
time.sleep(30)
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("program", "timeout_s", "reason", "words"),
    [
        ("while True: pass", 2, EndReason.TIMED_OUT, "Stopped after 2 s."),
        ("import time\ntime.sleep(60)", 60, EndReason.SILENT, "neither printed nor computed"),
        (FORK_BOMB, 60, EndReason.TOO_MANY_PROCESSES, "the limit is 60"),
        ("while True: print('x' * 1000)", 60, EndReason.LOG_TOO_LONG, "the limit is 8 MiB"),
        (WRITE_LARGE_FILE, 60, EndReason.OUTPUT_TOO_LARGE, "size limit"),
        (WRITE_EVERYWHERE, 60, EndReason.OUTPUT_TOO_LARGE, "the limit is 150 MiB"),
        ("b = bytearray(1 << 42)", 60, EndReason.EXITED, "MemoryError"),
        ("import os\nos.kill(os.getpid(), 11)", 60, EndReason.EXITED, "SIGSEGV"),
    ],
    ids=["endless", "silent", "forks", "prints", "file", "everywhere", "memory", "crash"],
)
async def test_a_script_that_exceeds_a_limit_is_ended(
    device, server, megengine_python, program, timeout_s, reason, words
):
    allow_scripts(device, megengine_python)
    disk_bytes = (150 << 20) if program is WRITE_EVERYWHERE else (4 << 30)
    device.changes["limits"] = RunLimits(
        silence_s=3, disk_bytes=disk_bytes, print_bytes=8 << 20, processes=60
    )
    device.start()
    script_device = ScriptDevice(device, server)
    order = script_device.make_order(program, timeout_s=timeout_s)
    await server.send(order)
    end = await server.wait_for_end(order, 60)
    assert end.reason is reason
    assert words in explanation(end)
    assert marked_processes(order.attempt) == []
    await device.wait_until_forgotten()


async def test_an_exit_code_that_looks_like_a_signal_is_reported_as_exited(script_device):
    for code in (137, 143, 152):
        for way in ("sys.exit({})", "os.kill(os.getpid(), {} - 128)"):
            end = await script_device.run("import os, sys\n" + way.format(code))
            assert (end.reason, end.exit_code) == (EndReason.EXITED, code), way


async def test_detached_processes_end_with_the_script(script_device, server):
    order = script_device.make_order(LEAVE)
    await server.send(order)
    await server.wait_for_end(order, 60)
    assert marked_processes(order.attempt) == []


async def test_cancel_kills_a_script_that_ignores_sigterm_and_its_processes(script_device, server):
    program = """\
        import os, signal, subprocess, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for n in range(5):
            subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
        print("begun", flush=True)
        time.sleep(600)
    """
    order = script_device.make_order(program)
    await server.send(order)
    await server.expect(AttemptStarted)
    await server.wait(
        lambda: any(
            "begun" in message.text for message in server.received if message.type == "attempt.log"
        )
    )
    await server.send(Cancel(attempt=order.attempt))
    end = await server.wait_for_end(order, 30)
    assert end.reason is EndReason.CANCELLED
    assert marked_processes(order.attempt) == []


async def test_a_link_in_place_of_the_traces_folder_is_not_followed(script_device, server):
    other = script_device.device.spool / "attempts" / "another"
    other.mkdir(parents=True)
    (other / "7.chrome_timeline.json").write_text("of another")
    program = (
        f"import os, shutil\nshutil.rmtree('../traces')\nos.symlink({str(other)!r}, '../traces')"
    )
    end = await script_device.run(program)
    assert end.reason is EndReason.NO_PROFILE
    assert "chrome_timeline.json" not in server.storage.stored
