"""Create the small model for health checks, with operators that every device supports.

    <python with megengine> examples/make_health.py tasks/health.mge

It has one input, `data`, float32 {1,8,32,32}, two convolutions, a mean and a matrix product. The
weights are random but always the same. The model is written in the older of the two formats, which
every version of load_and_run reads.
"""

import argparse

import megengine
import megengine.functional as F
import numpy as np
from megengine.jit import trace

SEED = 5
CHANNELS = 8
SHAPE = (1, CHANNELS, 32, 32)
OUTPUTS = 10


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", help="the file to write")
    out = parser.parse_args().out
    random = np.random.RandomState(SEED)
    kernels = [_weight(random, (CHANNELS, CHANNELS, 3, 3)) for _ in range(2)]
    scores = _weight(random, (CHANNELS, OUTPUTS))

    @trace(symbolic=True, capture_as_const=True)
    def health(data):
        for kernel in kernels:
            data = F.relu(F.conv2d(data, kernel, padding=1))
        return F.matmul(F.mean(data, (2, 3)), scores)

    health(megengine.tensor(np.ones(SHAPE, np.float32)))
    health.dump(
        out,
        dump_format="FBS",
        arg_names=["data"],
        output_names=["out"],
        optimize_for_inference=False,
    )


def _weight(random, shape):
    return megengine.tensor((random.standard_normal(shape) / 8).astype(np.float32))


if __name__ == "__main__":
    main()
