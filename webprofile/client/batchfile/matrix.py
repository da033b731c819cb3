"""Batch file of tasks: a matrix of models x devices x versions x option sets x repeats.

The file is TOML or YAML with the same keys (`KEYS`). Keys at the top level apply to every block of
`[[tasks]]`, which may override them; without such blocks the top level is the only block. Paths are
relative to the file's folder. See `webprofile submit --help`.
"""

import itertools
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from webprofile.client.batchfile import BatchError, Mistakes
from webprofile.client.batchfile.local_files import LocalFile
from webprofile.client.batchfile.values import BlockReader, joined

#: most tasks of one run; more are assumed to be a mistake
MOST_TASKS = 10_000
#: most devices in a message
MOST_NAMED = 10
#: largest batch file
SIZE_LIMIT_BYTES = 1 << 20
#: value of `versions` for every version of a device
ALL_VERSIONS = "all"

#: headers of the values of `Cell.matrix_row`
MATRIX_HEADERS = ("", "model", "device", "MegEngine", "options", "repeat", "plan")

Value = bool | int | float | str
Document = Mapping[str, Any]


@dataclass(frozen=True)
class CellFile:
    """A file of a task.

    kind: `model` (also for scripts), `data` or `option`
    input, option: the input variable or option that the file is for
    arm: the arm of a paired comparison that it belongs to; 0 for the baseline
    """

    kind: str
    path: Path
    input: str = ""
    option: str = ""
    arm: int = 0

    @property
    def use(self) -> dict[str, str | int]:
        """The fields of the API for kind and use."""
        named = {"data": {"input": self.input}, "option": {"option": self.option}}
        arm = {"arm": self.arm} if self.arm else {}
        return {"kind": self.kind, **named.get(self.kind, {}), **arm}

    def body(self, file: LocalFile) -> dict[str, Any]:
        """Return the description of a new file for the API."""
        return {**self.use, "name": file.name, "size_bytes": file.size_bytes, "md5": file.md5}


@dataclass(frozen=True)
class Block:
    """One matrix of tasks.

    workers: names of devices, or tables of requirements that any device may meet
    versions: MegEngine versions; empty for the newest one of each device
    script: API field for the scripts in `models`; None for models
    pairing: API field of a paired comparison, whose baseline is the model; None for other tasks
    values: further fields of the request, which the site checks
    """

    place: str
    models: tuple[Path, ...]
    workers: tuple[str | Mapping[str, Any], ...]
    versions: tuple[str, ...] = ()
    option_sets: Mapping[str, Mapping[str, Value]] = field(default_factory=lambda: {"": {}})
    repeats: int = 1
    files: tuple[CellFile, ...] = ()
    inputs: tuple[Mapping[str, Any], ...] = ()
    plan: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    script: Mapping[str, Any] | None = None
    pairing: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Cell:
    """One task of a block's matrix; `number` counts all tasks of the run, from 1.

    With a `target` the server chooses device and version; `worker` is then a text about the target.
    """

    number: int
    block: Block
    model: Path
    worker: str
    version: str
    option_set: str
    repeat: int
    target: Mapping[str, Any] | None = None

    @property
    def options(self) -> Mapping[str, Value]:
        return self.block.option_sets[self.option_set]

    @property
    def files(self) -> tuple[CellFile, ...]:
        """All files of the task, the model first."""
        return (CellFile("model", self.model), *self.block.files)

    @property
    def title(self) -> str:
        """The title of the block with its placeholders filled in."""
        title = self.block.title
        for name, value in self._words().items():
            title = title.replace("{" + name + "}", value)
        return title

    @property
    def name(self) -> str:
        """Name of the task in the output."""
        parts = [self.model.name, self.worker, self.version, self.option_set]
        if self.block.repeats > 1:
            parts.append(f"{self.repeat}/{self.block.repeats}")
        return " ".join(filter(None, parts))

    @property
    def request_key(self) -> tuple[object, ...]:
        """Key that is equal for cells with the same validation; repeats differ only in titles."""
        return (id(self.block), self.model, self.worker, self.version, self.option_set)

    @property
    def matrix_row(self) -> dict[str, int | str]:
        """Row of the matrix that a dry run prints."""
        preset = "custom" if self.block.plan else "standard"
        plan = str(self.block.plan.get("preset", preset))
        plan = plan if self.block.script is None else "script"
        return {"number": self.number, **self.result_row, "model": self.model.name, "plan": plan}

    @property
    def result_row(self) -> dict[str, int | str]:
        """Fields that identify this cell in JSON results."""
        return {
            "model": str(self.model),
            "worker": self.worker,
            "version": self.version,
            "option_set": self.option_set,
            "repeat": self.repeat,
        }

    def body(self, files: Sequence[Mapping[str, Any]], worker: int | str | None) -> dict[str, Any]:
        """Return the body of the API request for this task.

        files: each as `CellFile.body` or with the number of a file that the site has
        worker: id or name of the device, ignored with a target
        """
        block = self.block
        body: dict[str, Any] = {
            "title": self.title,
            "options": dict(self.options),
            "plan": dict(block.plan),
            "inputs": [dict(row) for row in block.inputs],
            "files": [dict(row) for row in files],
            **block.values,
        }
        if block.script is not None:
            body["script"] = dict(block.script)
        if block.pairing is not None:
            body["pairing"] = dict(block.pairing)
        if self.target is not None:
            return body | {"target": dict(self.target)}
        return body | {"worker": worker, "runtime_version": self.version}

    def place_of(self, field: str) -> str:
        """Return the place in the batch file for an error of the API field `field`."""
        key, *rest = field.removeprefix("options.").removeprefix("script.").split(".")
        if key in self.options:
            named = f"option_sets.{self.option_set}." if self.option_set else "options."
            return joined(self.block.place, named + key)
        if key == "inputs" and rest and rest[0].isdecimal():
            rest[0] = self.block.inputs[int(rest[0])]["name"]
            return joined(self.block.place, ".".join([key, *rest]))
        programs = "models" if self.block.script is None else "scripts"
        known = {"model": programs, "worker": "workers", "runtime": "versions"}
        known |= dict.fromkeys(("target", "labels", "pool", "versions"), "workers")
        return joined(self.block.place, known.get(key, key))

    def _words(self) -> dict[str, str]:
        return {
            "model": self.model.stem,
            "worker": self.worker,
            "version": self.version,
            "options": self.option_set,
            "repeat": str(self.repeat),
        }


