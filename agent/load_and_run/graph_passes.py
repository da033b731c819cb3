"""Inspect and transform the model's graph before the run, in a child process.

The child loads the model with MegEngine's graph API, which can do more than megenginelite: list
the operators, optimize the graph (optimize_for_inference), write it (model_dump), and compute its
static memory plan (get_static_mem_info). It writes the transformed graph as a plain model, which is
then run like any other.

In load_and_run the layout, fusion and dtype flags act when the graph is compiled, unless
optimize_for_inference is given too. The wheel supports them in optimize_for_inference only, so
each of `ONLY_PASSES` also folds BatchNorm and constants.
"""

import os
import shutil
import tempfile

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


def operator_types(model):
    """Return the sorted types of the model's operators, e.g. "ConvolutionForward".

    Most model formats store numbers instead of type names, so the model must be loaded. Raises
    Failure.
    """
    return _ask_child("operators", model)


def output_ids(model):
    """Return the id of each output variable by its name; megenginelite does not provide ids."""
    return dict(_ask_child("outputs", model))


def _ask_child(question, model):
    folder = tempfile.mkdtemp(prefix="load_and_run-")
    try:
        return graph_child.run(question, {"model": model}, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def list_operator_types(job):
    """In the child: return the sorted types of the model's operators."""
    library, outputs = _load(job)
    return sorted({operator.type for operator in api.call(library.tools.get_oprs_seq, outputs)})


def list_outputs(job):
    """In the child: return name and id of each output variable."""
    return [[var.name, var.id] for var in _load(job)[1]]


def _load(job):
    # on the CPU the library can load any model, whatever the device of the run
    library = api.Library({"cpu": True})
    return library, api.load(library, job["model"], {})[1]


def optimizes(flags):
    """Return whether optimize_for_inference must run before megenginelite gets the model."""
    # if two layouts are set, both are ignored
    ignored = () if api.layout(flags) == "enable_chwn4" else ("enable_chwn4",)
    return any(flags.get(flag) for flag in ONLY_PASSES if flag not in ignored)


def optimizes_with_mdl(flags):
    """Return whether --mdl must run optimize_for_inference, its only way to change the layout."""
    return optimizes(flags) or bool(api.layout(flags) or flags.get("enable_fuse_preprocess"))


def needed(flags):
    """Return whether `flags` (name -> value) require `transform` before the run."""
    return optimizes(flags) or any(flags.get(flag) for flag in _WRITTEN)


def absorbed(flags):
    """Return the names of the flags that `transform` applies; the run must not apply them again."""
    if not optimizes(flags):
        return frozenset(flag for flag in _WRITTEN if flags.get(flag))
    names = set(ONLY_PASSES) | set(_WRITTEN) | set(api.FUSIONS) | set(api.LAYOUTS)
    return frozenset(flag for flag in names if flags.get(flag))


def transform(model, flags, folder, shapes=None):
    """Transform the model in a child process; return the path of the model to run.

    A changed model is written to `folder`. `shapes` (input name -> shape) are the input shapes of
    the run where they differ from the model's; the static memory plan is made for them. Raises
    Failure.
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
    """In the child: load, optimize and write the model. `job` is described in `transform`."""
    flags = job["flags"]
    library = api.Library(flags)
    _, outputs = api.load(library, job["model"], flags)
    if optimizes(flags):
        outputs = api.optimize(library, outputs, flags)
    if job["path"]:
        dump(library, outputs, job["model"], job["path"])
    write_files(library, outputs, job["model"], flags, job["shapes"])


def write_files(library, outputs, model, flags, shapes):
    """Write the files of model_dump and get_static_mem_info; `outputs` are unusable afterwards."""
    if flags.get("model_dump"):
        dump(library, outputs, model, flags["model_dump"])
    if flags.get("get_static_mem_info"):
        write_static_memory(library, outputs, flags, shapes)


def dump(library, outputs, model, path):
    """Write the graph as a plain model, in the format of the file `model`."""
    with open(model, "rb") as file:
        start = file.read(24)
    # bytes 8 to 11 mark the newer format; a header of test cases may precede it
    newer = b"mgv2" in (start[8:12], start[20:24])
    for name, var in api.model_inputs(library, outputs).items():
        var.owner.name = name  # the file stores the operator's name; loading names the variable
    data, _ = api.call(library.graph.dump_graph, outputs, dump_format="FBS_V2" if newer else "FBS")
    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise Failure("cannot write the model {}: {}".format(path, error.strerror))


def write_static_memory(library, outputs, flags, shapes):
    """Write StaticMemoryInfo.json and graph.json of the graph that load_and_run would compile.

    The input operators of the model are kept, because `InputNode`s would change the memory chunks.
    Nothing is computed: the memory plan is made in a fake execution (`fake_next_exec`).
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
    # the library uses only the first component of a path, so it writes to a temporary folder
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
