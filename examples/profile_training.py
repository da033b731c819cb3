"""Profile a training step with both profilers of MegEngine, and write files for the site.

    <python with megengine> examples/profile_training.py OUT

The script writes three files. Upload them on the page "Profiles", together or one by one:

- OUT/static.json: forward, backward and the update as one compiled graph (`trace(profiling=True)`);
- OUT/<process>.chrome_timeline.json: the same step, executed by Python (`Profiler`). Each step
  reads the loss and so waits for the device; the site shows the cost;
- OUT/<process>.memory_flow.svg: the tensors in memory over time.

The page /profiles/guide/ of the site explains both profilers.
"""

import argparse
import json
import os

import megengine
import megengine.functional as F
import numpy as np
from make_resnet import SEED, SIZE, ResNet
from megengine.autodiff import GradManager
from megengine.jit import trace
from megengine.optimizer import SGD
from megengine.utils.profiler import Profiler

BATCH = 4
STEPS = 3


class Trainer:
    """A network with its optimizer and gradient manager."""

    def __init__(self):
        self.net = ResNet()
        self.net.train()
        self.optimizer = SGD(self.net.parameters(), lr=0.01, momentum=0.9)
        self.grads = GradManager().attach(self.net.parameters())

    def step(self, data, label):
        with self.grads:
            loss = F.nn.cross_entropy(self.net(data), label)
            self.grads.backward(loss)
        self.optimizer.step().clear_grad()
        return loss


def profile_static(data, label, path):
    """Write the profile of the last call of the compiled step."""
    run = trace(Trainer().step, symbolic=True, profiling=True)
    for _ in range(STEPS):
        run(data, label).numpy()
    with open(path, "w") as file:
        json.dump(run.get_profile(), file)


def profile_dynamic(data, label, folder, kind):
    """Write a file to `folder`. Each run has one format, because two crash MegEngine 1.13."""
    trainer = Trainer()
    trainer.step(data, label).numpy()  # the first step allocates memory
    with Profiler(path=folder, format=kind, sample_rate=10):
        for _ in range(STEPS):
            print("loss", trainer.step(data, label).item())


def main():
    parser = argparse.ArgumentParser(description="Profile a training step with both profilers.")
    parser.add_argument("out", help="folder for the files; created if missing")
    out = parser.parse_args().out
    os.makedirs(out, exist_ok=True)
    megengine.random.seed(SEED)
    random = np.random.default_rng(SEED)
    data = megengine.Tensor(random.normal(size=(BATCH, 3, SIZE, SIZE)).astype(np.float32))
    label = megengine.Tensor(random.integers(0, 10, BATCH).astype(np.int32))
    profile_static(data, label, os.path.join(out, "static.json"))
    for kind in ("chrome_timeline.json", "memory_flow.svg"):
        profile_dynamic(data, label, out, kind)
    for name in sorted(os.listdir(out)):
        print(os.path.join(out, name))


if __name__ == "__main__":
    main()