def read_batch(path: Path, replaced: Document | None = None) -> list[Block]:
    """Read a batch file; the keys of `replaced` override those of every block.

    Raises BatchError with all mistakes; syntax errors have line and column.
    """
    return blocks_of(_document(path), folder=path.parent, replaced=replaced)


def blocks_of(document: Document, *, folder: Path, replaced: Document | None = None) -> list[Block]:
    """Return the matrices of a document. Raises BatchError with all mistakes."""
    mistakes = Mistakes()
    replaced = dict(replaced or {})
    common = {key: value for key, value in document.items() if key != "tasks"}
    tables = document.get("tasks", [{}])
    if not isinstance(tables, list) or not tables or not all(isinstance(x, dict) for x in tables):
        mistakes.add("tasks", "expected tables: [[tasks]]")
        tables = []
    blocks = []
    for number, own in enumerate(tables):
        place = f"tasks[{number}]" if "tasks" in document else ""
        reader = BlockReader(common, own, replaced, place=place, folder=folder, mistakes=mistakes)
        blocks.append(_block(place, reader))
    mistakes.raise_any()
    return blocks


def _block(place: str, reader: BlockReader) -> Block:
    reader.check_keys()
    script = reader.script()
    return Block(
        place=place,
        models=reader.paths("models" if script is None else "scripts"),
        workers=reader.devices(),
        versions=reader.names("versions"),
        option_sets=reader.option_sets(),
        repeats=reader.repeats(),
        files=tuple(
            CellFile("data", path, input=use)
            if kind == "data"
            else CellFile(kind, path, option=use)
            for kind, path, use in reader.files()
        ),
        inputs=reader.inputs(),
        plan=reader.plan(),
        title=reader.text("title"),
        values=reader.request_values(
            "seed", "priority", "option_preset", *(["time_limit_s"] if script is None else [])
        ),
        script=script,
    )


def cells_of(blocks: Sequence[Block], devices: Mapping[str, Sequence[str]]) -> list[Cell]:
    """Return the tasks of all blocks in the order of the file; the last factor varies fastest.

    devices: the usable versions of each device, newest first

    Raises BatchError for unknown devices and versions, and for too many tasks.
    """
    mistakes = Mistakes()
    spots = [list(_spots(block, devices, mistakes)) for block in blocks]
    mistakes.raise_any()
    _check_number(blocks, spots, mistakes)
    cells: list[Cell] = []
    for block, block_spots in zip(blocks, spots, strict=True):
        for model, spot, name, repeat in itertools.product(
            block.models, block_spots, block.option_sets, range(1, block.repeats + 1)
        ):
            worker, version, target = spot
            cells.append(Cell(len(cells) + 1, block, model, worker, version, name, repeat, target))
    return cells


def _check_number(
    blocks: Sequence[Block], spots: Sequence[Sequence[object]], mistakes: Mistakes
) -> None:
    """Raise BatchError if there are too many tasks, before the cells are created."""
    factors = [
        (len(block.models), len(block_spots), len(block.option_sets), block.repeats)
        for block, block_spots in zip(blocks, spots, strict=True)
    ]
    total = sum(map(math.prod, factors))
    if total > MOST_TASKS:
        numbers = [math.prod(sizes) for sizes in factors]
        largest = numbers.index(max(numbers))
        template = "{} models x {} devices and versions x {} option sets x {} repeats"
        product = template.format(*factors[largest])
        text = f"{total:,} tasks; one run can have at most {MOST_TASKS:,} ({product})"
        mistakes.add(blocks[largest].place, text)
        mistakes.raise_any()


