"""Read the agent's configuration file (TOML). Unknown keys and invalid values are errors."""

import stat
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from agent.protocol.messages import MAX_LABELS, Labels
from agent.runtimes.config_file import CheckRecord, read_checks

LOG_LIMIT_BYTES = 1 << 20


class ConfigError(ValueError):
    """The file is invalid; the text contains the file, the key and what to do."""


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class GateLimits(_Table):
    """`[gate]`: conditions that the device must meet before a run. Without it, runs do not wait.

    `max_load` is the largest load of other processes, in cores. A run starts anyway after `wait_s`.
    `cool_down_s` is a pause between two attempts.
    """

    enabled: bool = True
    max_load: float = Field(default=0.5, gt=0)
    max_temperature_c: float = Field(default=85.0, gt=0)
    min_memory_bytes: int = Field(default=256 << 20, ge=0)
    wait_s: float = Field(default=30.0, ge=0, le=3600)
    cool_down_s: float = Field(default=0.0, ge=0, le=3600)


class MeasureTable(_Table):
    """`[measure]`: the cores that load_and_run runs on, and whether the device checks its speed."""

    cores: Literal["auto"] | list[int] = "auto"
    canary: bool = True


class CacheTable(_Table):
    """`[cache]`: disk space for downloaded files; 0 disables the cache."""

    size_bytes: int = Field(default=10 << 30, ge=0)


class RunLimits(_Table):
    """`[limits]`: limits that end a run. 0 disables a limit.

    `silence_s`: time without output and CPU usage. `disk_bytes`: growth of the run's folder.
    `print_bytes`: size of the output. `processes`: number of processes at the same time.
    """

    silence_s: float = Field(default=60.0, ge=0)
    disk_bytes: int = Field(default=4 << 30, ge=0)
    print_bytes: int = Field(default=64 << 20, ge=0)
    processes: int = Field(default=256, ge=0)


class ScriptTable(_Table):
    """`[scripts]`: whether tasks may run their users' programs on this device."""

    allow: bool = False


#: used if the file has no `[gate]` table: runs do not wait
_NO_GATE = GateLimits(enabled=False)


class COprLibrary(_Table):
    """One `[[c_opr_lib]]`: a library of custom operators that a task may select by name."""

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,40}$")
    path: str = Field(min_length=1)


class RuntimeEntry(_Table):
    """One `[[runtime]]`: `path` is an interpreter (wheel) or load_and_run itself (binary).

    An entry with a `problem`, the reason why the device has no such runtime, is only reported.
    """

    version: str = Field(min_length=1, max_length=40)
    kind: Literal["wheel", "binary"]
    path: str = ""
    problem: str = Field(default="", max_length=500)


class _Settings(_Table):
    """The settings that the agent uses unchanged from the file.

    `memory_limit_bytes`: memory limit of a run; None for a share of the machine's memory, 0 for no
    limit. `warm`: keep an interpreter of each wheel ready while the device is idle; it uses about
    150 MB of memory, and saves each attempt about half a second. `require_sandbox`: do not run
    models without bubblewrap. `labels` describe the device; tasks select devices by them. `update`:
    the agent may replace its own file.
    """

    server: str
    grace_s: float = Field(default=5.0, ge=0, le=600)
    log_limit_bytes: int = Field(default=LOG_LIMIT_BYTES, ge=1024, le=LOG_LIMIT_BYTES)
    memory_limit_bytes: int | None = Field(default=None, ge=0)
    nice: int = Field(default=0, ge=-20, le=19)
    warm: bool = True
    require_sandbox: bool = False
    gate: GateLimits = _NO_GATE
    limits: RunLimits = RunLimits()
    labels: Labels = Field(default_factory=dict, max_length=MAX_LABELS)
    update: bool = False


class _ConfigFile(_Settings):
    """The content of the file; `Config` documents the other keys."""

    token: str = ""
    token_file: str = ""
    spool: str
    runtime: list[RuntimeEntry] = Field(default_factory=list)
    hide: list[str] = Field(default_factory=list)
    show: list[str] = Field(default_factory=list)
    measure: MeasureTable = MeasureTable()
    cache: CacheTable = CacheTable()
    c_opr_lib: list[COprLibrary] = Field(default_factory=list)
    scripts: ScriptTable = ScriptTable()


