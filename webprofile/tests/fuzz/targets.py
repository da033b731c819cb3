"""Fuzz targets: functions that take arbitrary bytes and allow only the documented errors.

Imported under `atheris.instrument_imports`, so that the fuzzer sees which lines are reached.
"""

import contextlib
import io
import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from pydantic import ValidationError

from agent.protocol.inputs import InputError
from agent.protocol.inputs.json_inputs import read_json
from agent.protocol.inputs.literals import read_literal
from agent.protocol.inputs.npy import map_array, read_header
from agent.protocol.inputs.pictures import map_picture
from agent.protocol.measurement import Measurement
from agent.protocol.messages import decode_agent, decode_server, encode
from agent.protocol.options import Capabilities, OptionError, build_arguments, check_options
from agent.protocol.run_log import parse_log
from profiles.analysis import io_dump
from profiles.formats import detection, tensor_dump
from profiles.formats.chrome_trace.dynamic_profile import read_dynamic
from profiles.formats.chrome_trace.summary import TraceSummary
from profiles.formats.errors import ProfileFormatError
from profiles.formats.load_and_run.graph_json import parse_graph
from profiles.formats.load_and_run.reader import parse, parse_whole
from profiles.formats.memory_flow.summary import MemoryFlowSummary, read_memory_flow
from profiles.formats.npz import DAMAGE, unpack_columns
from profiles.formats.static_memory.plan_file import unpack
from profiles.formats.static_memory.summary import StaticMemory, read_static_memory
from profiles.ingest.results import measurement_row, parse_warnings
from tasks.models import Attempt
from tasks.submission import contents
from tasks.submission.model_heads import HEAD_BYTES, check_model
from webprofile.client.batchfile import BatchError
from webprofile.client.batchfile.matrix import blocks_of, read_batch
from webprofile.client.batchfile.yaml_text import read_yaml
from webprofile.errors import DomainError

_FOLDER = Path(tempfile.mkdtemp(prefix="fuzz-"))
_SAMPLE = Path(__file__).parents[3] / "profiles" / "tests" / "static_memory" / "tiny.zip"
_PLAN = zipfile.ZipFile(_SAMPLE).read("StaticMemoryInfo.json")
MAX_BYTES = 1 << 20


class ContractError(Exception):
    """The code raised no unexpected error, but violated its contract."""


@dataclass(frozen=True)
class FuzzTarget:
    """A fuzz target.

    seeds: glob patterns below testdata/ or the repository
    is_json: mutate inputs as JSON instead of bytes
    """

    feed: Callable[[bytes], None]
    seeds: tuple[str, ...]
    is_json: bool = False


@contextlib.contextmanager
def explained_errors() -> Iterator[None]:
    """Allow errors of formats and dumps that have a code and a detail."""
    try:
        yield
    except (ProfileFormatError, tensor_dump.DumpError) as error:
        if not error.code or not error.detail:
            raise ContractError("an error without code or detail") from error
        error.detail.encode()


def feed_profile(data: bytes) -> None:
    with contextlib.suppress(ProfileFormatError):
        io_dump.makers(data)
    with contextlib.suppress(ProfileFormatError):
        parse(data, max_bytes=MAX_BYTES, checked=False)
    with explained_errors():
        columns = parse(data, max_bytes=MAX_BYTES)
        parse_graph(data, columns)
    with explained_errors():
        columns, graph = parse_whole(data, max_bytes=MAX_BYTES)
        graph()


def feed_trace(data: bytes) -> None:
    with explained_errors():
        trace = read_dynamic(_written("trace.json", data))
        encoded = msgspec.json.encode(trace.summary)
        if msgspec.json.decode(encoded, type=TraceSummary) != trace.summary:
            raise ContractError("encoding changes the summary")


def feed_static_memory(data: bytes) -> None:
    with explained_errors():
        _check_encoding(read_static_memory(_written("plan.json", data), None))


def feed_static_graph(data: bytes) -> None:
    """A graph with arbitrary bytes next to a valid plan of six operators."""
    _check_encoding(read_static_memory(_written("plan.json", _PLAN), _written("g", data)))


def feed_static_zip(data: bytes) -> None:
    """Unpack and read a zip as a device sends it."""
    path = _written("plan.zip", data)
    folder = Path(tempfile.mkdtemp(dir=_FOLDER))
    try:
        with explained_errors():
            plan, graph = unpack(path, folder / "plan", max_bytes=MAX_BYTES)
            _check_encoding(read_static_memory(plan, graph))
    finally:
        shutil.rmtree(folder)


def _check_encoding(plan: bytes) -> None:
    if msgspec.json.encode(msgspec.json.decode(plan, type=StaticMemory)) != plan:
        raise ContractError("encoding changes the plan")


def feed_memory_flow(data: bytes) -> None:
    with explained_errors():
        summary = read_memory_flow(_written("memory_flow.svg", data))
        if msgspec.json.decode(summary, type=MemoryFlowSummary).peak_bytes < 0:
            raise ContractError("the peak is negative")


def feed_columns(data: bytes) -> None:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            unpack_columns({name: file[name] for name in file.files})
    except DAMAGE:
        return


def feed_dump(data: bytes) -> None:
    with explained_errors():
        dump = tensor_dump.open_zip(io.BytesIO(data), most_bytes=MAX_BYTES)
        for header in dump.headers().values():
            for _ in dump.blocks(header, 4096):
                pass


def feed_tensor(data: bytes) -> None:
    with explained_errors():
        tensor_dump.read_header("00001f", io.BytesIO(data), len(data))


def feed_detection(data: bytes) -> None:
    detection.other_kind(data[: detection.HEAD_BYTES])
    with contextlib.suppress(DomainError):
        check_model("x.mge", data[:HEAD_BYTES], len(data))


