"""The commands `agent runtime add`, `list` and `check`. Exit codes: 0 success, 1 a problem."""

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from agent.config import Config, ConfigError, RuntimeEntry, load_config
from agent.device.cores import CoresUnavailable, choose_cores
from agent.execution.spool import SpoolBusy, lock_spool
from agent.inventory import describe_entry
from agent.runtimes.config_file import (
    CheckRecord,
    append_runtime,
    checks_path,
    read_checks,
    replace_file,
)
from agent.runtimes.describe import RuntimeDescription, describe_binary
from agent.runtimes.find import MINORS
from agent.runtimes.install import (
    RuntimeProblem,
    cache_folder,
    ensure_wheel_runtime,
    installed_wheel,
)
from agent.runtimes.peak_performance import DeviceKind, measure_peaks
from agent.runtimes.trial import make_model, run_model

OK, FAILED = 0, 1


def runtime_add(
    config_path: Path, version: str, python: str | None = None, binary: str | None = None
) -> int:
    """Install the wheel of `version`, or use the compiled `binary`; add it to the configuration."""
    try:
        if any(entry.version == version for entry in load_config(config_path).runtimes):
            raise RuntimeProblem(  # noqa: TRY301 - reported by the handler below
                f"{config_path} already has a runtime {version}; remove that entry to replace it"
            )
        if binary:
            path = _binary(binary, version)
        else:
            path = ensure_wheel_runtime(version, say=_say, python=python)
        append_runtime(config_path, version, "binary" if binary else "wheel", path)
    except (ConfigError, RuntimeProblem, OSError) as problem:
        return _fail(problem)
    _say(f"Added MegEngine {version} ({path}) to {config_path}.")
    _say("If the agent is running, restart it to offer this version.")
    return OK


def _binary(path: str, version: str) -> str:
    description = describe_binary(path)
    if description.problem:
        raise RuntimeProblem(str(description.problem))
    if description.version != version:
        raise RuntimeProblem(f"{path} is MegEngine {description.version}, not {version}")
    return str(Path(path).absolute())


def runtime_list(config_path: Path) -> int:
    """Print version, kind, path and state of each runtime, without running it."""
    try:
        entries = load_config(config_path).runtimes
    except ConfigError as problem:
        return _fail(problem)
    checks = read_checks(config_path)
    if not entries:
        _say("No runtimes. Add one: python -m agent runtime add 1.13.0")
    for entry in entries:
        state = _state(entry, checks.get(entry.version))
        _say(f"{entry.version:<10} {entry.kind:<7} {entry.path or '-'}  {state}")
    return OK


def _state(entry: RuntimeEntry, check: CheckRecord | None) -> str:
    if entry.problem:
        return f"cannot be used: {entry.problem}"
    if not Path(entry.path).is_file():
        return "missing: the file does not exist"
    if check is None or check.get("path") != entry.path:
        return "not checked yet"
    word = f"failed: {check['problem']}" if check.get("problem") else "works"
    return f"{word} (checked {str(check.get('checked_at', ''))[:16]})"


def runtime_check(
    config_path: Path, version: str | None = None, *, limits: bool = True, missing: bool = False
) -> int:
    """Run a tiny model on each runtime (or that of `version`); print and store the results.

    If `limits` is true, the peak performance is also measured. This takes seconds at full load, so
    it is skipped while the agent runs. `missing` selects runtimes that were never measured.
    """
    try:
        config = load_config(config_path)
    except ConfigError as problem:
        return _fail(problem)
    chosen = [entry for entry in config.runtimes if version in (None, entry.version)]
    if not chosen:
        return _fail(f"{config_path} has no runtime {version or 'at all'}: see `runtime list`")
    checks = read_checks(config_path)
    if missing:
        chosen = [entry for entry in chosen if not _was_measured(entry, checks)]
        if not chosen:
            return OK
    with tempfile.TemporaryDirectory(prefix="mgw-check-") as folder:
        model = Path(folder) / "tiny.mge"
        reason = _make_model(config.runtimes, model)
        for entry in chosen:
            description, has_cuda, record = _check(entry, model, reason)
            peaks = None
            if limits and not record["problem"]:
                peaks = _measure_without_agent(description, config, has_cuda=has_cuda)
            if peaks is None and _was_measured(entry, checks):
                peaks = checks[entry.version]["roofs"]
            if peaks is not None:
                record["roofs"] = peaks
            checks[entry.version] = record
    content = json.dumps(checks, indent=1, sort_keys=True) + "\n"
    try:
        replace_file(checks_path(config_path), content.encode())
    except OSError as problem:
        return _fail(problem)
    return FAILED if any(checks[entry.version]["problem"] for entry in chosen) else OK


def _was_measured(entry: RuntimeEntry, checks: Mapping[str, CheckRecord]) -> bool:
    check = checks.get(entry.version, {})
    return "roofs" in check and check.get("path") == entry.path


