"""Profile an inference with both profilers of MegEngine, and write files for the site.

    <python with megengine> examples/profile_inference.py OUT

The script writes three files. Upload them on the page "Profiles", together or one by one:

- OUT/static.json: the compiled graph, as load_and_run would run it (`trace(profiling=True)`);
- OUT/<process>.chrome_timeline.json: the same calls, executed one by one by Python (`Profiler`);
- OUT/<process>.memory_flow.svg: the tensors in memory over time.

The page /profiles/guide/ of the site explains both profilers.
"""

import argparse
import json
import os

import megengine
import numpy as np
from make_resnet import SEED, SIZE, ResNet
from megengine.jit import trace
from megengine.utils.profiler import Profiler

#: the first calls of a network choose algorithms and allocate memory, so they are not measured
WARM_UP = 3


def profile_static(net, data, path):
    """Write the profile of the last call of the compiled graph."""
    run = trace(net, symbolic=True, capture_as_const=True, profiling=True)
    for _ in range(WARM_UP + 1):
        run(data).numpy()
    with open(path, "w") as file:
        json.dump(run.get_profile(), file)


def profile_dynamic(net, data, folder, kind):
    """Write a file to `folder`. Each run has one format, because two crash MegEngine 1.13."""
    for _ in range(WARM_UP):
        net(data).numpy()
    with Profiler(path=folder, format=kind, sample_rate=10):
        net(data).numpy()


def main():
    parser = argparse.ArgumentParser(description="Profile an inference with both profilers.")
    parser.add_argument("out", help="folder for the files; created if missing")
    out = parser.parse_args().out
    os.makedirs(out, exist_ok=True)
    megengine.random.seed(SEED)
    net = ResNet()
    net.eval()
    values = np.random.default_rng(SEED).normal(size=(1, 3, SIZE, SIZE))
    data = megengine.Tensor(values.astype(np.float32))
    profile_static(net, data, os.path.join(out, "static.json"))
    for kind in ("chrome_timeline.json", "memory_flow.svg"):
        profile_dynamic(net, data, out, kind)
    for name in sorted(os.listdir(out)):
        print(os.path.join(out, name))


if __name__ == "__main__":
    main()
