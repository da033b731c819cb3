"""Makers of small binary dumps in the format of `load_and_run --bin_io_dump`."""

import io
import struct
import zipfile
from pathlib import Path

import numpy as np

CODES = {"float32": 0, "uint8": 1, "int8": 2, "int16": 3, "int32": 4, "float16": 9}


def tensor_bytes(
    array: np.ndarray, variable: int, name: str, *, owner: str = "op", code: int | None = None
) -> bytes:
    """Return the file of one variable."""
    text = (
        f"var={{id:{variable}, layout:{{}}, Float32, owner:{owner}[7]{{Elemwise}}, "
        f'name:{name}, slot:0, CompNode("cpu0:0" from "cpu0:0"), s, 4, 4}}'
    ).encode()
    shape = [*array.shape, *[0] * 7][:7]
    kind = CODES[array.dtype.name] if code is None else code
    return struct.pack("<10I", len(text), kind, 7, *shape) + text + array.tobytes()


def make_files(arrays: dict[tuple[int, str], np.ndarray]) -> dict[str, bytes]:
    """Return the files of a dump by name; the keys of `arrays` are (variable id, name)."""
    return {
        f"{number:06x}": tensor_bytes(array, number, name)
        for (number, name), array in arrays.items()
    }


def write_folder(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def zip_bytes(files: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(f"bin_io_dump/{name}", data)
    return file.getvalue()
