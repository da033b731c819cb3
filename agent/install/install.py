"""Install the agent of MegEngine Web Profile on this device, or bring it up to date.

    curl -fsS https://your.site/agent/install.py | python3 - --code mge_... --start

All files are in one folder, which --uninstall removes. Running it again changes only what is
outdated. It uses only the standard library and syntax of Python 3.8, because it starts in any
Python and then searches for a newer one.
"""

import argparse
import hashlib
import json
import os
import platform
import pwd
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from typing import Callable, List, Optional

#: filled in by the site
SITE = ""

NAME = "megengine-web-profile-agent"
SERVICE = NAME + ".service"

UNIT = """\
[Unit]
Description=Agent of MegEngine Web Profile
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={command}
Restart=on-failure
RestartSec=10
RestartPreventExitStatus=2
KillMode=mixed
TimeoutStopSec=60
{user}
[Install]
WantedBy={target}
"""


class InstallError(Exception):
    """The installation failed; the text contains the cause and what to do."""


def main(arguments: Optional[List[str]] = None) -> int:
    options = parser().parse_args(arguments)
    options.home = os.path.abspath(os.path.expanduser(options.home or default_home()))
    try:
        if options.uninstall:
            uninstall(options.home)
        else:
            install(options)
    except (InstallError, OSError) as problem:
        sys.stderr.write("{}: {}\n".format(NAME, problem))
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(prog=NAME, description=__doc__.splitlines()[0])
    add = result.add_argument
    add("--server", default=SITE, metavar="URL", help="the site; default: that of this script")
    add("--code", default="", help="the one-time code from the device's page")
    add("--home", metavar="FOLDER", help="default: " + default_home())
    add(
        "--start",
        action="store_true",
        help="start the agent now and at each boot (for a user's service: at each login)",
    )
    add("--no-service", action="store_true", help="with --start: start a process, no service")
    add("--user", default="", help="as root: the user that the agent runs as")
    text = "if this device has none: ask, install the wheel, or continue without it"
    add("--megengine", choices=["ask", "install", "find"], default="ask", help=text)
    add("--no-measure", action="store_true", help="do not measure the peak performance (10 s)")
    add("--force", action="store_true", help="enrol again, also for another site")
    add("--uninstall", action="store_true", help="stop and remove the agent")
    return result


def default_home() -> str:
    return "/opt/" + NAME if os.geteuid() == 0 else "~/." + NAME


def install(options: argparse.Namespace) -> None:
    if not options.server:
        raise InstallError("give --server URL")
    site = options.server.rstrip("/")
    python = choose_python()
    os.makedirs(options.home, mode=0o700, exist_ok=True)
    options.user = choose_user(options.home, options.user)
    as_user(options.user, lambda: prepare(options, site, python))
    start(options, python)


def prepare(options: argparse.Namespace, site: str, python: str) -> None:
    if version_of(python) < [3, 11]:
        raise InstallError(f"the user cannot run {python}: run the command with another Python")
    bundle = fetch_agent(site, options.home, python)
    worker = enrolled_as(site, options.home)
    if worker and not options.force:
        say(f"This device is already enrolled as {worker}.")
    else:
        enrol(options, site, python, bundle)


def choose_user(home: str, requested: str) -> str:
    """Return the user that the agent runs as; empty for the current user. Raises InstallError.

    It is the requested user, or else the user of the existing installation. That user becomes the
    owner of the folder, because root must not run or write files that another user can change.
    """
    if os.geteuid():
        if requested:
            raise InstallError("only root can use --user")
        return ""
    unit, owner = read_text(unit_path()), os.lstat(home).st_uid
    try:
        if not requested and os.path.join(home, "launch.py") in unit:
            requested = unit.partition("\nUser=")[2].partition("\n")[0]
        user = pwd.getpwnam(requested) if requested else pwd.getpwuid(owner)
    except KeyError as error:
        raise InstallError(f"no such user: {error}") from None
    if owner not in (0, user.pw_uid):
        raise InstallError(
            f"{home} belongs to another user: give that user as --user, or another --home"
        )
    if owner != user.pw_uid and subprocess.run(["chown", "-hR", user.pw_name, home]).returncode:
        raise InstallError(f"the owner of {home} could not be changed to {user.pw_name}")
    return user.pw_name if user.pw_uid else ""


