"""`agent runtime add` and `list`; what they and `check` print. Exit codes: 0 done, 1 a problem."""

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
    Record,
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
from agent.runtimes.roofs import Device, measure_roofs
from agent.runtimes.trial import Trial, make_model, run_model

OK, FAILED = 0, 1


def runtime_add(
    config_path: Path, version: str, python: str | None = None, binary: str | None = None
) -> int:
    """Install the wheel of `version`, or take the compiled `binary`, and name it in the file."""
    try:
        if any(entry.version == version for entry in load_config(config_path).runtimes):
            raise RuntimeProblem(  # noqa: TRY301 - one place says what went wrong
                f"{config_path} has a runtime {version} already; remove it there to replace it"
            )
        if binary:
            path = _binary(binary, version)
        else:
            path = ensure_wheel_runtime(version, say=_say, python=python)
        append_runtime(config_path, version, "binary" if binary else "wheel", path)
    except (ConfigError, RuntimeProblem, OSError) as problem:
        return _fail(problem)
    _say(f"Added MegEngine {version} ({path}) to {config_path}.")
    _say("An agent that runs must be started anew to offer it.")
    return OK


def _binary(path: str, version: str) -> str:
    description = describe_binary(path)
    if description.problem:
        raise RuntimeProblem(description.problem)
    if description.version != version:
        raise RuntimeProblem(f"{path} is MegEngine {description.version}, not {version}")
    return str(Path(path).absolute())


def runtime_list(config_path: Path) -> int:
    """Print version, kind, state and path of each runtime; starts no process."""
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


def _state(entry: RuntimeEntry, check: Record | None) -> str:
    if entry.problem:
        return f"cannot be used: {entry.problem}"
    if not Path(entry.path).is_file():
        return "missing: the file is not there"
    if check is None or check.get("path") != entry.path:
        return "not checked yet"
    word = f"failed: {check['problem']}" if check.get("problem") else "works"
    return f"{word} (checked {str(check.get('checked_at', ''))[:16]})"


