"""Create a model whose work is known, for trials with planted differences.

    <python with megengine> bench/planted_model.py OUT [--units 100] [--columns 96]

`--units` equal convolutions one after the other, about 0.1 ms each on one core of a server, so that
101 of them take 1 % longer than 100. Then one matrix product that takes about 3 % of the total with
96 columns, and a sixth more with 112.
"""

import argparse

import megengine
import megengine.functional as F
import numpy as np
from megengine.jit import trace

CHANNELS, SIZE = 16, 48
SHAPE = (1, CHANNELS, SIZE, SIZE)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", help="the file to write")
    parser.add_argument("--units", type=int, default=100)
    parser.add_argument("--columns", type=int, default=96)
    args = parser.parse_args()
    random = np.random.RandomState(1)
    deviation = (2 / (CHANNELS * 9)) ** 0.5  # keeps the size of the values from unit to unit
    weight = random.standard_normal((CHANNELS, CHANNELS, 3, 3)) * deviation
    # one tensor for all units: a hundred of their own would leave the caches
    weight = megengine.tensor(weight.astype(np.float32))
    columns = megengine.tensor(
        (random.standard_normal((SIZE * SIZE // 4, args.columns)) / SIZE).astype(np.float32)
    )

    @trace(symbolic=True, capture_as_const=True)
    def planted(data):
        for _ in range(args.units):
            data = F.relu(F.conv2d(data, weight, padding=1))
        product = F.matmul(data.reshape(CHANNELS * 4, SIZE * SIZE // 4), columns)
        return F.mean(product) + F.mean(data, (2, 3))

    planted(megengine.tensor(np.ones(SHAPE, np.float32)))
    planted.dump(
        args.out,
        dump_format="FBS",
        arg_names=["data"],
        output_names=["out"],
        optimize_for_inference=False,
    )


if __name__ == "__main__":
    main()
