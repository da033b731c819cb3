"""Convert the inputs of a task to files that load_and_run reads: one npy file per input.

Needs numpy; never unpickles.
"""

import errno
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from agent.execution.report import InputRecord, Report
from agent.inputs.random_inputs import write_random
from agent.link.cache import sha256_of
from agent.protocol.input_rules import ALL_DTYPES, LONGEST_NAME, can_be_given
from agent.protocol.inputs import (
    Array,
    InputError,
    RuntimeKind,
    Shape,
    braces,
    check_axes,
    check_dtype,
    npy,
    size_of,
)
from agent.protocol.inputs.json_inputs import read_json
from agent.protocol.inputs.literals import read_literal
from agent.protocol.inputs.pictures import map_picture
from agent.protocol.messages import Start
from agent.protocol.notes import Note
from agent.protocol.run_log import TensorInfo

#: size limit of one prepared input, so that a batch size or a random shape cannot fill the disk
MOST_BYTES = 1 << 32
#: with less free space the disk of the device counts as full
LEAST_FREE_BYTES = 1 << 29
_LISTED = 20
#: load_and_run's name for an input without a name
_UNNAMED = "data"


@dataclass(frozen=True)
class RandomSource:
    """Random numbers from `seed` and the input's name. None: the model's shape or dtype."""

    shape: Shape | None = None
    dtype: str | None = None
    seed: int = 0


#: an uploaded file (.npy, .json, .ppm or .pgm), numbers in load_and_run's command line syntax
#: (`1,2.5` or nested brackets), or random numbers
Source = Path | str | RandomSource
SourceKind = Literal["file", "literal", "random"]


def prepare_order(
    report: Report, folder: Path, tensors: Iterable[TensorInfo] | None
) -> Mapping[str, str]:
    """Write the input files of the report's order; return input variables and file names.

    `tensors` are the model's inputs, None if they are unknown. The inputs are recorded in the
    report. Reads and writes files: call it in a thread. Raises InputError.
    """
    order = report.order
    batch = order.options.get("batch_size")
    prepared = prepare_inputs(
        _sources(order, folder),
        tensors,
        folder,
        kind=report.runtime.info.kind,
        batch=batch if isinstance(batch, int) and batch > 0 else None,
        fill_seed=order.seed if order.fill else None,
    )
    report.notes = tuple(prepared.notes)
    report.inputs = tuple(
        _record(name, folder / file, prepared.kinds[name]) for name, file in prepared.files.items()
    )
    return prepared.files


def _sources(order: Start, folder: Path) -> Iterator[tuple[str, Source]]:
    for file in order.data:
        if not file.option:
            yield file.input or _UNNAMED, folder / file.name
    for entry in order.inputs:
        if entry.literal:
            yield entry.name, entry.literal
        else:
            yield entry.name, RandomSource(entry.shape, entry.dtype or None, order.seed)


def _record(name: str, path: Path, source: SourceKind) -> InputRecord:
    header = npy.read_header(path, "wheel")
    return InputRecord(
        name=name,
        source=source,
        dtype=header.dtype.name,
        shape=header.shape,
        sha256=sha256_of(path),
    )


def prepare_inputs(
    sources: Iterable[tuple[str, Source]],
    expected: Iterable[TensorInfo] | None,
    folder: Path,
    *,
    kind: RuntimeKind,
    batch: int | None = None,
    fill_seed: int | None = None,
) -> "PreparedInputs":
    """Write an npy file to `folder` for each input: format 1.0, C order, little endian.

    `sources` are pairs of an input's name and its source; a JSON file contains the names of its
    inputs, and the name in the pair is then ignored. `expected` are the model's inputs; if None,
    names and dtypes are not checked against the model. `batch` sets the length of the first axis of
    every input by repeating or cutting off entries (load_and_run's `batch_size` would drop the
    values instead). `fill_seed` seeds random numbers for inputs of the model without a source; if
    None, these are only noted. Raises InputError for the first unusable input, and then leaves no
    file behind.
    """
    model = None if expected is None else {tensor.name: tensor for tensor in expected}
    prepared = PreparedInputs(folder, kind, batch, model)
    try:
        for name, source in sources:
            prepared.add(name, source)
        if model is not None:
            missing = [tensor for tensor in model.values() if tensor.name not in prepared.files]
            prepared.fill(missing, fill_seed)
    except BaseException:
        prepared.undo()
        raise
    return prepared


