"""`agent tune`: set the kernel's settings for measuring until `--restore` or a reboot.

The former contents of the files are stored durably in the agent's spool before anything changes,
so they can be restored however the command ended. It usually runs as root in a folder of another
user: only known files of the kernel are written, whatever the stored file contains.
"""

import errno
import fcntl
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints

from agent.config import ConfigError, load_config
from agent.device.cores import CoresUnavailable
from agent.device.settings import SMT, Machine, Setting, read_settings
from agent.execution.spool import sync_folder

RECORD_NAME = "tuning.json"
_RESTART = "Restart the agent: its cores have changed."
_TUNABLE = re.compile(
    r"sys/devices/system/cpu/(smt/control|intel_pstate/no_turbo|cpufreq/boost"
    r"|cpu\d+/cpufreq/scaling_governor)"
    r"|sys/kernel/mm/transparent_hugepage/enabled"
    r"|proc/sys/kernel/randomize_va_space|proc/irq/\d+/smp_affinity_list",
    re.ASCII,
)


class TuneError(RuntimeError):
    """Nothing can be set or restored; the text contains the cause and what to do."""


def _tunable(path: str) -> str:
    if not _TUNABLE.fullmatch(path):
        raise ValueError(f"{path!r} is not a file that `agent tune` sets")
    return path


class Tuning(BaseModel):
    """What `agent tune` changed since the kernel started: the former contents of files by path."""

    model_config = ConfigDict(frozen=True)

    boot: str
    former: dict[
        Annotated[str, AfterValidator(_tunable)],
        Annotated[str, StringConstraints(pattern=r"^[a-z0-9_,-]{1,1000}$")],
    ]


def tune(config: Path, *, restore: bool = False, machine: Machine | None = None) -> int:
    """Set or restore the settings, and print each; return 1 if one could not be, else 0."""
    try:
        loaded = load_config(config)
        machine = machine or Machine(configured=loaded.cores)
        with _locked(loaded.spool):
            if restore:
                return _restore(loaded.spool, machine)
            return _set(loaded.spool, machine, config)
    except CoresUnavailable as exc:
        problem = f"{exc}: correct `cores` of [measure]"
    except (ConfigError, TuneError, OSError) as exc:
        problem = str(exc)
    print(f"agent: {problem}", file=sys.stderr)
    return 1


def read_tuning(spool: Path) -> Tuning | None:
    """Return what an earlier `agent tune` stored, None if there is nothing. Raises TuneError."""
    path = spool / RECORD_NAME
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), encoding="utf-8") as file:
            return Tuning.model_validate_json(file.read())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as exc:
        problem = exc.strerror if isinstance(exc, OSError) else "`agent tune` did not write it"
        text = f"{path} cannot be read ({problem}), so the previous settings are unknown: delete "
        raise TuneError(f"{text}the file and restart the device, which resets them") from exc


def describe_tuning(spool: Path, machine: Machine) -> str:
    """Return whether the device is tuned, in words; empty if it never was. Raises TuneError."""
    tuning = read_tuning(spool)
    if tuning is None:
        return ""
    if tuning.boot != machine.boot():
        return "a reboot has reset what `agent tune` set: run it again, or `agent tune --restore`"
    return "set by `agent tune`; `agent tune --restore` restores the previous settings"


def _set(spool: Path, machine: Machine, config: Path) -> int:
    stored, settings = read_tuning(spool), read_settings(machine)
    earlier = stored.former if stored and stored.boot == machine.boot() else {}
    former = {path: text for setting in settings for path, text in setting.files.items()} | earlier
    done: dict[str, str] = {}
    if any(setting.wanted for setting in settings):
        _store(spool, Tuning(boot=machine.boot(), former=former))
        _write(machine, settings[0], done)
        # without SMT, runs have other cores, and fewer files exist
        for setting in read_settings(machine)[1:]:
            _write(machine, setting, done)
    _keep_changed(spool, machine, former)
    for setting in read_settings(machine):
        level = done.get(setting.name, setting.level)
        print(f"{level:14}{setting.name:10}{setting.text}")
    if done.get("smt") == "set":
        print(_RESTART)
    if earlier or "set" in done.values():
        print(f"The settings last until a reboot, or: agent tune --restore --config {config}")
    if "failed" not in done.values():
        return 0
    text = "agent: not all settings could be set: run it as root, and not in a container"
    print(text, file=sys.stderr)
    return 1


def _write(machine: Machine, setting: Setting, done: dict[str, str]) -> None:
    """Write the wanted contents, and put `set` or `failed` into `done`."""
    for path, text in setting.wanted.items():
        error = _write_file(machine.root / path, text)
        # EIO: the kernel itself distributes the interrupts of some drivers
        if error is None or (error.errno == errno.EIO and setting.name == "irq"):
            done.setdefault(setting.name, "set")
        else:
            done[setting.name] = "failed"


def _restore(spool: Path, machine: Machine) -> int:
    tuning = read_tuning(spool)
    if tuning is None:
        print("Nothing to restore: the device is not tuned.")
        return 0
    if tuning.boot != machine.boot():
        _store(spool, None)
        print("Nothing to restore: a reboot has reset the settings.")
        return 0
    # SMT is the first, and brings the files of its cores back
    for path, text in tuning.former.items():
        now = machine.read(path)
        if now == text:
            continue
        error = _write_file(machine.root / path, text)
        level, why = ("failed", error.strerror) if error else ("restored", f"{now} -> {text}")
        print(f"{level:9}/{path}: {why}")
        if path == SMT and not error:
            print(_RESTART)
    if not _keep_changed(spool, machine, tuning.former):
        return 0
    print("agent: not all settings were restored: run it again as root", file=sys.stderr)
    return 1


def _keep_changed(spool: Path, machine: Machine, former: dict[str, str]) -> bool:
    """Store which files have other contents than before, and return whether there are any.

    Files that are missing, of a core that SMT turned off, count only if others are left.
    """
    changed = {path: text for path, text in former.items() if machine.read(path) != text}
    if not any(map(machine.read, changed)):
        changed = {}
    _store(spool, Tuning(boot=machine.boot(), former=changed) if changed else None)
    return bool(changed)


def _write_file(path: Path, text: str) -> OSError | None:
    try:
        with open(os.open(path, os.O_WRONLY | os.O_TRUNC), "w") as file:
            file.write(text)
    except OSError as exc:
        return exc
    return None


def _store(spool: Path, tuning: Tuning | None) -> None:
    """Replace the stored file atomically and durably; delete it if there is no `tuning`."""
    path, draft = spool / RECORD_NAME, spool / f"{RECORD_NAME}.new"
    draft.unlink(missing_ok=True)
    if tuning is None:
        path.unlink(missing_ok=True)
    else:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
        with open(descriptor, "w", encoding="utf-8") as file:
            # readable by the agent's user, if root writes it
            os.fchmod(descriptor, 0o644)
            file.write(tuning.model_dump_json(indent=1))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    sync_folder(spool)


@contextmanager
def _locked(spool: Path) -> Iterator[None]:
    """Lock the spool against another `agent tune`. Raises TuneError."""
    try:
        descriptor = os.open(spool, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as exc:
        # made by root, it would be closed to the agent's user
        text = f"the spool {spool} cannot be opened ({exc.strerror}): start the agent once first"
        raise TuneError(text) from exc
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise TuneError("another `agent tune` is running: wait until it ends") from exc
        yield
    finally:
        os.close(descriptor)
