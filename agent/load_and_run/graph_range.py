"""Implement --range: check that no value of the graph reaches a limit or is NaN.

load_and_run does this with a plugin that the wheel lacks. Here every float variable that an
operator reads (weights included) becomes an output, and the values of one run are checked. This
needs memory for all variables at once.
"""

import os
import shutil
import tempfile

import numpy as np
from load_and_run import graph_child
from load_and_run import graph_library as api
from load_and_run.errors import Failure
from load_and_run.graph_passes import optimizes_with_mdl

KIND = "mgb::NumRangeCheckerError"


def check_range(path, flags, arrays, limit):
    """Run the model once with `arrays` (pairs of name, array); raise Failure at a value >= `limit`.

    With --mdl the passes in `flags` are applied; without it, the model is run as it is, since
    graph_passes.transform has already applied them. Inputs that are not given are zero.
    """
    folder = tempfile.mkdtemp(prefix="range-", dir=os.getcwd())
    try:
        files = {}
        for number, (name, array) in enumerate(arrays):
            files[name] = os.path.join(folder, "{}.npy".format(number))
            np.save(files[name], array, allow_pickle=False)
        job = {"model": path, "flags": dict(flags), "files": files, "limit": limit}
        graph_child.run("range", job, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def work(job):
    """In the child: raise a Failure for the first variable out of range."""
    flags, limit = job["flags"], job["limit"]
    arrays = {name: np.load(file, allow_pickle=False) for name, file in job["files"].items()}
    library = api.Library(flags)
    _, outputs = api.load(library, job["model"], flags)
    if flags.get("mdl") and optimizes_with_mdl(flags):
        outputs = api.optimize(library, outputs, flags)
    for template, array in _run(library, outputs, arrays):
        text = _out_of_range(array, limit)
        if text:
            variable = template.format(layout=_layout(array))
            raise Failure("float value out of range: var: {}\n {}".format(variable, text), KIND)


def _run(library, outputs, arrays):
    """Run the model once; yield (description, array) of each float variable, in order."""
    loaded = api.model_inputs(library, outputs)
    descriptions = {name: _describe(library, var) for name, var in loaded.items()}
    shapes = {name: array.shape for name, array in arrays.items()}
    outputs, nodes = api.with_input_nodes(library, outputs, shapes)
    variables = _float_variables(library, outputs)
    watched = [api.call(library.graph.OutputNode, var) for var in variables]
    function = api.call(outputs[0].graph.compile, [node.outputs[0] for node in watched] + outputs)
    for name, node in nodes.items():
        node.set_value(api.device_tensor(library, arrays.get(name), node))
    api.call(function.execute)
    api.call(function.wait)
    of_input = {node.outputs[0].id: descriptions[name] for name, node in nodes.items()}
    for index, var in enumerate(variables):
        array = api.call(api.call(watched[index].get_value).numpy)
        yield of_input.get(var.id) or _describe(library, var), array


def _float_variables(library, outputs):
    """Return the float variables that an operator reads: inputs first, then by id.

    Outputs that no operator reads are left out, because their memory is never written.
    """
    variables = {}
    for var in library.tools.get_dep_vars(outputs):
        if np.dtype(var.dtype).kind == "f" or "float" in np.dtype(var.dtype).name:
            variables[var.id] = var
    return sorted(variables.values(), key=lambda var: (var.owner.type != "InputCallback", var.id))


def _describe(library, var):
    """Return load_and_run's description of a variable, with a placeholder for its layout."""
    owner = var.owner
    slot = [output.id for output in owner.outputs].index(var.id)
    logical = str(var.comp_node)
    physical = logical.replace("xpu", api.xpu(library)).replace("x:", "0:")
    name = var.name if owner.type == "Host2DeviceCopy" else owner.name
    text = '{}, owner:{}{{{}}}, name:{}, slot:{}, CompNode("{}" from "{}")'.format(
        _type_name(var.dtype), name, owner.type, var.name, slot, physical, logical
    )
    escaped = text.replace("{", "{{").replace("}", "}}")
    return "{{{{id:{}, layout:{{layout}}, {}}}}}".format(var.id, escaped)


def _type_name(dtype):
    return np.dtype(dtype).name.capitalize()


def _layout(array):
    """Format lengths and strides (in elements): {1(150528),3(50176),224(224),224(1) Float32}."""
    axes, step = [], 1
    for length in reversed(array.shape):
        axes.insert(0, "{}({})".format(length, step))
        step *= length
    return "{{{} {}}}".format(",".join(axes), _type_name(array.dtype))


def _out_of_range(array, limit):
    """Describe the first element whose magnitude is not below the limit; None if there is none."""
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(np.asarray(array, np.float32)) < np.float32(limit))
    if not wrong.any():
        return None
    index = np.unravel_index(int(np.argmax(wrong)), array.shape)
    return "value={:.6g} range={:.6g} index={{{}}}/{{{}}}".format(
        float(array[index]),
        limit,
        ",".join(str(int(position)) for position in index),
        ",".join(str(length) for length in array.shape),
    )
