"""Make the models of testdata and their inputs, with an interpreter that has MegEngine.

    PYTHON-WITH-MEGENGINE testdata/networks.py FOLDER NAME...

writes FOLDER/models/NAME.mge and FOLDER/inputs/NAME/VARIABLE.npy for each name, and prints their
entries of models.json. The name `train_mlp` writes FOLDER/profiles/train_mlp.json instead, the
profile of a training step.

Weights and inputs come from numpy's RandomState with fixed seeds, which returns the same numbers on
every machine and with every version of numpy. All numbers are uniformly distributed, because other
distributions depend on the C library.
"""

import json
import math
import os
import re
import sys
import zlib

import megengine
import megengine.autodiff
import megengine.functional as F
import megengine.module as M
import megengine.module.qat as QAT
import megengine.optimizer
import numpy as np
from megengine import quantization
from megengine.jit import trace

SEED = 13
DUMP = {"optimize_for_inference": False}


def numbers(name, shape, low=-1.0, high=1.0):
    """Return float32 numbers between `low` and `high` that depend on the name alone."""
    state = np.random.RandomState(SEED + zlib.crc32(name.encode()) % 100_000)
    return state.uniform(low, high, shape).astype(np.float32)


def fill(module):
    """Set the weights of a module. Scales and shifts of normalizations stay one and zero."""
    norms = (M.BatchNorm2d, M.LayerNorm)
    fixed = {name + "." for name, part in module.named_modules() if isinstance(part, norms)}
    for name, value in list(module.named_parameters()) + list(module.named_buffers()):
        folder, _, kind = name.rpartition(".")
        if kind == "running_var":
            value[...] = numbers(name, value.shape, 0.5, 1.5)
        elif kind == "running_mean" or folder + "." not in fixed:
            value[...] = numbers(name, value.shape) / math.sqrt(value.size / value.shape[0])
    module.eval()
    return module


class BasicBlock(M.Module):
    def __init__(self, channels, out_channels, stride):
        super().__init__()
        self.conv1 = M.Conv2d(channels, out_channels, 3, stride, 1, bias=False)
        self.bn1 = M.BatchNorm2d(out_channels)
        self.conv2 = M.Conv2d(out_channels, out_channels, 3, 1, 1, bias=False)
        self.bn2 = M.BatchNorm2d(out_channels)
        self.downsample = M.Identity()
        if stride != 1 or channels != out_channels:
            self.downsample = M.Sequential(
                M.Conv2d(channels, out_channels, 1, stride, bias=False),
                M.BatchNorm2d(out_channels),
            )

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.downsample(x))


class ResNet18(M.Module):
    """ResNet-18 of any width (64 in the paper), 100 classes."""

    def __init__(self, width):
        super().__init__()
        self.conv1 = M.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = M.BatchNorm2d(width)
        self.maxpool = M.MaxPool2d(3, 2, 1)
        widths = [width, width, 2 * width, 4 * width, 8 * width]
        for number in range(1, 5):
            before, after = widths[number - 1], widths[number]
            first = BasicBlock(before, after, 1 if number == 1 else 2)
            setattr(self, "layer%d" % number, M.Sequential(first, BasicBlock(after, after, 1)))
        self.fc = M.Linear(8 * width, 100)

    def forward(self, x):
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = layer(x)
        return self.fc(F.mean(x, axis=(2, 3)))


