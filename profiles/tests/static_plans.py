"""Memory plans for tests: real ones, and such as are made up.

The real ones are what MegEngine 1.13.0 wrote for models of testdata/, packed as a device does it;
`test_static_memory_real.py` writes them once more where MegEngine is installed.
"""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).parent / "static_memory"
NAMES = tuple(sorted(path.stem for path in SAMPLES.glob("*.zip")))

Plan = dict[str, Any]


def packed(name: str) -> bytes:
    """The artifact `staticmeminfo.zip` of a model."""
    return (SAMPLES / f"{name}.zip").read_bytes()


def plan_of(name: str) -> bytes:
    """Its StaticMemoryInfo.json."""
    return zipfile.ZipFile(io.BytesIO(packed(name))).read("StaticMemoryInfo.json")


def graph_of(name: str) -> bytes:
    """Its graph.json."""
    return zipfile.ZipFile(io.BytesIO(packed(name))).read("graph.json")


def make_chunk(number: int, life: tuple[int, int], place: tuple[int, int], **changes: Any) -> Plan:
    """A chunk as the file has it: from operator to the one behind, from address to address."""
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
    """A plan whose operators are called `op0`, `op1` ..."""
    return {
        "opr": {str(n): {"id": str(n), "name": f"op{n}"} for n in range(operators)},
        "chunk": {chunk["id"]: chunk for chunk in chunks},
    }


def to_bytes(plan: Plan) -> bytes:
    return json.dumps(plan).encode()


def zipped(**files: bytes) -> bytes:
    """A zip of these files; `StaticMemoryInfo` and `graph` become .json."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(f"{name}.json", data)
    return buffer.getvalue()
