"""Real profiles for the tests of advice, their expected rows, and their findings.

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

from profiles.analysis.advice.finding import Finding, RunFacts
from profiles.analysis.advice.registry import advise
from profiles.analysis.roofline import Roofs
from profiles.tests.passes import data_of
from testdata import DATA, compiled_profile, good_profile

ROOFS = Roofs({"Float32": 60e9}, 12e9, "measured")
#: every fact that a rule can use
ALL_FACTS = RunFacts(
    iterations_s={"profile-1.json": 1.0},
    iteration_cv=0.2,
    overhead=0.5,
    options={},
    machine="aarch64",
    roofs=ROOFS,
)


def recorded_profile(name: str) -> bytes:
    """Return a profile from `advice_profiles`, `testdata/profiles` or `testdata/load_and_run`."""
    own = Path(__file__).parent / "advice_profiles" / f"{name}.json.gz"
    if own.is_file():
        return gzip.decompress(own.read_bytes())
    if (DATA / "profiles" / f"{name}.json").is_file():
        return good_profile(name)
    return compiled_profile(name)


def findings_of(*passes: bytes, facts: RunFacts | None = None) -> dict[str, Finding]:
    """Return the findings for a profile of these passes, by the name of the rule."""
    findings = advise(data_of(*passes), facts or RunFacts()).findings
    return {finding.rule: finding for finding in findings}


def expected_rows(name: str) -> list[dict[str, Any]]:
    """Read the rows of a recorded profile from its JSON, without the parser under test.

    Each row has the name, the type, times on device and host in s, and the footprint. `device_s`
    includes the wait before the first kernel, `work_s` does not.
    """
    file = json.loads(recorded_profile(name))
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


def expected_total_s(name: str) -> float:
    return sum(row["device_s"] for row in expected_rows(name))


def _longest(nodes: dict[str, Any], first: str, last: str) -> float:
    return max((times[last] - times[first] for times in nodes.values()), default=0.0)