#: device, version, target
_Spot = tuple[str, str, Mapping[str, Any] | None]


def _spots(
    block: Block, devices: Mapping[str, Sequence[str]], mistakes: Mistakes
) -> Iterator[_Spot]:
    """Yield each device or target with each of its requested versions."""
    for number, worker in enumerate(block.workers):
        place = joined(block.place, f"workers[{number}]")
        if not isinstance(worker, str):
            yield from _targets(block, worker, place, mistakes)
        elif worker not in devices:
            mistakes.add(
                place,
                f"device “{worker}” does not exist, or you don’t have access; {_known(devices)}",
            )
        elif not devices[worker]:
            mistakes.add(place, f"{worker} has no usable MegEngine version")
        elif not block.versions:
            yield worker, devices[worker][0], None
        else:
            versions = _versions(block, worker, devices, mistakes)
            yield from ((worker, version, None) for version in versions)


def _targets(
    block: Block, target: Mapping[str, Any], place: str, mistakes: Mistakes
) -> Iterator[_Spot]:
    labels = [f"{name}={value}" for name, value in target.get("labels", {}).items()]
    words = ", ".join(filter(None, [*labels, target.get("pool"), target.get("versions")]))
    if not block.versions:
        yield f"any ({words})" if words else "any", "", target
    elif target.get("versions") or block.versions == (ALL_VERSIONS,):
        mistakes.add(
            place,
            "give the versions either here or in “versions”, not in both; “all” needs a device "
            "given by name",
        )
    else:
        for version in block.versions:
            own = {**target, "versions": f"=={version}"}
            yield f"any ({words})" if words else "any", version, own


def _versions(
    block: Block, worker: str, devices: Mapping[str, Sequence[str]], mistakes: Mistakes
) -> Iterator[str]:
    if block.versions == (ALL_VERSIONS,):
        yield from devices[worker]
        return
    for number, version in enumerate(block.versions):
        if version in devices[worker]:
            yield version
        else:
            place = joined(block.place, f"versions[{number}]")
            known = ", ".join(devices[worker])
            mistakes.add(place, f"{worker} does not have MegEngine {version}; it has {known}")


def _known(devices: Mapping[str, Sequence[str]]) -> str:
    names = ", ".join(sorted(devices)[:MOST_NAMED])
    more = ", ..." if len(devices) > MOST_NAMED else ""
    return f"your devices: {names}{more}" if devices else "you have access to no device"


def room_words(tasks: int, *, live: int, limit: int, waits: bool) -> tuple[str, bool]:
    """Return a message on the user's limit of live tasks, and whether `tasks` more can be created.

    waits: whether the command waits and submits further tasks when others have ended
    """
    room = max(0, limit - live)
    have = "task has" if live == 1 else "tasks have"
    text = f"{live} {have} not ended (limit: {limit})"
    if tasks <= room:
        return f"{text}; all of these fit.", True
    if waits and limit:
        return f"{text}: {room} of these are submitted now, the rest when others end.", True
    return f"{text}: {tasks - room} of these would be refused.", False


def newest_first(versions: Sequence[str]) -> list[str]:
    """Sort versions by their numeric components, the newest first: 1.13.0 before 1.9.1."""

    def key(version: str) -> list[tuple[int, int, str]]:
        parts = version.replace("-", ".").replace("+", ".").split(".")
        # 1.13.0.dev1 < 1.13.0 < 1.13.0.1
        return [*((2, int(p), "") if p.isdecimal() else (0, 0, p) for p in parts), (1, 0, "")]

    return sorted(versions, key=key, reverse=True)


def _document(path: Path) -> Document:
    """Read a TOML or YAML file. Raises BatchError with the file as place, and line and column."""
    suffix = path.suffix.lower()
    if suffix not in {".toml", ".yaml", ".yml"}:
        raise BatchError([(str(path), "expected a file that ends in .toml, .yaml or .yml")])
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_LIMIT_BYTES + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise BatchError([(str(path), error.strerror or str(error))]) from error
    except UnicodeDecodeError as error:
        raise BatchError([(str(path), f"invalid UTF-8 at byte {error.start}")]) from error
    if len(data) > SIZE_LIMIT_BYTES:
        raise BatchError([(str(path), f"larger than {SIZE_LIMIT_BYTES // 1024} KiB")])
    document = _toml(path, text) if suffix == ".toml" else _yaml(path, text)
    if not isinstance(document, dict):
        raise BatchError([(str(path), "expected a table of keys, such as “models: [...]”")])
    return document


def _toml(path: Path, text: str) -> Any:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BatchError([(str(path), str(error))]) from error
    except RecursionError as error:
        raise BatchError([(str(path), "nested too deeply")]) from error


def _yaml(path: Path, text: str) -> Any:
    # TOML needs only the standard library; YAML needs `webprofile[yaml]`
    try:
        from webprofile.client.batchfile.yaml_text import read_yaml
    except ImportError as error:
        raise BatchError([(str(path), "YAML needs PyYAML: pip install PyYAML")]) from error
    return read_yaml(path, text)
