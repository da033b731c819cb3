"""The agent's configuration: a TOML file, read once, refused if any of it is not understood."""

import stat
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from agent.protocol.contents import MAX_LABELS, Labels
from agent.runtimes.config_file import CheckRecord, read_checks

LOG_LIMIT_BYTES = 1 << 20


class ConfigError(ValueError):
    """The file cannot be used; the text names the file, the key and what to do."""


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class GateLimits(_Table):
    """`[gate]`: when the device is calm enough for a run. Without the table nothing is waited for.

    `max_load` is what others may use, in cores; `wait_s` how long a run waits for calm before it
    starts all the same; `cool_down_s` a rest between two attempts.
    """

    enabled: bool = True
    max_load: float = Field(default=0.5, gt=0)
    max_temperature_c: float = Field(default=85.0, gt=0)
    min_memory_bytes: int = Field(default=256 << 20, ge=0)
    wait_s: float = Field(default=30.0, ge=0, le=3600)
    cool_down_s: float = Field(default=0.0, ge=0, le=3600)


class MeasureTable(_Table):
    """`[measure]`: on which cores load_and_run runs."""

    cores: Literal["auto"] | list[int] = "auto"


class CacheTable(_Table):
    """`[cache]`: how much of the disk is kept for files that were downloaded before; 0: none."""

    size_bytes: int = Field(default=10 << 30, ge=0)


class RunLimits(_Table):
    """`[limits]`: what ends a run. 0 turns a limit off.

    `silence_s`: without output and without CPU time. `disk_bytes`: what it adds to its folder.
    `print_bytes`: what it prints. `processes`: how many it has at the same time.
    """

    silence_s: float = Field(default=60.0, ge=0)
    disk_bytes: int = Field(default=4 << 30, ge=0)
    print_bytes: int = Field(default=64 << 20, ge=0)
    processes: int = Field(default=256, ge=0)


class ScriptTable(_Table):
    """`[scripts]`: whether tasks may run programs here, which is more than to load a model."""

    allow: bool = False


#: used if the file has no `[gate]` table: runs do not wait
_NO_GATE = GateLimits(enabled=False)


class COprLibrary(_Table):
    """One `[[c_opr_lib]]`: a library of custom operators that a task may ask for by name."""

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,40}$")
    path: str = Field(min_length=1)


class RuntimeEntry(BaseModel):
    """One `[[runtime]]`: `path` is an interpreter (wheel) or load_and_run itself (binary).

    An entry with a `problem` is only reported: it says why the device has no such runtime.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    version: str = Field(min_length=1, max_length=40)
    kind: Literal["wheel", "binary"]
    path: str = ""
    problem: str = Field(default="", max_length=500)


@dataclass(frozen=True)
class Config:
    """What the file says, with paths resolved against its folder.

    `memory_limit_bytes`: None means "a share of the machine's memory", 0 means no limit.
    `secret_files` hold the token: a sandbox hides them. `warnings` are for the log and the doctor.
    `hide` names folders that a sandboxed run must not see, such as the server's own on one machine.
    `warm` false: no interpreter waits for the next attempt while the device idles. That saves its
    memory (about 150 MB for each wheel) and costs each attempt its start, about half a second.
    `require_sandbox`: no model runs without bubblewrap. `show` names what lies in a home folder,
    which a sandbox hides, and is needed by a run. `cores` are those that are measured.
    `c_opr_libs` are libraries of custom operators by the name under which a task asks for them.
    `checks` holds what was found of each runtime, by version (`agent runtime check`). `labels` tell
    tasks what this device is. `update`: an agent that was installed as one file replaces itself.
    `allow_scripts`: tasks may run programs of their users here, in a closed sandbox. `file` is
    where all this was read.
    """

    server: str
    token: str = field(repr=False)
    spool: Path
    runtimes: tuple[RuntimeEntry, ...] = ()
    grace_s: float = 5.0
    log_limit_bytes: int = LOG_LIMIT_BYTES
    memory_limit_bytes: int | None = None
    nice: int = 0
    warm: bool = True
    hide: tuple[Path, ...] = ()
    show: tuple[Path, ...] = ()
    require_sandbox: bool = False
    gate: GateLimits = _NO_GATE
    cores: Literal["auto"] | tuple[int, ...] = "auto"
    limits: RunLimits = field(default_factory=RunLimits)
    cache_bytes: int = CacheTable().size_bytes
    c_opr_libs: Mapping[str, Path] = field(default_factory=dict)
    secret_files: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = ()
    checks: Mapping[str, CheckRecord] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    update: bool = False
    allow_scripts: bool = False
    file: Path | None = None

    @property
    def socket_url(self) -> str:
        """Where the agent's socket is: http becomes ws, https becomes wss."""
        return "ws" + self.server.removeprefix("http") + "/ws/agent/"

    def hidden_folders(self) -> tuple[Path, ...]:
        """What a sandbox hides: the spool, which comes first, and what the owner named."""
        return (self.spool, *(folder for folder in self.hide if folder.is_dir()))