def _measure_without_agent(
    description: RuntimeDescription, config: Config, *, has_cuda: bool
) -> list[CheckRecord] | None:
    """Measure peaks while the spool is locked, so that no agent runs a task; None if one runs."""
    try:
        with lock_spool(config.spool):
            return _measure_peaks(description, config, ["cpu", "cuda"] if has_cuda else ["cpu"])
    except (SpoolBusy, OSError) as problem:
        _say(f"  limits   not measured: {problem}")
        return None


def _measure_peaks(
    description: RuntimeDescription, config: Config, devices: list[DeviceKind]
) -> list[CheckRecord]:
    """Measure and print the peak performance; return the records of the device kinds."""
    # a wheel can read the models that it makes itself
    own = [description.path] if description.kind == "wheel" else []
    makers = dict.fromkeys([*own, *_makers(config.runtimes)])
    try:
        cores = choose_cores(config.cores).measured
    except CoresUnavailable as problem:
        _say(f"  limits   not measured: {problem}")
        return []
    trials = [measure_peaks(description, makers, device, cores) for device in devices]
    peaks = [trial.record() for trial in trials if not trial.problem]
    for peak in peaks:
        flops = [f"{name} {value / 1e9:.1f}" for name, value in peak["peak_flops"].items()]
        speed = peak["copy_bytes_s"] / 1e9
        _say(f"  limits   {peak['device']}: {', '.join(flops)} GFLOP/s, copy {speed:.1f} GB/s")
        for note in peak["notes"]:
            _say(f"           {note}")
    problems = [f"{trial.device}: {trial.problem}" for trial in trials if trial.problem]
    if problems:
        _say(f"  limits   not measured: {'; '.join(problems)}")
    return peaks


def _make_model(entries: Sequence[RuntimeEntry], model: Path) -> str:
    """Create the tiny model with any available wheel; return the reason if none could, or ""."""
    reason = "there is no MegEngine wheel on this device to create it: add a wheel, or run a task"
    for python in _makers(entries):
        reason = make_model(python, model)
        if not reason:
            return ""
    return reason


def _makers(entries: Sequence[RuntimeEntry]) -> list[str]:
    """Return the interpreters with a MegEngine wheel: configured ones first."""
    pythons = [entry.path for entry in entries if entry.kind == "wheel" and entry.path]
    return list(dict.fromkeys([*pythons, *_installed()]))


def _installed() -> list[str]:
    """Return the interpreters of the wheels in the cache, newest version first."""
    names = sorted(path.name for path in cache_folder().glob(f"megengine-*-py3.{MINORS[0]}"))
    versions = dict.fromkeys(name.split("-")[1] for name in reversed(names))
    return [ready.path for version in versions if (ready := installed_wheel(version))]


def _check(
    entry: RuntimeEntry, model: Path, no_model: str
) -> tuple[RuntimeDescription, bool, CheckRecord]:
    """Check one runtime and print the result.

    Return its description, whether it can use CUDA, and the record.
    """
    description, unusable = describe_entry(entry)
    problem = str(unusable or "")
    trial = cuda_trial = None
    if not problem and model.is_file():
        trial = run_model(description, model, ["--cpu"])
        problem = f"the small model did not run: {trial.problem}" if trial.problem else ""
        if "cuda" in description.builds:
            cuda_trial = run_model(description, model, ["--cuda"])
    _say(f"MegEngine {entry.version} ({entry.kind}, {entry.path or 'no path'})")
    if problem:
        _say(f"  PROBLEM  {problem}")
    has_cuda = "cuda0" in description.devices if cuda_trial is None else not cuda_trial.problem
    if description.version:
        why = f" ({cuda_trial.problem})" if cuda_trial and cuda_trial.problem else ""
        _print(description, "usable" if has_cuda else f"not usable{why}", has_cuda=has_cuda)
        if trial and trial.e2e_ms is not None:
            _say(f"  model    a small model ran in {trial.e2e_ms:.3f} ms")
        elif not trial and no_model:
            _say(f"  model    not run: {no_model}")
    checked_at = datetime.now(UTC).isoformat(timespec="seconds")
    record = {"path": entry.path, "problem": problem, "checked_at": checked_at}
    return description, has_cuda, record


def _print(description: RuntimeDescription, cuda: str, *, has_cuda: bool) -> None:
    python = f", Python {description.python}" if description.python else ""
    _say(f"  version  {description.version}{python}")
    if description.kind == "binary":
        options = len(description.flags) or "not known"
        _say(f"  options  {options}, style {description.style}")
        _say(f"  built    {', '.join(description.builds) or 'none detected'}")
    _say(f"  CUDA     {cuda}")
    devices = description.devices or ("cpu", *(("cuda0",) if has_cuda else ()))
    _say(f"  devices  {', '.join(devices)}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _fail(problem: Exception | str) -> int:
    sys.stderr.write(f"agent: {problem}\n")
    return FAILED
