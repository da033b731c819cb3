"""Read and write the runtimes in the agent's configuration, and the results of their checks."""

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

#: what `agent runtime check` found of one runtime
Record = dict[str, Any]


def append_runtime(config: Path, version: str, kind: str, path: str) -> None:
    """Add a `[[runtime]]` at the end; all other bytes and the file's mode stay, or nothing changes.

    Raises RuntimeProblem if the version is there already or the file cannot be extended.
    """
    config = config.resolve()  # a link stays a link
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
            f"{config} has a runtime {entry['version']} already; remove it there to replace it"
        )
    if new != old | {"runtime": [*entries, entry]}:
        raise RuntimeProblem(f"{config} cannot be extended; {by_hand}")


@contextmanager
def _locked(config: Path) -> Iterator[None]:
    """Two at once would lose one entry. The folder is locked: the file itself is replaced."""
    folder = os.open(config.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def replace_file(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Put a whole new file in the place of `path`; its mode stays, or is 0600 for a new one."""
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
    """Where checks are recorded: beside the configuration, as `<name>.runtimes.json`."""
    return config_path.resolve().with_suffix(".runtimes.json")


def read_checks(config_path: Path) -> dict[str, Record]:
    """The record of each runtime by version; none of a file that is missing or broken."""
    try:
        read = json.loads(checks_path(config_path).read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(read, dict):
        return {}
    return {version: check for version, check in read.items() if isinstance(check, dict)}


def roofs_in(check: Record, path: str) -> list[Record]:
    """The roofs that a check measured, if it was of the runtime at this path."""
    roofs = check.get("roofs")
    if check.get("path") != path or not isinstance(roofs, list):
        return []
    return [roof for roof in roofs if isinstance(roof, dict)]