def as_user(name: str, work: Callable[[], None]) -> None:
    """Call `work` in a child process of that user, or here if `name` is empty.

    Raises InstallError.
    """
    child = os.fork() if name else 0
    if not name:
        work()
    elif child:
        if os.waitpid(child, 0)[1]:
            raise InstallError(f"the installation as user {name} failed; see above")
    else:
        try:
            become(name)
            work()
        except BaseException as problem:
            sys.stderr.write(f"{NAME}: {problem}\n")
            os._exit(1)
        os._exit(0)


def become(name: str) -> None:
    """Switch this process from root to that user, permanently."""
    user = pwd.getpwnam(name)
    os.initgroups(name, user.pw_gid)
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)
    os.environ.update(HOME=user.pw_dir, USER=name, LOGNAME=name)
    os.environ.pop("XDG_CACHE_HOME", None)


def choose_python() -> str:
    """Return the path of a Python that the agent supports, preferably this one.

    Raises InstallError.
    """
    is_linux = platform.system() == "Linux" and sys.maxsize > 2**32
    if not is_linux or platform.libc_ver()[0] != "glibc":
        raise InstallError("the agent needs 64-bit Linux with glibc 2.28 or newer")
    # the base Python of a virtual environment: pipx removes its environments after days
    current = getattr(sys, "_base_executable", "") or sys.executable
    for name in [current, "python3.13", "python3.12", "python3.11", "python3.14"]:
        path = shutil.which(name) if name else None
        if path and [3, 11] <= version_of(path)[:2] <= [3, 14]:
            return path
    raise InstallError(
        "the agent needs Python 3.11 to 3.14, and this is {}.{}.\n"
        "Install a newer one (Debian, Ubuntu: apt install python3.11; elsewhere: "
        "`uv python install 3.13`) and run the same command with it.".format(*sys.version_info[:2])
    )


def version_of(path: str) -> List[int]:
    """Return the version of a Python, e.g. [3, 11, 2]; [0] if it does not run."""
    command = [path, "-I", "-c", "import sys; print(list(sys.version_info[:3]))"]
    try:
        output = subprocess.check_output(command, stderr=subprocess.DEVNULL, timeout=20)
        return list(json.loads(output.decode()))
    except (OSError, ValueError, subprocess.SubprocessError):
        return [0]


def fetch_agent(site: str, home: str, python: str) -> str:
    """Download the site's agent and its launcher to the folder; return the agent's path."""
    try:
        manifest = json.loads(fetch(site + "/agent/manifest.json").decode())
        files = dict(manifest["files"])
    except (ValueError, KeyError, TypeError):
        raise InstallError(f"{site} is not MegEngine Web Profile: check the URL") from None
    kind = "linux-{}-cp3{}".format(platform.machine(), version_of(python)[1])
    file = files.get(kind)
    if file is None:
        raise InstallError(f"{site} has no agent for {kind}, only for: {', '.join(sorted(files))}")
    path = os.path.join(home, "agent.pyz")
    if hashlib.sha256(read_bytes(path)).hexdigest() != file["sha256"]:
        say(f"Downloading the agent {manifest['version']} ({file['size_bytes'] / 1e6:.0f} MB).")
        content = fetch("{}/agent/{}".format(site, file["name"]))
        if hashlib.sha256(content).hexdigest() != file["sha256"]:
            raise InstallError("the download is damaged: run the command again")
        write_file(path, content, 0o700)
    with zipfile.ZipFile(path) as bundle:
        launcher = bundle.read("site/agent/install/launch.py")
    write_file(os.path.join(home, "launch.py"), launcher, 0o600)
    return path


