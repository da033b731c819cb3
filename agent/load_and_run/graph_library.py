"""Functions on MegEngine's graph API: load a model, optimize it, replace its inputs.

MegEngine itself is imported only here. Once megenginelite has *run* in a process, MegEngine does
not use its cache of fast-run results there. So the two never run in the same process: with --mdl
no megenginelite network is created, and the passes run in a child (graph_child).
"""

import os

import numpy as np
from load_and_run.errors import Failure, NoMegEngine, library_failure
from load_and_run.files import skip_test_header
from load_and_run.flags import LAYOUTS as LAYOUT_FLAGS
from load_and_run.imports import without_unused

#: flag -> keyword of optimize_for_inference; it applies one layout at most
LAYOUTS = {name: name[len("enable_") :].upper() for name in LAYOUT_FLAGS}
#: flag -> field of GraphOptimizeOptions; all are off by default, fuse_grain included
FUSIONS = {
    "enable_ioc16": "f16_io_comp",
    "enable_fuse_preprocess": "fuse_preprocess",
    "enable_fuse_conv_bias_nonlinearity": "fuse_conv_bias_nonlinearity",
    "enable_fuse_conv_bias_with_z": "fuse_conv_bias_with_z",
    "fuse_grain": "fuse_grain",
}


class Library(object):
    """The imported modules of MegEngine. Raises NoMegEngine if it cannot be imported."""

    def __init__(self, flags):
        _set_environment(flags)
        try:
            with without_unused():
                import megengine
                from megengine.core import _imperative_rt
                from megengine.core.ops.builtin import Convolution
                from megengine.core.tensor import megbrain_graph
                from megengine.utils import comp_graph_tools
        except Exception as error:  # checks at import raise exceptions of any class
            raise NoMegEngine("this Python cannot import MegEngine: {}".format(error))
        self.engine = megengine
        self.runtime = _imperative_rt
        self.graph = megbrain_graph
        self.tools = comp_graph_tools
        self.strategy = Convolution.Strategy
        if flags.get("cuda") and xpu(self) == "cpu":
            raise Failure("request gpu0 out of valid range [0, 0)", "mgb::MegBrainError")


def xpu(library):
    """Return the device that "xpu" in a model means on this machine: "cpu" or "gpu"."""
    return "cpu" if str(library.runtime.what_is_xpu()).lower().endswith("cpu") else "gpu"


def _set_environment(flags):
    """Set environment variables that MegEngine reads at import or at the first use of a device."""
    os.environ.setdefault("MGE_FASTRUN_CACHE_TYPE", "MEMORY")  # no files in the user's home
    if flags.get("cpu"):
        # models use a GPU if the machine has one, and the graph API cannot choose another device
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def call(function, *arguments, **named):
    """Call a function of the library; convert exceptions to a Failure with the library's text."""
    try:
        return function(*arguments, **named)
    except (MemoryError, Failure):
        raise
    except Exception as error:  # bindings raise RuntimeError, TypeError, ValueError, KeyError
        raise library_failure(str(error))


def load(library, path, flags):
    """Load a model file with the options of `flags`; return (computing graph, output variables)."""
    try:
        with open(path, "rb") as file:
            skip_test_header(file)
            loaded = call(library.graph.load_graph, file)
    except OSError as error:
        raise Failure("cannot read the model {}: {}".format(path, error.strerror))
    _set_options(loaded.graph, flags)
    return loaded.graph, list(loaded.output_vars_list)


def _set_options(graph, flags):
    options = graph.options
    # as in load_and_run: at higher levels the compiler applies further optimizations
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
    """Return the layout flag in effect, or None; like load_and_run, ignore two at once."""
    layouts = [flag for flag in LAYOUTS if flags.get(flag)]
    return layouts[0] if len(layouts) == 1 else None


def optimize(library, outputs, flags):
    """Run optimize_for_inference with the optimizations in `flags` only; return the new outputs."""
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
    """Copy the names of the old outputs to the new ones, except to outputs that are inputs."""
    for index, before in enumerate(old):
        after = new[index]
        if after.name != before.name and after.owner.type != "Host2DeviceCopy":
            after.name = before.name


def model_inputs(library, outputs):
    """Return the input variables by name, in the order of the model."""
    inputs = {}
    for var in library.tools.get_dep_vars(outputs, "Host2DeviceCopy"):
        if var.id == var.owner.outputs[0].id:
            inputs[var.id] = var
    return {inputs[key].name: inputs[key] for key in sorted(inputs)}


def shape_of(var):
    """Return the shape stored in the model; empty if it is unknown before the run."""
    try:
        return tuple(var.shape or ())
    except RuntimeError:
        return ()


def replace(library, outputs, pairs):
    """Replace variables by others, given as pairs (old, new); return the new outputs."""
    replaced = call(library.tools.replace_vars, outputs, list(pairs)) if pairs else outputs
    for index, before in enumerate(outputs):
        after = replaced[index]
        if not any(after.id == new.id for _, new in pairs):  # an output that is an input
            after.name = before.name
    return replaced


def with_input_nodes(library, outputs, shapes):
    """Replace the inputs by InputNodes, which can be set; return (outputs, name -> InputNode).

    `shapes` (input name -> shape) override the model's shapes. Shapes are static: with dynamic
    shapes there is no memory plan, and runs take a third longer.
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
    """Return the array, zeros if it is None, as a tensor with the device and dtype of the node."""
    if array is None:
        array = np.zeros(node.outputs[0].shape, node.dtype)
    tensor = call(library.engine.Tensor, array, dtype=node.dtype, device=node.device)
    return call(tensor._dev_tensor)
