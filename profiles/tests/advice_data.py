"""Real profiles for the tests of advice, and a plain reader of their JSON to compare with.

The small profiles in `advice_profiles` were recorded with load_and_run of MegEngine 1.13.0, with
2 warm-ups and 3 iterations on an x86 processor, of models made by `trace(...).dump`:

- conv_bias: conv 3x3 (8 to 16), ReLU, conv 3x3, ReLU, conv 1x1, each with bias, 1x8x112x112;
  conv_bias_fused with --enable_fuse_conv_bias_nonlinearity
- constant_work: x @ (w @ v + 1), weights 512x512
- transposes: ReLU, to NHWC, ReLU, to NCHW, ReLU, 1x64x128x128
- type_changes: ReLU, to float16, to float32, exp, to int32, to float32, +1, of the same size
- result_copy: ReLU, * 2, + 1 of the same size; the whole result is an output
- waiting_copies: the same with `* 2` on cpu1; --mdl keeps the comp nodes of the model
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
    """Return a profile from `advice_profiles`, `testdata/profiles` or `testdata/load_and_run`."""
    own = RECORDED / f"{name}.json.gz"
    if own.is_file():
        return gzip.decompress(own.read_bytes())
    shared = DATA / "profiles" / f"{name}.json"
    if shared.is_file():
        return shared.read_bytes()
    return (DATA / "load_and_run" / name / "profile.json").read_bytes()


def by_hand(name: str) -> list[dict[str, Any]]:
    """Return a dict for each row: name, type, times on device and host in s, footprint.

    `device_s` includes the wait before the first kernel, `work_s` does not.
    """
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
