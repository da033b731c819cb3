"""Memory plans for tests: recorded ones, and factories of small ones.

MegEngine 1.13.0 wrote the recorded plans for models of testdata/; they are packed as a device
packs them. If MegEngine is installed, `test_static_memory_real.py` writes them again.
"""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).parent / "static_memory"
NAMES = tuple(sorted(path.stem for path in SAMPLES.glob("*.zip")))

Plan = dict[str, Any]


def packed_plan(name: str) -> bytes:
    """Return the artifact `staticmeminfo.zip` of a model."""
    return (SAMPLES / f"{name}.zip").read_bytes()


def plan_of(name: str) -> bytes:
    """Return the file StaticMemoryInfo.json of a model."""
    return zipfile.ZipFile(io.BytesIO(packed_plan(name))).read("StaticMemoryInfo.json")


def graph_of(name: str) -> bytes:
    """Return the file graph.json of a model."""
    return zipfile.ZipFile(io.BytesIO(packed_plan(name))).read("graph.json")


def make_chunk(number: int, life: tuple[int, int], place: tuple[int, int], **changes: Any) -> Plan:
    """Return a chunk of a file; `life` and `place` are half-open ranges of steps, of addresses."""
    return {
        "id": str(number),
        "type": "static_mem",
        "time_begin": str(life[0]),
        "time_end": str(life[1]),
        "logic_addr_begin": str(place[0]),
        "logic_addr_end": str(place[1]),
        "overwrite_dest_id": "-1",
        **changes,
    }


def make_plan(operators: int, *chunks: Plan) -> Plan:
    """Return a plan whose operators are called `op0`, `op1` ..."""
    return {
        "opr": {str(n): {"id": str(n), "name": f"op{n}"} for n in range(operators)},
        "chunk": {chunk["id"]: chunk for chunk in chunks},
    }


def to_bytes(plan: Plan) -> bytes:
    return json.dumps(plan).encode()


def zip_json_files(**files: bytes) -> bytes:
    """Return a zip of these files; `.json` is appended to their names."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(f"{name}.json", data)
    return buffer.getvalue()