@dataclass
class PreparedInputs:
    """Writes the inputs. `files` maps inputs to file names, in the order of the sources.

    `notes` are shown with the result. `kinds` maps inputs to the kinds of their sources.
    """

    folder: Path
    kind: RuntimeKind
    batch: int | None
    model: Mapping[str, TensorInfo] | None
    files: dict[str, str] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    kinds: dict[str, SourceKind] = field(default_factory=dict)
    #: source of the current input
    source: Source = RandomSource()

    def add(self, name: str, source: Source) -> None:
        self.source = source
        try:
            self._add(name, source)
        except InputError as error:
            error.data.setdefault("name", source.name if isinstance(source, Path) else name)
            raise

    def _add(self, name: str, source: Source) -> None:
        if isinstance(source, RandomSource):
            self._write_random(name, source)
        elif isinstance(source, str):
            self._write(name, _literal(name, source))
        else:
            self._add_file(name, source)

    def fill(self, missing: list[TensorInfo], seed: int | None) -> None:
        for tensor in missing:
            if seed is not None:
                self.add(tensor.name, RandomSource(seed=seed))
            code = "input_missing" if seed is None else "input_random"
            kind = f"{tensor.dtype} {braces(tensor.shape)}".strip()
            self.notes.append(Note.of(code, name=tensor.name, type=kind))

    def undo(self) -> None:
        for name in self.files.values():
            (self.folder / name).unlink(missing_ok=True)

    def _add_file(self, name: str, path: Path) -> None:
        suffix = path.suffix.lower()
        if suffix == ".json":
            for key, array in read_json(path).items():
                self._write(key, array)
        elif suffix in (".ppm", ".pgm"):
            self._write(name, map_picture(path))
        elif suffix == ".npy":
            header = npy.read_header(path, self.kind)
            is_unchanged = self.batch is None and npy.is_canonical(path, header)
            self._write(name, npy.map_array(path, header), path if is_unchanged else None)
        else:
            raise InputError.of("format", "input_suffix", name=path.name)

    def _write(self, name: str, array: Array, ready: Path | None = None) -> None:
        """Write the array to a file, or link `ready`, a file that already contains it."""
        self._check(name, array.dtype, array.shape)
        shape = (self.batch or array.shape[0], *array.shape[1:])
        target = self._reserve(name)
        is_linked = ready is not None and _link(ready, target)
        self._check_room(name, shape, array.dtype, is_linked=is_linked)
        self._note_values(name, array)
        if not is_linked:
            npy.write_npy(target, array, shape[0])
        self._note_shape(name, shape)

    def _write_random(self, name: str, source: RandomSource) -> None:
        tensor = (self.model or {}).get(name)
        shape = source.shape if source.shape is not None else (tensor.shape if tensor else None)
        dtype_name = source.dtype or (tensor.dtype if tensor else "")
        if self.model is not None and tensor is None:
            raise _unknown(name, self.model)
        if shape is None:
            raise InputError.of("shape", "input_random_shape", name=name)
        dtype = self._random_dtype(name, dtype_name)
        check_axes(f'Input "{name}"', shape)
        shape = (self.batch or shape[0], *shape[1:])
        self._check(name, dtype, shape)
        self._check_room(name, shape, dtype)
        write_random(self._reserve(name), name, shape, dtype, source.seed)
        self._note_shape(name, shape)

    def _random_dtype(self, name: str, dtype_name: str) -> np.dtype[np.generic]:
        if dtype_name in ALL_DTYPES:
            return np.dtype(dtype_name)
        if dtype_name:
            raise InputError.of("shape", "input_random_dtype", name=name, dtype=dtype_name)
        if self.kind == "binary":
            raise InputError.of("shape", "input_random_type_binary", name=name)
        raise InputError.of("shape", "input_random_type", name=name)

    def _check(self, name: str, dtype: np.dtype[np.generic], shape: Shape) -> None:
        what = f'Input "{name}"'
        _check_name(name, self.kind)
        if name in self.files:
            raise InputError.of("name", "input_repeated", name=name)
        if self.model is not None and name not in self.model:
            raise _unknown(name, self.model)
        check_dtype(what, dtype, self.kind)
        check_axes(what, shape)
        tensor = (self.model or {}).get(name)
        dtype_name = dtype.newbyteorder("=").name
        if tensor is not None and tensor.dtype in ALL_DTYPES and tensor.dtype != dtype_name:
            raise InputError.of(
                "wrong_dtype",
                "input_wrong_dtype",
                name=name,
                dtype=dtype_name,
                shape=braces(shape),
                expected=tensor.dtype,
                expected_shape=braces(tensor.shape),
                advice=_advice(self.source, tensor.dtype),
            )

    def _check_room(
        self, name: str, shape: Shape, dtype: np.dtype[np.generic], *, is_linked: bool = False
    ) -> None:
        size = size_of(shape, dtype)
        # a link takes no space
        free = MOST_BYTES if is_linked else shutil.disk_usage(self.folder).free
        if size > free and free < LEAST_FREE_BYTES:
            # a full disk is not an error of the input
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if size > min(MOST_BYTES, free):
            raise InputError.of(
                "too_large",
                "input_too_large",
                name=name,
                dtype=dtype.name,
                shape=braces(shape),
                size=size,
            )

    def _reserve(self, name: str) -> Path:
        """Choose a file name for the input; users must not choose names of files on the device."""
        number = len(self.files)
        while (path := self.folder / f"input_{number}.npy").exists():
            number += 1
        self.files[name], self.kinds[name] = path.name, _kind(self.source)
        return path

    def _note_shape(self, name: str, shape: Shape) -> None:
        tensor = (self.model or {}).get(name)
        if tensor is None:
            return
        # no note about a different first axis if the user chose the batch size
        expected = (self.batch, *tensor.shape[1:]) if self.batch else tensor.shape
        if shape != expected:
            shapes = {"shape": braces(shape), "expected": braces(tensor.shape)}
            self.notes.append(Note.of("input_shape", name=name, **shapes))

    def _note_values(self, name: str, array: Array) -> None:
        """Note NaN and infinity; the wheel's load_and_run logs them, a compiled one does not."""
        if self.kind != "binary" or array.dtype.kind != "f":
            return
        count = sum(int(np.count_nonzero(~np.isfinite(chunk))) for chunk in npy.chunks(array))
        if count:
            self.notes.append(Note.of("input_not_finite", name=name, count=count, size=array.size))


