"""Real profiles for the rules of advice, and the same numbers taken from their JSON by hand.

The small ones in `advice_profiles` were recorded with MegEngine 1.13.0 by load_and_run, 2 warm-ups
and 3 iterations on an x86 processor, of models made by `trace(...).dump`:

- conv_bias: conv 3x3 (8 to 16), ReLU, conv 3x3, ReLU, conv 1x1, each with bias, 1x8x112x112;
  conv_bias_fused with --enable_fuse_conv_bias_nonlinearity
- constant_work: x @ (w @ v + 1), weights 512x512
- transposes: ReLU, to NHWC, ReLU, to NCHW, ReLU, 1x64x128x128
- type_changes: ReLU, to float16, to float32, exp, to int32, to float32, +1, of the same size
- result_copy: ReLU, * 2, + 1 of the same size, handed out whole
- waiting_copies: the same with `* 2` on cpu1, which --mdl keeps
- lstm_two_threads: the sample LSTM; lstm_one_thread with --cpu_default; first_run without warm-up
- interrupted: the sample bert_tiny and resnet18_planned the sample resnet18, 5 iterations on a
  processor with other work; float16 is the latter with --enable_ioc16
"""

import gzip
import json
from pathlib import Path
from typing import Any

from testdata import DATA

RECORDED = Path(__file__).parent / "advice_profiles"


def recorded(name: str) -> bytes:
    """A profile of this folder, of `testdata/profiles`, or of a run in `load_and_run`."""
    own = RECORDED / f"{name}.json.gz"
    if own.is_file():
        return gzip.decompress(own.read_bytes())
    shared = DATA / "profiles" / f"{name}.json"
    if shared.is_file():
        return shared.read_bytes()
    return (DATA / "load_and_run" / name / "profile.json").read_bytes()


def by_hand(name: str) -> list[dict[str, Any]]:
    """One dict for each row: name, type, device and host time in s, footprint, wait before work."""
    file = json.loads(recorded(name))
    profiler = file["profiler"]
    timed = profiler["device"].keys() | profiler["host"].keys() | profiler["opr_footprint"].keys()
    return [
        {
            "key": key,
            "name": operator["name"],
            "type": operator["type"],
            "device_s": _longest(profiler["device"].get(key, {}), "start", "end"),
            "work_s": _longest(profiler["device"].get(key, {}), "kern", "end"),
            "host_s": _longest(profiler["host"].get(key, {}), "start", "end"),
            "footprint": profiler["opr_footprint"].get(key, {}),
        }
        for key, operator in file["graph_exec"]["operator"].items()
        if key in timed
    ]


def total_by_hand(name: str) -> float:
    return sum(row["device_s"] for row in by_hand(name))


def _longest(nodes: dict[str, Any], first: str, last: str) -> float:
    return max((times[last] - times[first] for times in nodes.values()), default=0.0)
