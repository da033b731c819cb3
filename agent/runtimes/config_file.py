"""Add runtimes to the agent's configuration, and read the results of their checks."""

import fcntl
import json
import os
import stat
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent.runtimes.install import RuntimeProblem

#: result of `agent runtime check` for one runtime
CheckRecord = dict[str, Any]


def append_runtime(config: Path, version: str, kind: str, path: str) -> None:
    """Append a `[[runtime]]` to the configuration file, atomically and with the file's mode.

    The other bytes of the file do not change. Raises RuntimeProblem if the file already has the
    version or cannot be extended.
    """
    config = config.resolve()  # replace the target of a symbolic link, not the link
    entry = "".join(
        f"{key} = {json.dumps(value, ensure_ascii=False)}\n"
        for key, value in (("version", version), ("kind", kind), ("path", path))
    )
    with _locked(config):
        before = config.read_bytes()
        gap = b"" if not before or before.endswith(b"\n") else b"\n"
        after = before + gap + b"\n[[runtime]]\n" + entry.encode("utf-8", "surrogateescape")
        _check(config, before, after, {"version": version, "kind": kind, "path": path})
        replace_file(config, after)


def _check(config: Path, before: bytes, after: bytes, entry: dict[str, str]) -> None:
    by_hand = f'add it yourself: [[runtime]] with version = "{entry["version"]}"'
    try:
        old: dict[str, Any] = tomllib.loads(before.decode("utf-8"))
        new = tomllib.loads(after.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RuntimeProblem(f"{config} cannot be extended ({error}); {by_hand}") from None
    entries = old.get("runtime", [])
    if any(
        other.get("version") == entry["version"] for other in entries if isinstance(other, dict)
    ):
        raise RuntimeProblem(
            f"{config} already has a runtime {entry['version']}; remove that entry to replace it"
        )
    if new != old | {"runtime": [*entries, entry]}:
        raise RuntimeProblem(f"{config} cannot be extended; {by_hand}")


@contextmanager
def _locked(config: Path) -> Iterator[None]:
    """Lock the file's folder, so that concurrent changes lose no entry.

    The file itself cannot be locked, because it is replaced.
    """
    folder = os.open(config.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def replace_file(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Replace the file `path` atomically. `mode` None keeps its mode, 0600 for a new file."""
    if mode is None:
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
    handle, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        Path(partial).replace(path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def checks_path(config_path: Path) -> Path:
    """Return the path of the check results: `<name>.runtimes.json` next to the configuration."""
    return config_path.resolve().with_suffix(".runtimes.json")


def read_checks(config_path: Path) -> dict[str, CheckRecord]:
    """Return the check result of each runtime by version; empty if the file is missing or bad."""
    try:
        checks = json.loads(checks_path(config_path).read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(checks, dict):
        return {}
    return {version: check for version, check in checks.items() if isinstance(check, dict)}


def peaks_in(check: CheckRecord, path: str) -> list[CheckRecord]:
    """Return the peak performance records of a check, if it was of the runtime at this path."""
    roofs = check.get("roofs")
    if check.get("path") != path or not isinstance(roofs, list):
        return []
    return [roof for roof in roofs if isinstance(roof, dict)]