class Config(_Settings):
    """The configuration, with paths resolved against the file's folder.

    `secret_files` contain the token; a sandbox hides them. `hide`: folders that a sandbox hides,
    e.g. those of a server on the same machine. `show`: paths in a home folder, which a sandbox
    hides, that a run needs. `allow_scripts`: tasks may run their users' programs, in a closed
    sandbox.

    `cores`: the cores of runs. `canary`: compare the speed of the device with its usual one before
    and after each attempt with a clean pass. `c_opr_libs`: libraries of custom operators by name.
    `checks`: results of `agent runtime check` by version. `warnings` are for the log and `agent
    doctor`. `file` is the path of the configuration file.
    """

    token: str = Field(repr=False)
    spool: Path
    runtimes: tuple[RuntimeEntry, ...] = ()
    hide: tuple[Path, ...] = ()
    show: tuple[Path, ...] = ()
    cores: Literal["auto"] | tuple[int, ...] = "auto"
    canary: bool = True
    cache_bytes: int = CacheTable().size_bytes
    c_opr_libs: dict[str, Path] = Field(default_factory=dict)
    secret_files: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = ()
    checks: dict[str, CheckRecord] = Field(default_factory=dict)
    allow_scripts: bool = False
    file: Path | None = None

    @property
    def socket_url(self) -> str:
        """URL of the agent's WebSocket: http becomes ws, https becomes wss."""
        return "ws" + self.server.removeprefix("http") + "/ws/agent/"

    def hidden_folders(self) -> tuple[Path, ...]:
        """Return the folders that a sandbox hides: the spool first, then the existing `hide`."""
        return (self.spool, *(folder for folder in self.hide if folder.is_dir()))


def load_config(path: Path) -> Config:
    """Read the configuration file. Raises ConfigError."""
    parsed = _parse(path)
    folder = path.resolve().parent
    token, secret, warnings = _token(path, parsed, folder)
    libraries, missing = _libraries(path, parsed.c_opr_lib, folder)
    cores = parsed.measure.cores
    settings = {name: getattr(parsed, name) for name in _Settings.model_fields}
    return Config(
        **settings | {"server": server_address(parsed.server)},
        token=token,
        spool=folder / parsed.spool,
        runtimes=distinct_runtimes(path, parsed.runtime),
        hide=tuple(folder / name for name in parsed.hide),
        show=tuple(folder / name for name in parsed.show),
        cores="auto" if cores == "auto" else tuple(cores),
        canary=parsed.measure.canary,
        cache_bytes=parsed.cache.size_bytes,
        c_opr_libs=libraries,
        secret_files=(secret,),
        warnings=(*warnings, *missing),
        checks=read_checks(path),
        allow_scripts=parsed.scripts.allow,
        file=path.resolve(),
    )


def server_address(text: str) -> str:
    """Return the server's address without a trailing slash. Raises ConfigError."""
    try:
        parts = urlsplit(text)
        is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # no number as port, or an open bracket
        is_address = False
    if not is_address:
        raise ConfigError(f"server must look like https://profile.example.org, not {text!r}")
    return text.rstrip("/")


def _parse(path: Path) -> _ConfigFile:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as exc:
        raise ConfigError(f"{path} does not exist: create it with `python -m agent enrol`") from exc
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path} cannot be read: {exc}") from exc
    try:
        return _ConfigFile.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"{path} is not valid TOML: {exc}") from exc
    except ValidationError as exc:
        # without the values, because one of them is the token
        problems = "; ".join(_explain(e) for e in exc.errors(include_input=False))
        raise ConfigError(f"{path}: {problems}") from None


def _explain(error: ErrorDetails) -> str:
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"unknown key {key!r}"
    if error["type"] == "missing":
        return f"key {key!r} is missing"
    return f"key {key!r}: {error['msg']}"


def _token(path: Path, parsed: _ConfigFile, folder: Path) -> tuple[str, Path, tuple[str, ...]]:
    if bool(parsed.token) == bool(parsed.token_file):
        raise ConfigError(f"{path}: give exactly one of 'token' and 'token_file'")
    source = folder / parsed.token_file if parsed.token_file else path.resolve()
    token = parsed.token
    if parsed.token_file:
        try:
            token = source.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as exc:
            raise ConfigError(f"the token file {source} cannot be read: {exc}") from exc
    # the token must fit into an HTTP header: ASCII without line breaks
    if not token.isascii() or not token.isprintable() or not token or " " in token:
        raise ConfigError(f"{source} contains no token: enrol this device again")
    mode = stat.S_IMODE(source.stat().st_mode)
    if mode & 0o077:
        return token, source, (f"{source} is readable by others: run `chmod 600 {source}`",)
    return token, source, ()


def _libraries(
    path: Path, entries: Sequence[COprLibrary], folder: Path
) -> tuple[dict[str, Path], tuple[str, ...]]:
    """Return the existing libraries, and a warning for each missing one."""
    libraries: dict[str, Path] = {}
    warnings = []
    names = [entry.name for entry in entries]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{path}: c_opr_lib {name!r} is given twice")
    for entry in entries:
        library = folder / entry.path
        if library.is_file():
            libraries[entry.name] = library
        else:
            text = f"c_opr_lib {entry.name!r}: {library} does not exist: correct its `path`"
            warnings.append(text)
    return libraries, tuple(warnings)


def distinct_runtimes(path: Path, entries: Sequence[RuntimeEntry]) -> tuple[RuntimeEntry, ...]:
    """Check that each version occurs once, since the server orders runtimes by version.

    Raises ConfigError.
    """
    seen: set[str] = set()
    for entry in entries:
        if entry.version in seen:
            raise ConfigError(f"{path}: runtime {entry.version!r} is given twice")
        if not entry.path and not entry.problem:
            raise ConfigError(f"{path}: runtime {entry.version!r} has neither path nor problem")
        seen.add(entry.version)
    return tuple(entries)
