"""What the graph parts share of MegEngine's graph API: loading, passes, inputs.

MegEngine itself is imported here and nowhere else. Once megenginelite has *run* in a process,
MegEngine's cache of fast-run results stays unused in it, so the two are never run in one process:
with --mdl there is no megenginelite network, and the passes run in a child (graph_child).
"""

import os

import numpy as np
from load_and_run.errors import Failure, NoMegEngine, library_failure
from load_and_run.flags import LAYOUTS as LAYOUT_FLAGS

#: flag -> keyword of optimize_for_inference; at most one counts
LAYOUTS = {name: name[len("enable_") :].upper() for name in LAYOUT_FLAGS}
#: flag -> field of GraphOptimizeOptions; all are off unless asked for, fuse_grain too
FUSIONS = {
    "enable_ioc16": "f16_io_comp",
    "enable_fuse_preprocess": "fuse_preprocess",
    "enable_fuse_conv_bias_nonlinearity": "fuse_conv_bias_nonlinearity",
    "enable_fuse_conv_bias_with_z": "fuse_conv_bias_with_z",
    "fuse_grain": "fuse_grain",
}
_TEST_CASES = b"mgbtest0"


class Library(object):
    """The modules of MegEngine that are needed. Raises NoMegEngine if it cannot be imported."""

    def __init__(self, flags):
        _set_environment(flags)
        try:
            import megengine
            from megengine.core import _imperative_rt
            from megengine.core.ops.builtin import Convolution
            from megengine.core.tensor import megbrain_graph
            from megengine.utils import comp_graph_tools
        except Exception as error:  # its import runs checks that raise whatever they like
            raise NoMegEngine("this Python cannot import MegEngine: {}".format(error))
        self.engine = megengine
        self.runtime = _imperative_rt
        self.graph = megbrain_graph
        self.tools = comp_graph_tools
        self.strategy = Convolution.Strategy
        if flags.get("cuda") and xpu(self) == "cpu":
            raise Failure("request gpu0 out of valid range [0, 0)", "mgb::MegBrainError")


def xpu(library):
    """What a model's "xpu" is on this machine: "cpu" or "gpu"."""
    return "cpu" if str(library.runtime.what_is_xpu()).lower().endswith("cpu") else "gpu"


def _set_environment(flags):
    """Settings that MegEngine reads when it is imported or at its first use of a device."""
    os.environ.setdefault("MGE_FASTRUN_CACHE_TYPE", "MEMORY")  # no files in the user's home
    if flags.get("cpu"):
        # a model's comp node is "a GPU if there is one"; the graph API cannot name another
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def call(function, *arguments, **named):
    """Call into the library; what it raises becomes a Failure with its own words."""
    try:
        return function(*arguments, **named)
    except MemoryError:
        raise
    except Failure:
        raise
    except Exception as error:  # bindings raise RuntimeError, TypeError, ValueError, KeyError
        raise library_failure(str(error))


def load(library, path, flags):
    """(computing graph, its output variables) of the model file, with the options of `flags`."""
    try:
        with open(path, "rb") as file:
            if file.read(len(_TEST_CASES)) == _TEST_CASES:
                file.read(4)  # the number of test cases; the plain model follows
            else:
                file.seek(0)
            loaded = call(library.graph.load_graph, file)
    except OSError as error:
        raise Failure("cannot read the model {}: {}".format(path, error.strerror))
    _set_options(loaded.graph, flags)
    return loaded.graph, list(loaded.output_vars_list)


def _set_options(graph, flags):
    options = graph.options
    # as load_and_run does: with a higher level the compiler changes the graph on its own
    options.graph_opt_level = 0
    if flags.get("no_sanity_check"):
        options.var_sanity_check_first_run = False
    if flags.get("disable_mem_opt"):
        options.seq_opt.enable_mem_plan_opt = False
        options.seq_opt.enable_mem_reuse_alloc = False
    if flags.get("enable_jit"):
        options.graph_opt.jit = 1
    if flags.get("tensorrt"):
        options.graph_opt.tensorrt = True
    if flags.get("weight_preprocess"):
        call(graph.enable_weight_preprocess)


def layout(flags):
    """The layout flag that counts, or None. Two at once are ignored, as load_and_run does."""
    layouts = [flag for flag in LAYOUTS if flags.get(flag)]
    return layouts[0] if len(layouts) == 1 else None


def optimize(library, outputs, flags):
    """The outputs after optimize_for_inference with what `flags` ask for and nothing else."""
    options = library.runtime.GraphOptimizeOptions()
    chosen = layout(flags)
    if chosen:
        options.layout_transform = getattr(options.LayoutTransform, LAYOUTS[chosen])
    for flag, field in FUSIONS.items():
        if flags.get(flag):
            setattr(options, field, True)
    optimized = call(library.runtime.optimize_for_inference, outputs, options)
    keep_names(outputs, optimized)
    return optimized


def keep_names(old, new):
    """Give each new output the name of the old one, unless it is an input itself."""
    for index, before in enumerate(old):
        after = new[index]
        if after.name != before.name and after.owner.type != "Host2DeviceCopy":
            after.name = before.name


def model_inputs(library, outputs):
    """The input variables, by name, in the order of the model."""
    inputs = {}
    for var in library.tools.get_dep_vars(outputs, "Host2DeviceCopy"):
        if var.id == var.owner.outputs[0].id:
            inputs[var.id] = var
    return {inputs[key].name: inputs[key] for key in sorted(inputs)}


def shape_of(var):
    """The shape that the model was made for; empty if it is not known before the run."""
    try:
        return tuple(var.shape or ())
    except RuntimeError:
        return ()


def replace(library, outputs, pairs):
    """The outputs of the graph in which each (old, new) variable of `pairs` is exchanged."""
    replaced = call(library.tools.replace_vars, outputs, list(pairs)) if pairs else outputs
    for index, before in enumerate(outputs):
        after = replaced[index]
        if not any(after.id == new.id for _, new in pairs):  # an output may be an input
            after.name = before.name
    return replaced


def with_input_nodes(library, outputs, shapes):
    """(outputs, name -> InputNode): inputs that can be set, of the model's or the given shape.

    The shapes are static: with dynamic ones there is no memory plan, and runs take a third longer.
    """
    nodes, pairs = {}, []
    for name, var in model_inputs(library, outputs).items():
        node = call(
            library.graph.InputNode,
            device=var.comp_node,
            dtype=var.dtype,
            shape=shapes.get(name, shape_of(var)),
            graph=var.graph,
            use_static_shape=True,
        )
        node.name = name
        nodes[name] = node
        pairs.append((var, node.outputs[0]))
    return replace(library, outputs, pairs), nodes


def device_tensor(library, array, node):
    """The array where the input wants it."""
    tensor = call(library.engine.Tensor, array, dtype=node.dtype, device=node.device)
    return call(tensor._dev_tensor)


def zeros(node, shape):
    """What an input holds that nobody has set."""
    return np.zeros(shape, node.dtype)