def fetch(url: str, token: str = "") -> bytes:
    request = urllib.request.Request(url, headers={"User-Agent": NAME + "-install"})
    if token:
        request.add_header("Authorization", "Bearer " + token)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        raise InstallError(f"{url} answered {error.code}") from None
    except OSError as error:
        raise InstallError(f"{url} cannot be reached: {error}") from None


def enrolled_as(site: str, home: str) -> str:
    """Return the device's name for the stored token; empty if the site does not accept it."""
    config = read_text(os.path.join(home, "agent.toml"))
    token = read_text(os.path.join(home, "agent.token")).strip()
    if not token or "server = {}\n".format(json.dumps(site)) not in config:
        return ""
    try:
        answer = json.loads(fetch(site + "/api/agent/check/", token).decode())
    except InstallError:
        return ""
    return str(answer["worker"])


def enrol(options: argparse.Namespace, site: str, python: str, bundle: str) -> None:
    config = os.path.join(options.home, "agent.toml")
    server = "server = {}\n".format(json.dumps(site))
    if os.path.exists(config) and server not in read_text(config) and not options.force:
        raise InstallError("{} is for another site: use --force to replace it".format(config))
    if not options.code:
        raise InstallError("give --code: an administrator creates one on the device's page")
    command = [python, "-I", bundle, "enrol", "--server", site, "--code", options.code]
    command += ["--config", config, "--update", "--find-runtimes", "--quiet"]
    command += ["--force"] if os.path.exists(config) else []
    if subprocess.run(command).returncode:
        raise InstallError("the device was not enrolled; see above")
    if "[[runtime]]" not in read_text(config):
        offer_megengine(options, python, bundle, config)
    if "[[runtime]]" in read_text(config) and not options.no_measure:
        # before the agent starts, because nothing else may run during the measurement
        say("Measuring the peak performance of this device.")
        subprocess.run([python, "-I", bundle, "runtime", "check", "--config", config])


def offer_megengine(options: argparse.Namespace, python: str, bundle: str, config: str) -> None:
    add = [python, "-I", bundle, "runtime", "add", "1.13.0", "--config", config]
    question = "No MegEngine was found here. Install 1.13.0 (downloads 0.9 GB)? [y/N] "
    is_requested = options.megengine == "install" or (options.megengine == "ask" and ask(question))
    if not is_requested or subprocess.run(add).returncode:
        say("This device needs MegEngine to run models. Install it (compiled: --binary PATH):")
        say("  " + (f"sudo -u {options.user} " if options.user else "") + " ".join(add))


def ask(question: str) -> bool:
    """Ask the user at the terminal; return False without one. stdin may be this script."""
    try:
        with open("/dev/tty", "w") as out, open("/dev/tty") as terminal:
            out.write(question)
            out.flush()
            return terminal.readline().strip().lower() in ("y", "yes")
    except OSError:
        return False


def start(options: argparse.Namespace, python: str) -> None:
    launcher = os.path.join(options.home, "launch.py")
    if options.no_service or not has_systemd():
        if options.start:
            stop_process(options.home)
            as_user(options.user, lambda: start_process(options.home, python, launcher))
        else:
            as_whom = f"sudo -u {options.user} " if options.user else ""
            say(f"To start the agent: {as_whom}{python} -I {launcher}")
        return
    target = "multi-user.target" if os.geteuid() == 0 else "default.target"
    user = "User={}\n".format(options.user) if options.user else ""
    command = " ".join(map(unit_word, (python, "-I", launcher)))
    unit = UNIT.format(command=command, target=target, user=user)
    os.makedirs(os.path.dirname(unit_path()), exist_ok=True)
    write_file(unit_path(), unit.encode(), 0o644)
    systemctl("daemon-reload")
    if not options.start:
        enable = " ".join([*systemctl_command(), "enable", "--now", SERVICE])
        say("To start the agent: {}".format(enable))
        return
    # started before with --no-service: two agents cannot share a folder
    stop_process(options.home)
    systemctl("enable", SERVICE)
    systemctl("restart", SERVICE)
    say("The agent is running: {}".format(" ".join([*systemctl_command(), "status", SERVICE])))
    if os.geteuid() == 0 and not options.user:
        say("It runs as root: use `--user NAME` to run it as a user with fewer permissions.")
    elif os.geteuid():
        say("To run it from boot and while you are logged out: loginctl enable-linger")


