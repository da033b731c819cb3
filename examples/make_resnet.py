"""Create a small residual network and its input data, to try the site.

    <python with megengine> examples/make_resnet.py OUT

The script writes OUT/resnet.mge (one input, `data`, float32 {1,3,96,96}; a score for each of 10
classes) and OUT/data.npy. The weights are random but always the same: only time is measured, not
accuracy.
"""

import argparse
import os

import megengine
import megengine.functional as F
import megengine.module as M
import numpy as np
from megengine.jit import trace

SEED = 20
SIZE = 96
WIDTH = 24


class Block(M.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, channels, out_channels, stride):
        super().__init__()
        self.conv1 = M.ConvBn2d(channels, out_channels, 3, stride, 1, bias=False)
        self.conv2 = M.ConvBn2d(out_channels, out_channels, 3, 1, 1, bias=False)
        self.around = None
        if stride != 1 or channels != out_channels:
            self.around = M.ConvBn2d(channels, out_channels, 1, stride, bias=False)

    def forward(self, x):
        straight = x if self.around is None else self.around(x)
        return F.relu(self.conv2(F.relu(self.conv1(x))) + straight)


class ResNet(M.Module):
    """ResNet-10: a stem, four blocks, one linear layer."""

    def __init__(self, width=WIDTH, classes=10):
        super().__init__()
        self.stem = M.ConvBn2d(3, width, 3, 2, 1, bias=False)
        self.blocks = [
            Block(width, width, 1),
            Block(width, 2 * width, 2),
            Block(2 * width, 4 * width, 2),
            Block(4 * width, 4 * width, 2),
        ]
        self.head = M.Linear(4 * width, classes)

    def forward(self, x):
        x = F.relu(self.stem(x))
        for block in self.blocks:
            x = block(x)
        return self.head(F.mean(x, axis=(2, 3)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", help="folder for resnet.mge and data.npy; created if missing")
    out = parser.parse_args().out
    os.makedirs(out, exist_ok=True)

    megengine.random.seed(SEED)
    data = np.random.RandomState(SEED).rand(1, 3, SIZE, SIZE).astype(np.float32)
    net = ResNet()
    net.eval()

    @trace(symbolic=True, capture_as_const=True)
    def predict(x):
        return net(x)

    predict(megengine.tensor(data))
    model = os.path.join(out, "resnet.mge")
    # Without optimisation, so that the options of load_and_run have an effect.
    predict.dump(model, arg_names=["data"], output_names=["scores"], optimize_for_inference=False)
    np.save(os.path.join(out, "data.npy"), data)
    print(f"{model} ({os.path.getsize(model)} bytes)")


if __name__ == "__main__":
    main()