def feed_npy(data: bytes) -> None:
    for kind in ("wheel", "binary"):
        _inspect("x.npy", data, kind)
    path = _written("x.npy", data)
    with contextlib.suppress(InputError):
        header = read_header(path, "wheel")
        map_array(path, header).ravel()[:16].sum()


def feed_picture(data: bytes) -> None:
    _inspect("x.ppm", data, "wheel")
    with contextlib.suppress(InputError):
        map_picture(_written("x.ppm", data)).ravel()[:16].sum()


def feed_json_input(data: bytes) -> None:
    _inspect("x.json", data, "wheel")
    with contextlib.suppress(InputError):
        read_json(_written("x.json", data))


def feed_literal(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    try:
        literal = read_literal(text)
    except InputError as error:
        if not error.rule:
            raise ContractError("the site has no message for it") from error
        return
    # the device must read what the site accepts, with the same result
    array = read_literal(literal.text).array()
    if array.shape != literal.shape or str(array.dtype) != literal.dtype:
        raise ContractError(f"{literal} is read as {array.dtype} {array.shape}")


def feed_frame(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for decode in (decode_agent, decode_server):
        try:
            message = decode(text)
        except ValidationError:
            continue
        if "NaN" not in text and decode(encode(message)) != message:
            raise ContractError(f"encoding changes {message!r:.200}")


def feed_batch(data: bytes) -> None:
    with contextlib.suppress(BatchError):
        read_yaml(Path("a.yaml"), data.decode("utf-8", "replace"))
    for suffix in (".yaml", ".toml"):
        try:
            read_batch(_written(f"batch{suffix}", data))
        except BatchError as error:
            if not error.mistakes:
                raise ContractError("an error without mistakes") from error


def feed_document(data: bytes) -> None:
    """A batch file that is already parsed."""
    with contextlib.suppress(ValueError, RecursionError):
        document = json.loads(data)
        if isinstance(document, dict) and all(isinstance(key, str) for key in document):
            with contextlib.suppress(BatchError):
                blocks_of(document, folder=_FOLDER)


def feed_options(data: bytes) -> None:
    try:
        options = json.loads(data)
    except (ValueError, RecursionError):
        return
    if not isinstance(options, dict):
        return
    plain = {k: v for k, v in options.items() if isinstance(v, bool | int | float | str)}
    for runtime in (None, Capabilities("wheel"), Capabilities("binary", run_cores=(0, 2))):
        try:
            chosen = check_options(plain, runtime=runtime)
        except OptionError:
            continue
        for argument in build_arguments("model.mge", {}, chosen, "profile.json")[1:]:
            if not argument.startswith("--"):
                raise ContractError(f"an argument that is no option: {argument!r:.100}")


def feed_log(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    parse_log(text)
    parse_warnings(text)


def feed_measurement(data: bytes) -> None:
    try:
        measurement = Measurement.model_validate_json(data)
    except ValidationError:
        return
    row = measurement_row(Attempt(), measurement, [])
    columns = (row.plan, row.passes, row.disturbances, row.notes, row.gate, row.device)
    # PostgreSQL's JSON accepts neither NaN nor NUL
    text = json.dumps([*columns, row.histogram], allow_nan=False, ensure_ascii=False)
    if "\\u0000" in text:
        raise ContractError("a NUL for the database")
    text.encode()


def _inspect(name: str, data: bytes, kind: str) -> None:
    try:
        for array in contents.inspect(name, data[: 64 * 1024], len(data), kind=kind):
            json.dumps(array, allow_nan=False)
    except DomainError as error:
        if not error.code.startswith("input_"):
            raise ContractError(f"{error.code} is no code of an input") from error


def _written(name: str, data: bytes) -> Path:
    path = _FOLDER / name
    path.write_bytes(data)
    return path


_FRAMES = "agent/protocol/tests/frames/*/*.json"
TARGETS = {
    "profile": FuzzTarget(feed_profile, ("profiles/*.json", "bad/profiles/*.json"), is_json=True),
    "trace": FuzzTarget(feed_trace, ("traces/*/*.json",), is_json=True),
    "static_memory": FuzzTarget(feed_static_memory, (), is_json=True),
    "static_graph": FuzzTarget(feed_static_graph, (), is_json=True),
    "static_zip": FuzzTarget(feed_static_zip, ("profiles/tests/static_memory/*.zip",)),
    "memory_flow": FuzzTarget(feed_memory_flow, ("traces/*/*.svg",)),
    "columns": FuzzTarget(feed_columns, ("bad/inputs/*.npz",)),
    "dump": FuzzTarget(feed_dump, ("bad/inputs/*.npz",)),
    "tensor": FuzzTarget(feed_tensor, ()),
    "detection": FuzzTarget(
        feed_detection, ("profiles/*.json", "bad/models/*", "traces/*/*", "bad/inputs/*")
    ),
    "npy": FuzzTarget(feed_npy, ("inputs/*/*.npy", "bad/inputs/*.npy")),
    "picture": FuzzTarget(feed_picture, ()),
    "json_input": FuzzTarget(feed_json_input, ("inputs/*/*.json",), is_json=True),
    "literal": FuzzTarget(feed_literal, ()),
    "frame": FuzzTarget(feed_frame, (_FRAMES,), is_json=True),
    "batch": FuzzTarget(feed_batch, ("examples/*.yaml", "examples/*.toml")),
    "document": FuzzTarget(feed_document, (), is_json=True),
    "options": FuzzTarget(feed_options, (), is_json=True),
    "log": FuzzTarget(feed_log, ("load_and_run/**/*.txt",)),
    "measurement": FuzzTarget(feed_measurement, (), is_json=True),
}
