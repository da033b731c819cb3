"""Models whose operators are used to measure the peak performance of a device.

`MAKE` is a program for an interpreter with MegEngine: `python -c MAKE folder device name...`. It
writes `<name>.mge` for each model that its version can build, and the common input `data.npy`. For
the operator sizes in these models, the FLOPs and bytes that MegEngine reports are correct.

- float32: matrix products; elementwise operators that read one tensor and write another, like a
  copy, for tensors of `LARGE` bytes (more than any cache) and of a quarter of it
- float16_small, float16: matrix products; the small model runs first, because without native
  kernels float16 is a thousand times slower (0.2 GFLOP/s on x86)
- int8: 1x1 convolutions of QuantizedS8, which are matrix products; MegEngine multiplies such
  matrices in convolutions only
"""

MAKE = """\
import sys
import numpy as np
import megengine as mge
import megengine.functional as F
from megengine.core.tensor import dtype as dtypes
from megengine.jit import trace

folder, device, names = sys.argv[1], sys.argv[2], sys.argv[3:]
side, channels, copies = (512, 256, 64) if device == "cpu" else (2048, 512, 16)
random = np.random.RandomState(0)
data = random.rand(copies, side, side).astype("float32")
np.save(folder + "/data.npy", data)

def tensor(*shape):
    return mge.tensor((random.rand(*shape) / shape[-1]).astype("float32"))

weight, kernel = tensor(side, side), tensor(channels, channels, 1, 1)
picture = (1, channels, side, side // channels)

def float32(x):
    product = x[0]
    for _ in range(8):
        product = F.matmul(product, weight)
    total = product.sum()
    # MegEngine may compute in place, but not in the memory of an input
    for tensors in (x[: copies // 4], x):
        for copy in (F.relu(tensors), -tensors, F.abs(tensors), tensors + 1, tensors * 2):
            total = total + copy.sum()
    return total

def products_of_float16(size):
    half = tensor(size, size).astype("float16")
    def float16(x):
        x = x[0, :size, :size].astype("float16")
        for _ in range(4):
            x = F.matmul(x, half)
        return x.astype("float32").sum()
    return float16

def int8(x):
    narrow, wide = dtypes.qint8(0.1), dtypes.qint32(0.01)
    weights = (kernel * 100).astype(narrow)
    bias = mge.tensor(np.zeros((1, channels, 1, 1), "float32")).astype(wide)
    x = F.reshape(x[0], picture).astype(narrow)
    for _ in range(6):
        x = F.quantized.conv_bias_activation(x, weights, bias, dtype=narrow)
    return x.astype("float32").sum()

models = {
    "float32": float32,
    "float16_small": products_of_float16(64),
    "float16": products_of_float16(side),
    "int8": int8,
}
for name in names:
    try:
        traced = trace(symbolic=True, capture_as_const=True)(models[name])
        traced(mge.tensor(data))
        path = folder + "/" + name + ".mge"
        how = dict(arg_names=["data"], optimize_for_inference=False)
        try:
            traced.dump(path, dump_format="FBS", **how)
        except TypeError:
            traced.dump(path, **how)
    except Exception as error:
        print(name, type(error).__name__, str(error)[:200])
"""

#: size of the largest copied tensors in bytes; the others have a quarter of it
LARGE = {"cpu": 64 << 20, "cuda": 256 << 20}
