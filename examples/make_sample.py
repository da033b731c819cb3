"""Create the sample model, whose runs show how much equal runs on a device differ.

    <python with megengine> examples/make_sample.py tasks/sample.mge

It has one input, `data`, float32 {1,16,96,96}, two convolutions and an addition in each of six
blocks, a mean and a matrix product. It takes about 10 ms on one core of a server. The weights are
random but always the same, and few, so that the file is small. The model is written in the older of
the two formats, which every version of load_and_run reads.
"""

import argparse

import megengine
import megengine.functional as F
import numpy as np
from megengine.jit import trace

SEED = 7
CHANNELS = 16
SHAPE = (1, CHANNELS, 96, 96)
OUTPUTS = 10


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", help="the file to write")
    parser.add_argument("--blocks", type=int, default=6)
    args = parser.parse_args()
    random = np.random.RandomState(SEED)
    shape = (CHANNELS, CHANNELS, 3, 3)
    blocks = [(_weight(random, shape), _weight(random, shape)) for _ in range(args.blocks)]
    scores = _weight(random, (CHANNELS, OUTPUTS))

    @trace(symbolic=True, capture_as_const=True)
    def sample(data):
        for first, second in blocks:
            inner = F.relu(F.conv2d(data, first, padding=1))
            data = F.relu(data + F.conv2d(inner, second, padding=1))
        return F.matmul(F.mean(data, (2, 3)), scores)

    sample(megengine.tensor(np.ones(SHAPE, np.float32)))
    sample.dump(
        args.out,
        dump_format="FBS",
        arg_names=["data"],
        output_names=["out"],
        optimize_for_inference=False,
    )


def _weight(random, shape):
    return megengine.tensor((random.standard_normal(shape) / 16).astype(np.float32))


if __name__ == "__main__":
    main()