class Attention(M.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.query, self.key = M.Linear(width, width), M.Linear(width, width)
        self.value, self.dense = M.Linear(width, width), M.Linear(width, width)
        self.heads, self.size = heads, width // heads

    def forward(self, x, mask):
        batch, length, _ = x.shape

        def split(y):
            return F.transpose(y.reshape(batch, length, self.heads, self.size), (0, 2, 1, 3))

        query, key, value = split(self.query(x)), split(self.key(x)), split(self.value(x))
        scores = F.matmul(query, key, transpose_b=True) / math.sqrt(self.size)
        weighted = F.matmul(F.softmax(scores + mask, axis=-1), value)
        joined = F.transpose(weighted, (0, 2, 1, 3)).reshape(batch, length, self.heads * self.size)
        return self.dense(joined)


class EncoderLayer(M.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = Attention(width, heads)
        self.ln1, self.ln2 = M.LayerNorm(width), M.LayerNorm(width)
        self.intermediate, self.output = M.Linear(width, 4 * width), M.Linear(4 * width, width)

    def forward(self, x, mask):
        x = self.ln1(x + self.attention(x, mask))
        return self.ln2(x + self.output(F.gelu(self.intermediate(x))))


class Bert(M.Module):
    """An encoder as in BERT; returns (every position, the first one pooled)."""

    def __init__(self, words=512, positions=64, width=64, layers=4, heads=4):
        super().__init__()
        self.word, self.position = M.Embedding(words, width), M.Embedding(positions, width)
        self.ln = M.LayerNorm(width)
        self.layers = [EncoderLayer(width, heads) for _ in range(layers)]
        self.pooler = M.Linear(width, width)
        self.places = np.arange(positions, dtype=np.int32)

    def forward(self, ids, attention):
        length = ids.shape[1]
        x = self.ln(self.word(ids) + self.position(megengine.tensor(self.places)[:length]))
        mask = (1.0 - attention.reshape(-1, 1, 1, length)) * -10000.0
        for layer in self.layers:
            x = layer(x, mask)
        return x, F.tanh(self.pooler(x[:, 0]))


class Lstm(M.Module):
    def __init__(self):
        super().__init__()
        self.rnn = M.LSTM(32, 48, num_layers=2, bidirectional=True)
        self.fc = M.Linear(96, 12)

    def forward(self, x):
        out, _ = self.rnn(x)
        return F.softmax(self.fc(out), axis=-1)


class TwoInputs(M.Module):
    """Mean over the pixels that a mask selects."""

    def __init__(self):
        super().__init__()
        self.conv = M.Conv2d(3, 16, 3, 1, 1)
        self.fc = M.Linear(16, 8)

    def forward(self, data, mask):
        x = F.relu(self.conv(data)) * mask
        return self.fc(F.sum(x, axis=(2, 3)) / (F.sum(mask, axis=(2, 3)) + 1e-6))


class Quantizable(M.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = M.QuantStub(), M.DequantStub()
        self.conv1 = M.ConvRelu2d(3, 16, 3, 2, 1)
        self.conv2 = M.ConvRelu2d(16, 16, 3, 1, 1)
        self.conv3 = M.Conv2d(16, 16, 3, 1, 1)
        self.add = M.Elemwise("fuse_add_relu")
        self.conv4 = M.ConvRelu2d(16, 32, 3, 2, 1)
        self.fc = M.Linear(32, 10)
        self.fc.disable_quantize()

    def forward(self, x):
        x = self.conv1(self.quant(x))
        x = self.conv4(self.add(x, self.conv3(self.conv2(x))))
        return self.fc(F.mean(self.dequant(x), axis=(2, 3)))


def quantized():
    """Return the network in int8, with fixed ranges, since observed ones depend on the CPU."""
    net = quantization.quantize_qat(fill(Quantizable()), quantization.ema_fakequant_qconfig)
    for module in net.modules():
        if isinstance(module, QAT.QATModule):
            for observer, bound in ((module.act_observer, 2.0), (module.weight_observer, 1.0)):
                if observer is not None:
                    observer.min_val[...], observer.max_val[...] = -bound, bound
    net = quantization.quantize(net)
    net.eval()
    return net


class HostileNames(M.Module):
    def __init__(self):
        super().__init__()
        self.a = M.Linear(16, 16)

    def forward(self, x):
        return F.relu(self.a(x))


def tiny(x):
    return F.relu(x * 2.0 + 1.0)


def no_op(x):
    return x


def deep_loop(x):
    for step in range(2000):
        x = F.tanh(x * (1 + 0.001 * (step % 7)) + 0.01 * (step % 5))
    return x


def dynamic_shape(x):
    flat = F.flatten(x)
    picked, index = F.cond_take(flat > 0.2, flat)
    return picked * 2 + 1, index, F.sum(picked)


def image(name, *shape):
    return {"data": numbers(name + ".data", shape)}


def sentences():
    words = numbers("bert_tiny.input_ids", (2, 48), 0, 512).astype(np.int32)
    attention = np.ones((2, 48), np.float32)
    attention[1, 31:] = 0  # the second sequence is shorter
    return {"input_ids": words, "attention_mask": attention}


def picture_and_mask():
    mask = (numbers("two_inputs.mask", (2, 1, 32, 32)) > 0).astype(np.float32)
    return {"data": numbers("two_inputs.data", (2, 3, 32, 32)), "mask": mask}


#: name -> what makes the network, its inputs in the order of its arguments, options of the dump
MODELS = {
    "resnet18": (lambda: fill(ResNet18(16)), lambda: image("resnet18", 1, 3, 224, 224), DUMP),
    "resnet18_opt": (
        lambda: fill(ResNet18(16)),
        lambda: image("resnet18", 1, 3, 224, 224),
        {"optimize_for_inference": True, "enable_fuse_conv_bias_nonlinearity": True},
    ),
    "resnet18_fbs1": (
        lambda: fill(ResNet18(8)),
        lambda: image("resnet18_fbs1", 1, 3, 64, 64),
        {**DUMP, "dump_format": "FBS"},
    ),
    "bert_tiny": (
        lambda: fill(Bert()), sentences, {**DUMP, "output_names": ["sequence", "pooled"]},
    ),
    "lstm": (lambda: fill(Lstm()), lambda: image("lstm", 24, 2, 32), DUMP),
    "two_inputs": (lambda: fill(TwoInputs()), picture_and_mask, DUMP),
    "quantized": (quantized, lambda: image("quantized", 1, 3, 32, 32), DUMP),
    "dynamic_shape": (
        lambda: dynamic_shape,
        lambda: image("dynamic_shape", 1, 4, 24, 24),
        {**DUMP, "output_names": ["picked", "index", "total"]},
    ),
    "tiny": (lambda: tiny, lambda: image("tiny", 2, 8), DUMP),
    "tiny_fbs1": (lambda: tiny, lambda: image("tiny", 2, 8), {**DUMP, "dump_format": "FBS"}),
    "no_op": (lambda: no_op, lambda: image("no_op", 2, 8), DUMP),
    "deep_loop": (lambda: deep_loop, lambda: image("deep_loop", 1, 64), DUMP),
    "hostile_names": (
        lambda: fill(HostileNames()),
        lambda: {'a"><script>alert(1)</script>': numbers("hostile_names.data", (2, 16))},
        {
            **DUMP,
            "output_names": ["out|put\\<b>bold</b>"],
            "keep_opr_name": True,
            "keep_var_name": 2,
        },
    ),
}  # fmt: skip


def make(name, folder):
    """Write a model and its inputs; return its entry of models.json."""
    build, give, options = MODELS[name]
    network, inputs = build(), give()
    run = trace(lambda *arrays: network(*arrays), symbolic=True, capture_as_const=True)
    results = run(*(megengine.tensor(value) for value in inputs.values()))
    file = os.path.join(folder, "models", name + ".mge")
    os.makedirs(os.path.dirname(file), exist_ok=True)
    run.dump(file, arg_names=list(inputs), **options)
    entry = {"name": name, "file": "models/%s.mge" % name, "inputs": [], "outputs": []}
    os.makedirs(os.path.join(folder, "inputs", name), exist_ok=True)
    for variable, value in inputs.items():
        at = "inputs/%s/%s.npy" % (name, re.sub(r"\W", "_", variable))
        np.save(os.path.join(folder, at), value)
        entry["inputs"].append(
            {"name": variable, "file": at, "shape": list(value.shape), "dtype": str(value.dtype)}
        )
    for value in results if isinstance(results, tuple) else (results,):
        array = value.numpy()
        assert np.isfinite(array).all(), name
        entry["outputs"].append({"shape": list(array.shape), "dtype": str(array.dtype)})
    entry["dump_options"] = options
    return entry


class Mlp(M.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = M.Linear(64, 96), M.Linear(96, 10)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))


def profile_training(folder):
    """Write the profile of one training step: forward, backward and Adam."""
    net = fill(Mlp())
    net.train()
    optimizer = megengine.optimizer.Adam(net.parameters(), lr=0.001)
    manager = megengine.autodiff.GradManager().attach(net.parameters())

    @trace(symbolic=True, profiling=True)
    def step(data, label):
        with manager:
            loss = F.nn.cross_entropy(net(data), label)
            manager.backward(loss)
            optimizer.step().clear_grad()
        return loss

    data = megengine.tensor(numbers("train_mlp.data", (32, 64)))
    label = megengine.tensor(numbers("train_mlp.label", (32,), 0, 10).astype(np.int32))
    for _ in range(4):
        assert math.isfinite(step(data, label).item())
    os.makedirs(os.path.join(folder, "profiles"), exist_ok=True)
    with open(os.path.join(folder, "profiles", "train_mlp.json"), "w") as file:
        json.dump(step.get_profile(), file)


def main():
    folder, names = sys.argv[1], sys.argv[2:]
    entries = [make(name, folder) for name in names if name != "train_mlp"]
    if "train_mlp" in names:
        profile_training(folder)
    print(json.dumps(entries))


if __name__ == "__main__":
    main()