def unit_word(text: str) -> str:
    """Quote a word of a command line in a unit file (systemd.syntax(7), systemd.unit(5))."""
    if re.fullmatch(r"[A-Za-z0-9_./+:@=-]+", text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


def has_systemd() -> bool:
    return os.path.isdir("/run/systemd/system") and bool(shutil.which("systemctl"))


def systemctl_command() -> List[str]:
    return ["systemctl"] if os.geteuid() == 0 else ["systemctl", "--user"]


def systemctl(*words: str) -> None:
    process = subprocess.run(systemctl_command() + list(words), stderr=subprocess.PIPE)
    if process.returncode:
        message = process.stderr.decode(errors="replace").strip()
        raise InstallError(
            f"systemctl {' '.join(words)}: {message}\nTo run without a service, add --no-service"
        )


def unit_path() -> str:
    if os.geteuid() == 0:
        return "/etc/systemd/system/" + SERVICE
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(base, "systemd", "user", SERVICE)


def start_process(home: str, python: str, launcher: str) -> None:
    log = os.path.join(home, "agent.log")
    command = [python, "-I", launcher]
    with open(log, "ab") as out, open(os.devnull, "rb") as nothing:
        pid = subprocess.Popen(
            command, stdin=nothing, stdout=out, stderr=out, start_new_session=True, cwd=home
        ).pid
    write_file(os.path.join(home, "launch.pid"), str(pid).encode(), 0o600)
    say(f"The agent is running as process {pid}, until the next reboot. Log: {log}")


def stop_process(home: str) -> None:
    """Stop the launcher that `start_process` started; the launcher stops the agent."""
    text = read_text(os.path.join(home, "launch.pid"))
    if not text.isdigit() or not is_ours(int(text), home):
        return
    os.kill(int(text), signal.SIGTERM)
    deadline = time.monotonic() + 60
    while is_ours(int(text), home):
        if time.monotonic() > deadline:
            os.kill(int(text), signal.SIGKILL)
        time.sleep(0.1)


def is_ours(pid: int, home: str) -> bool:
    """Return whether the process is our launcher; pids are reused."""
    command = read_text("/proc/{}/cmdline".format(pid)).split("\0")
    return os.path.join(home, "launch.py") in command


def uninstall(home: str) -> None:
    if not os.path.exists(os.path.join(home, "launch.py")):
        raise InstallError("no agent is installed in {}".format(home))
    if os.path.exists(os.path.join(home, "spool", "tuning.json")):
        words = [choose_python(), "-I", os.path.join(home, "agent.pyz"), "tune", "--restore"]
        words += ["--config", os.path.join(home, "agent.toml")]
        command = " ".join(map(shlex.quote, words))
        raise InstallError("the device is tuned: run `{}` first".format(command))
    stop_process(home)
    launcher = os.path.join(home, "launch.py")
    if unit_word(launcher) in read_text(unit_path()):
        if has_systemd():
            systemctl("disable", "--now", SERVICE)
        os.unlink(unit_path())
    shutil.rmtree(home)
    say("The agent was removed. The site still lists the device; an administrator can retire it.")
    say("Installed versions of MegEngine stay in ~/.cache/megengine-web-profile.")


def write_file(path: str, content: bytes, mode: int) -> None:
    """Replace a file atomically, without following symbolic links."""
    handle, draft = tempfile.mkstemp(dir=os.path.dirname(path))
    with open(handle, "wb") as file:
        os.fchmod(handle, mode)
        file.write(content)
    os.replace(draft, path)


def read_bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def read_text(path: str) -> str:
    return read_bytes(path).decode("utf-8", "replace")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
