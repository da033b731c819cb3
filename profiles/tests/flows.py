"""Makers of `memory_flow.svg` in exactly the text that MegEngine's Profiler writes."""

from pathlib import Path

from profiles.formats.memory_flow.reader import read_flow
from profiles.formats.memory_flow.summary import MemoryFlowSummary, summarize
from testdata import DATA

MLP = DATA / "traces/dynamic_train_mlp_scopes/profile.memory_flow.svg"
RESNET = DATA / "traces/dynamic_train_resnet/profile.memory_flow.svg"
HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" '
    '"http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">\n'
    '<svg xmlns="http://www.w3.org/2000/svg" xmlns:tag="https://megengine.org.cn" '
    'width="86" height="46085201.006720">\n'
    '<rect x="0" y="0" width="86" height="46085201.006720" fill="blue">\n</rect>\n'
)
END = "</svg>\n"


def format_units(number: int, units: tuple[tuple[str, int], ...]) -> str:
    """Format a number as MegEngine's time2str and size2str do; 0 is an empty text."""
    text = ""
    for name, factor in units:
        if number >= factor:
            text += f"{number // factor}{name} "
            number %= factor
    return text


def time_text(ns: int) -> str:
    return format_units(ns, (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1)))


def size_text(size: int) -> str:
    return format_units(size, (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10), ("B", 1)))


def tensor(
    name: str,
    *,
    at: int,
    size: int,
    begin: int,
    end: int | None,
    layout: str = "{2(3),3(1) Float32}",
    group: int | None = 7,
) -> str:
    """Return a rectangle; begin and end in ns; with end=None the tensor was never erased."""
    fields = {
        "x": f"{begin // 100_000}.000000",
        "y": f"{at / 1e6:.6f}",
        "height": f"{size / 1e6:.6f}",
        "width": f"{((end or 0) - begin) // 100_000}.000000",
        "fill": "#CCCCCC",
        "tag:type": "tensor",
        "tag:name": name,
        "tag:address": hex(at),
        "tag:size": size_text(size),
        "tag:layout": layout,
        "tag:produced": time_text(begin),
        "tag:erased": time_text(end or 0),
        "tag:duration": time_text(max(0, (end or 0) - begin)),
    }
    if group is not None:
        fields["tag:group"] = str(group)
    attributes = " ".join(f'{key}="{value}"' for key, value in fields.items())
    return f"<rect {attributes}>\n</rect>\n"


def to_flow(*rectangles: str) -> bytes:
    return f"{HEAD}{''.join(rectangles)}{END}".encode()


def read(folder: Path, data: bytes) -> MemoryFlowSummary:
    path = folder / "memory_flow.svg"
    path.write_bytes(data)
    return summarize(read_flow(path))
