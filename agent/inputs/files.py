"""Prepare the input files of an order for load_and_run's `--input`."""

import typing
from collections.abc import Iterator, Mapping
from pathlib import Path

from agent.execution.report import Report
from agent.inputs.prepare import (
    FileSource,
    InputSpec,
    LiteralSource,
    RandomSource,
    model_inputs,
    prepare_inputs,
)
from agent.link.cache import sha256_of
from agent.protocol import Start
from agent.protocol.inputs import RuntimeKind
from agent.protocol.inputs.npy import read_header
from agent.protocol.manifest import InputRecord
from agent.protocol.run_log import TensorInfo

#: load_and_run's name for an input without a name
_UNNAMED = "data"


class InputPreparer:
    """Prepares the inputs of one attempt, and records them in its report."""

    def __init__(self, order: Start, folder: Path, kind: RuntimeKind, report: Report) -> None:
        self._order, self._folder, self._kind, self._report = order, folder, kind, report

    def prepare(self, tensors: tuple[TensorInfo, ...] | None) -> Mapping[str, str]:
        """Write the input files; return a mapping of input variables to file names.

        `tensors` are the model's inputs, None if they are unknown. Reads and writes files: call it
        in a thread. Raises InputError.
        """
        order = self._order
        batch = order.options.get("batch_size")
        prepared = prepare_inputs(
            list(self._specs()),
            None if tensors is None else model_inputs(tensors),
            self._folder,
            kind=self._kind,
            batch=batch if isinstance(batch, int) and batch > 0 else None,
            fill_seed=order.seed if order.fill else None,
        )
        self._report.notes = prepared.notes
        self._report.inputs = tuple(
            self._record(name, file, is_random=name in prepared.filled)
            for name, file in prepared.files.items()
        )
        return prepared.files

    def _specs(self) -> Iterator[InputSpec]:
        order = self._order
        for file in order.data:
            if not file.option:
                name = file.input or _UNNAMED
                yield InputSpec(name, FileSource(self._folder / file.name))
        for entry in order.inputs:
            if entry.literal:
                yield InputSpec(entry.name, LiteralSource(entry.literal))
            else:
                source = RandomSource(entry.shape, entry.dtype or None, order.seed)
                yield InputSpec(entry.name, source)

    def _record(self, name: str, file: str, *, is_random: bool) -> InputRecord:
        path = self._folder / file
        header = read_header(path, "wheel")
        return InputRecord(
            name=name,
            source="random" if is_random else self._source(name),
            dtype=header.dtype.name,
            shape=header.shape,
            sha256=sha256_of(path),
        )

    def _source(self, name: str) -> typing.Literal["file", "literal", "random"]:
        """Return the source of an input: "file" unless the order has it, as JSON names its own."""
        for entry in self._order.inputs:
            if entry.name == name:
                return "literal" if entry.literal else "random"
        return "file"