class _ConfigFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    server: str
    token: str = ""
    token_file: str = ""
    spool: str
    runtime: list[RuntimeEntry] = Field(default_factory=list)
    grace_s: float = Field(default=5.0, ge=0, le=600)
    log_limit_bytes: int = Field(default=LOG_LIMIT_BYTES, ge=1024, le=LOG_LIMIT_BYTES)
    memory_limit_bytes: int | None = Field(default=None, ge=0)
    nice: int = Field(default=0, ge=-20, le=19)
    warm: bool = True
    hide: list[str] = Field(default_factory=list)
    show: list[str] = Field(default_factory=list)
    require_sandbox: bool = False
    gate: GateLimits = _NO_GATE
    measure: MeasureTable = MeasureTable()
    limits: RunLimits = RunLimits()
    cache: CacheTable = CacheTable()
    c_opr_lib: list[COprLibrary] = Field(default_factory=list)
    labels: Labels = Field(default_factory=dict, max_length=MAX_LABELS)
    update: bool = False
    scripts: ScriptTable = ScriptTable()


def load_config(path: Path) -> Config:
    """Read the file. Raises ConfigError."""
    parsed = _parse(path)
    folder = path.resolve().parent
    token, secret, warnings = _token(path, parsed, folder)
    libraries, missing = _libraries(path, parsed.c_opr_lib, folder)
    cores = parsed.measure.cores
    return Config(
        server=server_address(parsed.server),
        token=token,
        spool=folder / parsed.spool,
        runtimes=_distinct(path, parsed.runtime),
        grace_s=parsed.grace_s,
        log_limit_bytes=parsed.log_limit_bytes,
        memory_limit_bytes=parsed.memory_limit_bytes,
        nice=parsed.nice,
        warm=parsed.warm,
        hide=tuple(folder / name for name in parsed.hide),
        show=tuple(folder / name for name in parsed.show),
        require_sandbox=parsed.require_sandbox,
        gate=parsed.gate,
        cores="auto" if cores == "auto" else tuple(cores),
        limits=parsed.limits,
        cache_bytes=parsed.cache.size_bytes,
        c_opr_libs=libraries,
        secret_files=(secret,),
        warnings=(*warnings, *missing),
        checks=read_checks(path),
        labels=parsed.labels,
        update=parsed.update,
        allow_scripts=parsed.scripts.allow,
        file=path.resolve(),
    )


def server_address(text: str) -> str:
    """Return the server's address without a slash at its end. Raises ConfigError."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigError(f"server must look like https://profile.example.org, not {text!r}")
    return text.rstrip("/")


def _parse(path: Path) -> _ConfigFile:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as exc:
        raise ConfigError(f"{path} does not exist: make it with `python -m agent enrol`") from exc
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path} cannot be read: {exc}") from exc
    try:
        return _ConfigFile.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"{path} is not TOML: {exc}") from exc
    except ValidationError as exc:
        # the values stay out of the text: one of them is the token
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
    # a header takes no line break and nothing outside ASCII
    if not token.isascii() or not token.isprintable() or not token or " " in token:
        raise ConfigError(f"{source} holds no token: enrol this device again")
    mode = stat.S_IMODE(source.stat().st_mode)
    if mode & 0o077:
        return token, source, (f"{source} is readable by others: run `chmod 600 {source}`",)
    return token, source, ()


def _libraries(
    path: Path, entries: Sequence[COprLibrary], folder: Path
) -> tuple[dict[str, Path], tuple[str, ...]]:
    """The libraries that are there, and a warning for each that is not."""
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
            text = f"c_opr_lib {entry.name!r}: there is no file {library}: correct its `path`"
            warnings.append(text)
    return libraries, tuple(warnings)


def _distinct(path: Path, entries: Sequence[RuntimeEntry]) -> tuple[RuntimeEntry, ...]:
    """The server orders a runtime by its version alone, so a version may stand only once."""
    seen: set[str] = set()
    for entry in entries:
        if entry.version in seen:
            raise ConfigError(f"{path}: runtime {entry.version!r} is given twice")
        if not entry.path and not entry.problem:
            raise ConfigError(f"{path}: runtime {entry.version!r} has neither path nor problem")
        seen.add(entry.version)
    return tuple(entries)
