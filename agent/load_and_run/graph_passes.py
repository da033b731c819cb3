"""Passes over the graph before the run: optimize_for_inference, model_dump, get_static_mem_info.

megenginelite has none of these. So a child loads the model with MegEngine, applies what was asked
for and writes a plain model, which is then run as any other.

In load_and_run the layout, fusion and dtype flags act when the graph is compiled, unless
optimize_for_inference is given too. The wheel has them in optimize_for_inference only, so asking
for one of `ONLY_PASSES` also folds BatchNorm and constants.
"""

import os
import shutil

from load_and_run import graph_child
from load_and_run import graph_library as api
from load_and_run.errors import Failure

#: flags that need the pass; megenginelite has no switch for them
ONLY_PASSES = (
    "optimize_for_inference",
    "enable_chwn4",
    "enable_ioc16",
    "fuse_grain",
    "enable_fuse_conv_bias_nonlinearity",
    "enable_fuse_conv_bias_with_z",
)
_WRITTEN = ("model_dump", "get_static_mem_info")


def optimizes(flags):
    """Whether optimize_for_inference has to be run before megenginelite gets the model."""
    # one of two layouts is no reason: both are ignored
    ignored = () if api.layout(flags) == "enable_chwn4" else ("enable_chwn4",)
    return any(flags.get(flag) for flag in ONLY_PASSES if flag not in ignored)


def optimizes_here(flags):
    """Whether --mdl has to run optimize_for_inference: it has no other way to a layout."""
    return optimizes(flags) or bool(api.layout(flags) or flags.get("enable_fuse_preprocess"))


def needed(flags):
    """Whether anything in `flags` (name -> value) asks for a pass before the run."""
    return optimizes(flags) or any(flags.get(flag) for flag in _WRITTEN)


def absorbed(flags):
    """The flags that `transform` applies, so that the run itself need not apply them again."""
    if not optimizes(flags):
        return frozenset(flag for flag in _WRITTEN if flags.get(flag))
    names = set(ONLY_PASSES) | set(_WRITTEN) | set(api.FUSIONS) | set(api.LAYOUTS)
    return frozenset(flag for flag in names if flags.get(flag))


def transform(model, flags, folder, shapes=None):
    """Run the passes in a child; returns the path of the model to run, in `folder` if changed.

    `shapes` (input name -> shape) are those of the run, if they are not the model's; static memory
    is told for them. Raises Failure.
    """
    path = os.path.join(folder, "transformed.mge") if optimizes(flags) else ""
    job = {
        "model": model,
        "flags": dict(flags),
        "path": path,
        "shapes": {name: list(shape) for name, shape in (shapes or {}).items()},
    }
    graph_child.run("passes", job, folder)
    return path or model


def work(job):
    """In the child: load, optimize, write what was asked for. `job` is that of `transform`."""
    flags = job["flags"]
    library = api.Library(flags)
    _, outputs = api.load(library, job["model"], flags)
    if optimizes(flags):
        outputs = api.optimize(library, outputs, flags)
    if job["path"]:
        dump(library, outputs, job["model"], job["path"])
    write_files(library, outputs, job["model"], flags, job["shapes"])


def write_files(library, outputs, model, flags, shapes):
    """Write what model_dump and get_static_mem_info ask for. The outputs are used up."""
    if flags.get("model_dump"):
        dump(library, outputs, model, flags["model_dump"])
    if flags.get("get_static_mem_info"):
        write_static_memory(library, outputs, flags, shapes)


def dump(library, outputs, model, path):
    """Write the graph as a plain model, in the format of the file it came from."""
    with open(model, "rb") as file:
        start = file.read(24)
    # the newer format is told by bytes 8 to 11, behind the header of test cases if there is one
    newer = b"mgv2" in (start[8:12], start[20:24])
    for name, var in api.model_inputs(library, outputs).items():
        var.owner.name = name  # the file takes the operator's name, and loading names the variable
    data, _ = api.call(library.graph.dump_graph, outputs, dump_format="FBS_V2" if newer else "FBS")
    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise Failure("cannot write the model {}: {}".format(path, error.strerror))


def write_static_memory(library, outputs, flags, shapes):
    """Write StaticMemoryInfo.json and graph.json of the graph that load_and_run would compile.

    Inputs stay what they are in the model (with nodes that can be set there would be other chunks)
    and nothing is computed: the plan is made in a first run that only pretends.
    """
    folder = flags["get_static_mem_info"].strip("/")
    pairs = [
        (var, _resized(library, var, shapes[name]))
        for name, var in api.model_inputs(library, outputs).items()
        if name in shapes and tuple(shapes[name]) != api.shape_of(var)
    ]
    outputs = api.replace(library, outputs, pairs)
    graph = outputs[0].graph
    graph.options.fake_next_exec = True
    function = api.call(graph.compile, outputs)
    # the library keeps only the first part of a longer name; so it writes to a folder of its own
    scratch = "staticmemory{}".format(os.getpid())
    try:
        os.makedirs(folder, exist_ok=True)
        os.makedirs(scratch)
        api.call(function.get_static_memory_alloc_info, scratch + "/")
        api.call(function.execute)
        api.call(function.wait)
        for name in ("StaticMemoryInfo.json", "graph.json"):
            os.replace(os.path.join(scratch, name), os.path.join(folder, name))
    except OSError as error:
        raise Failure("cannot write static memory information to {}: {}".format(folder, error))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _resized(library, var, shape):
    return api.call(
        library.runtime.make_h2d, var.graph, var.comp_node, var.dtype, tuple(shape), var.name
    )
