"""Create a model whose work is known, for trials with planted differences.

    <python with megengine> bench/planted_model.py OUT [--units 100] [--channels 48]

`--units` equal convolutions one after the other, about 0.1 ms each on one core of a server, so that
101 of them take 1 % longer than 100. One more convolution has 48 output channels, of which 16 are
used, and takes about 3 % of the time; with 56 channels it has a sixth more work.
"""

import argparse

import megengine
import megengine.functional as F
import numpy as np
from megengine.jit import trace

SHAPE, CHANNELS, PLANTED_AT = (1, 16, 48, 48), 16, 40


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", help="the file to write")
    parser.add_argument("--units", type=int, default=100)
    parser.add_argument("--channels", type=int, default=48)
    args = parser.parse_args()
    random = np.random.RandomState(7)
    weights = [_weight(random, CHANNELS) for _ in range(args.units)]
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
    deviation = (2 / (CHANNELS * 9)) ** 0.5  # keeps the size of the values from unit to unit
    return megengine.tensor((random.standard_normal(shape) * deviation).astype(np.float32))


if __name__ == "__main__":
    main()