def _literal(name: str, text: str) -> Array:
    try:
        return read_literal(text).array()
    except InputError as error:
        problem = Note.of(f"literal_{error.rule}", **error.data)
        raise InputError(
            error.code, f'Input "{name}": {error.text}', "input_literal", name=name, problem=problem
        ) from None


def _kind(source: Source) -> SourceKind:
    if isinstance(source, RandomSource):
        return "random"
    return "literal" if isinstance(source, str) else "file"


def _advice(source: Source, dtype: str) -> Note:
    if isinstance(source, str):
        if dtype == "float32":
            return Note.of("advice_point")
        return Note.of("advice_file", dtype=dtype)
    if isinstance(source, RandomSource):
        return Note.of("advice_random", dtype=dtype)
    return Note.of("advice_save", dtype=dtype)


def _check_name(name: str, kind: RuntimeKind) -> None:
    quoted = ascii(name[:60])
    if len(name) > LONGEST_NAME or not can_be_given(name, "wheel"):
        raise InputError.of("name", "input_name_invalid", name=quoted, limit=LONGEST_NAME)
    if not can_be_given(name, kind):
        raise InputError.of("name", "input_name_separator", name=quoted)


def _unknown(name: str, model: Mapping[str, TensorInfo]) -> InputError:
    if not model:
        return InputError.of("unknown_input", "input_none", name=name)
    listed = [f"{tensor.name} {tensor.dtype} {braces(tensor.shape)}" for tensor in model.values()]
    more = ", …" if len(listed) > _LISTED else ""
    inputs = f"{', '.join(listed[:_LISTED])}{more}"
    return InputError.of("unknown_input", "input_not_in_model", name=name, inputs=inputs)


def _link(source: Path, target: Path) -> bool:
    with suppress(OSError):  # another file system, or one without links
        os.link(source, target)
        return True
    return False