def runtime_check(
    config_path: Path, version: str | None = None, *, limits: bool = True, missing: bool = False
) -> int:
    """Run a tiny model on each runtime (or that of `version`), print and record what was found.

    With `limits` it also measures what the device reaches at best, which takes seconds and uses it
    fully, so it is not done while the agent runs. `missing`: only of runtimes of which it was
    never tried.
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
            description, record = _check(entry, model, reason)
            measured = _roofs_alone(description, record, config) if limits else None
            _add_roofs(record, checks.get(entry.version, {}) if measured is None else measured)
            checks[entry.version] = record
    content = json.dumps(checks, indent=1, sort_keys=True) + "\n"
    try:
        replace_file(checks_path(config_path), content.encode())
    except OSError as problem:
        return _fail(problem)
    return FAILED if any(checks[entry.version]["problem"] for entry in chosen) else OK


def _was_measured(entry: RuntimeEntry, checks: Mapping[str, Record]) -> bool:
    check = checks.get(entry.version, {})
    return "roofs" in check and check.get("path") == entry.path


def _roofs_alone(description: RuntimeDescription, record: Record, config: Config) -> Record | None:
    """Measure while no agent can run a task; None, and so once more next time, if one does."""
    try:
        with lock_spool(config.spool):
            return _roofs(description, record, config)
    except (SpoolBusy, OSError) as problem:
        _say(f"  limits   not measured: {problem}")
        return None


def _roofs(description: RuntimeDescription, record: Record, config: Config) -> Record:
    """Measure what the device reaches with a runtime that works, print and return it."""
    if record["problem"]:
        return {}
    # what a wheel makes itself, it reads
    own = [description.path] if description.kind == "wheel" else []
    makers = dict.fromkeys([*own, *_makers(config.runtimes)])
    try:
        cores = choose_cores(config.cores).measured
    except CoresUnavailable as problem:
        return _told([], str(problem))
    devices: list[Device] = ["cpu", "cuda"] if record["cuda"] else ["cpu"]
    trials = [measure_roofs(description, makers, device, cores) for device in devices]
    problems = [f"{trial.device}: {trial.problem}" for trial in trials if trial.problem]
    return _told([trial.record() for trial in trials if not trial.problem], "; ".join(problems))


def _told(roofs: list[Record], problem: str) -> Record:
    for roof in roofs:
        peaks = [f"{name} {flops / 1e9:.1f}" for name, flops in roof["peak_flops"].items()]
        speed = roof["copy_bytes_s"] / 1e9
        _say(f"  limits   {roof['device']}: {', '.join(peaks)} GFLOP/s, copy {speed:.1f} GB/s")
        for note in roof["notes"]:
            _say(f"           {note}")
    if problem:
        _say(f"  limits   not measured: {problem}")
    return {"roofs": roofs, "roofs_problem": problem}


def _add_roofs(record: Record, measured: Record) -> None:
    """Put measured roofs into a record; earlier ones of another path are worth nothing."""
    if measured.get("path", record["path"]) == record["path"]:
        record |= {key: measured[key] for key in ("roofs", "roofs_problem") if key in measured}


def _make_model(entries: Sequence[RuntimeEntry], model: Path) -> str:
    """Make the model with any wheel there is; return why there is none, or ""."""
    reason = "there is no MegEngine wheel here to make one with: add one, or run a task"
    for python in _makers(entries):
        reason = make_model(python, model)
        if not reason:
            return ""
    return reason


def _makers(entries: Sequence[RuntimeEntry]) -> list[str]:
    """Interpreters that may make a model."""
    pythons = [entry.path for entry in entries if entry.kind == "wheel" and entry.path]
    return list(dict.fromkeys([*pythons, *_installed()]))


def _installed() -> list[str]:
    """Wheels in the cache, the newest version last made first."""
    names = sorted(path.name for path in cache_folder().glob(f"megengine-*-py3.{MINORS[0]}"))
    versions = dict.fromkeys(name.split("-")[1] for name in reversed(names))
    return [ready.path for version in versions if (ready := installed_wheel(version))]


def _check(entry: RuntimeEntry, model: Path, no_model: str) -> tuple[RuntimeDescription, Record]:
    """Look at one runtime, print the result and return it, and as it is recorded."""
    description, problem = describe_entry(entry)
    trial = on_cuda = None
    if not problem and model.is_file():
        trial = run_model(description, model, ["--cpu"])
        problem = f"the tiny model did not run: {trial.problem}" if trial.problem else ""
        if "cuda" in description.builds:
            on_cuda = run_model(description, model, ["--cuda"])
    record = _record(entry, description, trial, on_cuda)
    record["problem"] = problem
    _print(entry, record, "" if trial else no_model)
    return description, record


def _record(
    entry: RuntimeEntry, description: RuntimeDescription, trial: Trial | None, on_cuda: Trial | None
) -> Record:
    cuda = "cuda0" in description.devices if on_cuda is None else not on_cuda.problem
    return {
        "kind": entry.kind,
        "path": entry.path,
        "version": description.version,
        "megengine": description.megengine,
        "python": description.python,
        "cuda": cuda,
        "cuda_problem": on_cuda.problem if on_cuda else "",
        "devices": list(description.devices) or ["cpu", *(["cuda0"] if cuda else [])],
        "builds": list(description.builds),
        "flags": list(description.flags),
        "style": description.style,
        "tiny_model_ms": trial.e2e_ms if trial else None,
        "checked_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _print(entry: RuntimeEntry, record: Record, no_model: str) -> None:
    _say(f"MegEngine {entry.version} ({entry.kind}, {entry.path or 'no path'})")
    if record["problem"]:
        _say(f"  PROBLEM  {record['problem']}")
    if not record["version"]:
        return
    python = f", Python {record['python']}" if record["python"] else ""
    _say(f"  version  {record['version']}{python}")
    if entry.kind == "binary":
        _say(f"  options  {len(record['flags']) or 'not known'}, style {record['style']}")
        _say(f"  built    {', '.join(record['builds']) or 'nothing special shows'}")
    why = f" ({record['cuda_problem']})" if record["cuda_problem"] else ""
    _say(f"  CUDA     {'usable' if record['cuda'] else f'not usable{why}'}")
    _say(f"  devices  {', '.join(record['devices'])}")
    if record["tiny_model_ms"] is not None:
        _say(f"  model    a tiny one ran in {record['tiny_model_ms']:.3f} ms")
    elif no_model:
        _say(f"  model    none was run: {no_model}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _fail(problem: Exception | str) -> int:
    sys.stderr.write(f"agent: {problem}\n")
    return FAILED
