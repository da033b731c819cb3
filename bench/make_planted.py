"""Make a model of 96 equal convolutions and a planted one, which takes about 3 % of the time.

    <python with megengine> bench/make_planted.py planted.mge [--channels 56]

The planted one has 48 output channels, of which 16 are used; with 56 it has a sixth more work.
"""

import argparse

import megengine
import megengine.functional as F
import numpy as np
from megengine.jit import trace

SHAPE, CHANNELS, CONVOLUTIONS, PLANTED_AT = (1, 16, 32, 32), 16, 96, 40


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", help="the file to write")
    parser.add_argument("--channels", type=int, default=48)
    args = parser.parse_args()
    random = np.random.RandomState(7)
    weights = [_weight(random, CHANNELS) for _ in range(CONVOLUTIONS)]
    planted = _weight(random, args.channels)

    @trace(symbolic=True, capture_as_const=True)
    def model(data):
        for number, weight in enumerate(weights):
            if number == PLANTED_AT:
                data = F.relu(F.conv2d(data, planted, padding=1)[:, :CHANNELS])
            data = F.relu(F.conv2d(data, weight, padding=1))
        return F.mean(data, (2, 3))

    model(megengine.tensor(np.ones(SHAPE, np.float32)))
    model.dump(
        args.out,
        dump_format="FBS",
        arg_names=["data"],
        output_names=["out"],
        optimize_for_inference=False,
    )


def _weight(random, channels):
    shape = (channels, CHANNELS, 3, 3)
    return megengine.tensor((random.standard_normal(shape) / 8).astype(np.float32))


if __name__ == "__main__":
    main()
