"""`agent doctor`: check the agent's requirements; print one line each, with the next step."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
from pydantic import BaseModel, ValidationError

from agent.config import Config, ConfigError, load_config
from agent.device.cores import CoresUnavailable, format_cores
from agent.device.gpu import GpuReader
from agent.device.settings import Machine, read_settings
from agent.device.state import snapshot_now
from agent.enrol import explain_refusal, not_ours, unreachable
from agent.execution.sandbox import Sandbox, find_sandbox
from agent.execution.script_rules import ScriptRules
from agent.inventory import LocalRuntime, take_inventory
from agent.link.session import CLOCK_SLACK_S, ENROL_AGAIN
from agent.protocol.messages import PROTOCOL_VERSION
from agent.tune import TuneError, describe_tuning

#: room for a model, its data, a profile and much output
_FREE_BYTES = 4 << 30


@dataclass(frozen=True)
class Check:
    """Result of one check. `level` is ok, note (works, but could be better) or problem.

    For the kernel's settings it is ok, unfavourable (equal runs differ more than necessary) or
    unknown.
    """

    level: str
    name: str
    text: str


class _CheckResponse(BaseModel):
    worker: str
    server_time: float
    protocol: int


def report_health(config_path: Path) -> int:
    """Print the results of all checks; return 1 if one is a problem, else 0."""
    levels = []
    for check in examine(config_path):
        print(f"{check.level:14}{check.name:10}{check.text}")
        levels.append(check.level)
    return 1 if "problem" in levels else 0


def examine(config_path: Path) -> Iterator[Check]:
    """Run the checks one by one, and yield each result."""
    try:
        config = load_config(config_path)
    except ConfigError as exc:
        yield Check("problem", "config", str(exc))
        return
    yield Check("ok", "config", str(config_path))
    for warning in config.warnings:
        yield Check("note", "config", warning)
    yield from _check_server(config)
    runtimes = take_inventory(config.runtimes)
    yield from _check_runtimes(runtimes)
    yield from _check_spool(config)
    if config.spool.is_dir():  # otherwise the spool's check has reported it
        sandbox = find_sandbox(config.hidden_folders(), config.secret_files, config.show)
        yield _check_sandbox(config, sandbox)
        yield _check_scripts(config, sandbox, runtimes)
    yield from _check_measuring(config)


def _check_server(config: Config) -> Iterator[Check]:
    begin = time.time()
    try:
        response = httpx2.get(
            f"{config.server}/api/agent/check/",
            headers={"Authorization": f"Bearer {config.token}"},
            timeout=15,
        )
    except httpx2.HTTPError as exc:
        yield Check("problem", "server", unreachable(config.server, exc))
        return
    middle = (begin + time.time()) / 2
    if response.status_code in (401, 403):
        yield Check("ok", "server", config.server)
        refusal = explain_refusal(config.server, response)
        yield Check("problem", "token", f"{refusal}: {ENROL_AGAIN}")
        return
    try:
        answer = _CheckResponse.model_validate_json(response.content)
    except ValidationError:
        yield Check("problem", "server", not_ours(config.server, response.status_code))
        return
    yield Check("ok", "server", config.server)
    yield Check("ok", "token", f"this device is {answer.worker!r}")
    yield _compare_clocks(middle - answer.server_time)
    if answer.protocol != PROTOCOL_VERSION:
        text = (
            f"the server uses protocol {answer.protocol}, this agent {PROTOCOL_VERSION}: "
            "update the agent"
        )
        yield Check("note", "protocol", text)


def _compare_clocks(ahead_s: float) -> Check:
    if abs(ahead_s) <= CLOCK_SLACK_S:
        return Check("ok", "clock", f"within {CLOCK_SLACK_S:g} s of the server's")
    side = "ahead of" if ahead_s > 0 else "behind"
    text = f"{abs(ahead_s):.0f} s {side} the server's: turn on time synchronisation (NTP)"
    return Check("note", "clock", text)


def _check_runtimes(runtimes: dict[str, LocalRuntime]) -> Iterator[Check]:
    if not runtimes:
        yield Check("problem", "runtime", "none: add a [[runtime]] to the configuration")
    for version, runtime in runtimes.items():
        info = runtime.info
        if info.problem:
            yield Check("problem", "runtime", f"MegEngine {version}: {info.problem}")
        else:
            with_python = f", Python {info.python}" if info.python else ""
            yield Check("ok", "runtime", f"MegEngine {version} ({info.kind}{with_python})")


def _check_spool(config: Config) -> Iterator[Check]:
    try:
        config.spool.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe = config.spool / f"doctor-{os.getpid()}"
        probe.write_bytes(b"x")
        probe.unlink()
        free = shutil.disk_usage(config.spool).free
    except OSError as exc:
        text = f"{config.spool}: {exc.strerror}: choose another `spool`, or correct its permissions"
        yield Check("problem", "spool", text)
        return
    level = "ok" if free >= _FREE_BYTES else "note"
    need = "" if level == "ok" else f": below {_FREE_BYTES >> 30} GiB, large models may not fit"
    yield Check(level, "spool", f"{config.spool}, {free / (1 << 30):.1f} GiB free{need}")
    cached = f"at most {config.cache_bytes / (1 << 30):.1f} GiB" if config.cache_bytes else "off"
    yield Check("ok", "cache", f"downloaded files: {cached}")


def _check_sandbox(config: Config, sandbox: Sandbox) -> Check:
    if not sandbox.problem:
        return Check("ok", "sandbox", sandbox.bwrap)
    if config.require_sandbox:
        text = f"none, but `require_sandbox` is set: models cannot run. {sandbox.problem}"
        return Check("problem", "sandbox", text)
    return Check("note", "sandbox", f"none: models run without a sandbox. {sandbox.problem}")


def _check_scripts(config: Config, sandbox: Sandbox, runtimes: dict[str, LocalRuntime]) -> Check:
    if not config.allow_scripts:
        text = (
            "not allowed: tasks can run models only. To allow scripts, set `allow = true` in the "
        )
        text += f"section [scripts] of {config.file}; a running agent applies it between two tasks"
        return Check("ok", "scripts", text)
    pythons = list(runtimes.values())
    # not in the spool, where files of root would be unreadable for the agent's user
    with tempfile.TemporaryDirectory() as folder:
        rules = ScriptRules.determine(sandbox, pythons, Path(folder))
    if problem := rules.problem(pythons):
        text = f"allowed, but none can run. {problem} Then restart the agent"
        return Check("problem", "scripts", text)
    text = "allowed: all users of this device can run programs on it, in a closed sandbox"
    text = f"{text}, {rules.sandbox.describe_user()}"
    me, owner = os.geteuid(), config.spool.stat().st_uid
    if me != owner:
        text += f"; tested as user {me}, but the spool belongs to user {owner}: "
        text += "run doctor as that user"
    is_root = me == 0 and rules.sandbox.owner is None
    return Check("note" if is_root or me != owner else "ok", "scripts", text)


def _check_measuring(config: Config) -> Iterator[Check]:
    """Check what makes results comparable: cores, kernel, the gate, and the device's sensors."""
    machine = Machine(configured=config.cores)
    try:
        cores = machine.cores()
    except CoresUnavailable as exc:
        yield Check("problem", "cores", f"{exc}: correct `cores` of [measure]")
    else:
        shared = f"runs: {format_cores(cores.measured)}; agent: {format_cores(cores.own) or 'any'}"
        text = shared if cores.measured else "all, not pinned (fewer than 4, or by configuration)"
        yield Check("ok", "cores", text)
        for setting in read_settings(machine):
            yield Check(setting.level, setting.name, setting.text)
    try:
        if text := describe_tuning(config.spool, machine):
            yield Check("note", "tune", text)
    except TuneError as exc:
        yield Check("problem", "tune", str(exc))
    gate = config.gate
    text = "disabled: add a [gate] table to make runs wait until the device is idle"
    if gate.enabled:
        text = (
            f"other load below {gate.max_load:g} cores, CPU below {gate.max_temperature_c:g} °C; "
        )
        text += f"waits up to {gate.wait_s:g} s"
    yield Check("ok" if gate.enabled else "note", "gate", text)
    yield _check_sensors()


def _check_sensors() -> Check:
    """Check which sensors of the device the agent can read during a run."""
    snapshot = snapshot_now()
    sensors = {
        "clocks": bool(snapshot.clocks),
        "temperature": snapshot.temperature_c is not None,
        "throttling": bool(snapshot.throttle_counts),
    }
    reader = GpuReader()
    gpus = f"{len(reader)} GPU" if len(reader) else f"no GPU ({reader.problem or 'none found'})"
    reader.close()
    missing = [name for name, is_readable in sensors.items() if not is_readable]
    text = f"load, memory; {gpus}; not available: {', '.join(missing) or 'nothing'}"
    return Check("ok", "device", text)
