"""Which flags go together: what load_and_run forbids, ignores, crashes or hangs on is refused.

Every refusal is one line, before the library is loaded and before a file is touched.
"""

import os
import re

from load_and_run import algo_cache, devices, graph_operators
from load_and_run.errors import FlagError
from load_and_run.flag_table import COMPILED_ONLY, FLAGS
from load_and_run.model_file import is_packed, mentions

LAYOUTS = (
    "enable_nchw4",
    "enable_chwn4",
    "enable_nchw44",
    "enable_nchw88",
    "enable_nchw32",
    "enable_nchw64",
    "enable_nhwcd4",
    "enable_nchw44_dot",
)
DUMPS = ("io_dump", "io_dump_stdout", "io_dump_stderr", "bin_io_dump", "bin_out_dump")
#: of the dumps, those of every variable, which a replayed recording leaves out
VARIABLE_DUMPS = DUMPS[:4]
DEVICES = ("cpu", "cuda", "cpu_default", "multithread", "multithread_default")
_RECORDS = ("record_comp_seq", "record_comp_seq2")
_FAST = ("fast_run", "full_run")

#: load_and_run dies of these in its lite mode
_LITE_ABORTS = (
    "io_dump_stdout",
    "io_dump_stderr",
    "bin_out_dump",
    "enable_chwn4",
    "fuse_grain",
    "enable_fuse_conv_bias_nonlinearity",
    "enable_fuse_conv_bias_with_z",
    "optimize_for_inference",
    "disable_mem_opt",
    "tensorrt",
    "multi_thread_core_ids",
    "range",
    "get_static_mem_info",
    "model_dump",
)
#: and takes these without any effect
_LITE_IGNORES = ("share_param_mem", "reproducible")
#: outputs of each copy would overwrite each other's
_ONE_COPY = DUMPS + ("layout_transform_dump", "get_static_mem_info", "model_dump", "tensorrt_cache")
_STATIC_MEM_NAME = re.compile(r"[0-9a-zA-Z]+(/+[0-9a-zA-Z]+)*/?\Z")


def check(flags):
    """Raise FlagError unless these flags can all have their effect in one run."""
    for name in COMPILED_ONLY:
        if given(flags, name):
            _refuse("--{} needs a compiled load_and_run; the wheel has no way to do it", name)
    for rule in (_numbers, _pairs, _needs, _recording, _devices, _wheel, _modes, _copies):
        rule(flags)


def check_model(model, flags):
    """Raise FlagError if the model is packed, or is one of the files that the run would write."""
    if is_packed(model):
        if flags["mdl"] and not flags["lite"]:
            _refuse("--mdl cannot run a packed model; leave it out")
        if not flags["lite"]:
            _lite(flags, "with a packed model")
        if flags["enable_ioc16"]:
            _refuse("--enable_ioc16 cannot convert a packed model; give the plain one")
    elif flags["record_comp_seq2"] and not flags["optimize_for_inference"]:
        if mentions(model, b"BatchNorm"):
            _refuse(
                "--record_comp_seq2 crashes MegEngine on batch normalization; "
                "add --optimize_for_inference, which folds it, or use --record_comp_seq"
            )
    for name in _FILES_WRITTEN:
        if flags[name] and os.path.exists(model) and _same_file(flags[name], model):
            _refuse("--{} would overwrite the model {}", name, model)


def check_operators(model, flags):
    """Raise FlagError if an operator of the model would hang this CPU; the model is a valid file.

    Loads the model in a process of its own, but only where that can matter.
    """
    if flags["layout_transform"] != "cpu" or not devices.is_amd():
        return
    if is_packed(model):
        _refuse(
            "--layout_transform=cpu hangs MegEngine on AMD CPUs if the model has convolutions, "
            "which cannot be told of a packed model; give the plain one, or use an Intel CPU"
        )
    for name in graph_operators.operator_types(model):
        if "Conv" in name:
            _refuse(
                "--layout_transform=cpu hangs MegEngine on AMD CPUs if the model has convolutions "
                "(this one has {}), because it tries nchw88; leave it out, or use an Intel CPU",
                name,
            )


_FILES_WRITTEN = (
    "profile",
    "profile_host",
    "io_dump",
    "fast_run_algo_policy",
    "layout_transform_dump",
    "tensorrt_cache",
    "model_dump",
)


def given(flags, name):
    """Whether a flag has another value than its default."""
    return flags[name] != FLAGS[name][1]


def uses_graph(flags):
    """Whether the run itself goes through the graph interface instead of megenginelite."""
    return not flags["lite"] and (flags["mdl"] or flags["disable_mem_opt"])


def _refuse(text, *names):
    raise FlagError("ERROR: " + text.format(*names))


def _set(flags, names):
    return [name for name in names if given(flags, name)]


def _at_most_one(flags, names, why):
    both = _set(flags, names)
    if len(both) > 1:
        _refuse("--{} and --{} together: {}", both[0], both[1], why)


def _numbers(flags):
    if flags["thread"] <= 0:
        _refuse("--thread={}: the number of threads must be positive", flags["thread"])
    for name in ("batch_size", "multithread", "multithread_default"):
        if given(flags, name) and flags[name] <= 0:
            _refuse("--{}={}: it must be positive", name, flags[name])
    if flags["fast_run_shared_batch_size"] < 0:
        _refuse(
            "--fast_run_shared_batch_size={}: it must not be negative",
            flags["fast_run_shared_batch_size"],
        )
    if not flags["range"] >= 0:  # also true of NaN
        _refuse("--range={}: it must be a positive number", flags["range"])


def _pairs(flags):
    _at_most_one(flags, LAYOUTS, "load_and_run would apply none; give one layout")
    _at_most_one(flags, DUMPS, "they share one destination; give one of them")
    _at_most_one(flags, _FAST, "fast_run times optimized algorithms, full_run all; give one")
    _at_most_one(flags, _RECORDS, "the second includes the first; give one of them")
    if flags["batch_size"] > 0 and flags["input"]:
        _refuse(
            "--batch_size and --input together: the input would be ignored; "
            "give --input alone, in the shape that you want"
        )


def _needs(flags):
    fast = _set(flags, _FAST)
    cache = flags["fast_run_algo_policy"]
    if cache and not fast and not os.path.exists(cache):
        _refuse(
            "--fast_run_algo_policy: there is no file {}; add --fast_run or --full_run, "
            "which makes it",
            cache,
        )
    if cache:
        algo_cache.check(cache)
    if flags["fast_run_shared_batch_size"] and not fast and not cache:
        _refuse(
            "--fast_run_shared_batch_size needs --fast_run, --full_run or --fast_run_algo_policy"
        )
    if flags["layout_transform_dump"] and not flags["layout_transform"]:
        _refuse("--layout_transform_dump needs --layout_transform")
    if flags["tensorrt_cache"] and not flags["tensorrt"]:
        _refuse("--tensorrt_cache needs --tensorrt")
    if flags["c_opr_lib"] and not os.path.isfile(flags["c_opr_lib"]):
        _refuse("--c_opr_lib: there is no file {}", flags["c_opr_lib"])
    name = flags["get_static_mem_info"]
    if name and not _STATIC_MEM_NAME.match(name):
        _refuse(
            "--get_static_mem_info={}: the name of the folder may have digits, letters and / "
            "only, and begins with no /",
            name,
        )


def _recording(flags):
    record = (_set(flags, _RECORDS) or [None])[-1]
    if not record:
        return
    if flags["profile"] or flags["profile_host"]:
        _refuse("--{} cannot be profiled (the run would hang); leave out --profile", record)
    if record == "record_comp_seq2" and not flags["no_sanity_check"]:
        _refuse("--record_comp_seq2 needs --no_sanity_check")
    if flags["fake_first"]:
        _refuse("--fake_first and --{} together: the first run is the one recorded", record)
    for dump in _set(flags, VARIABLE_DUMPS):
        _refuse("--{} and --{} together: a replayed run dumps nothing", dump, record)


def _devices(flags):
    _at_most_one(flags, DEVICES, "only one of these devices would be used; give one of them")
    devices.core_ids(flags)


def _wheel(flags):
    """What would crash, hang, or have no effect, on this machine or with the wheel's library."""
    for name in _set(flags, ("enable_jit", "tensorrt")):
        if not flags["cuda"]:
            _refuse("--{} needs --cuda: the library in the wheel has it for CUDA only", name)
    target = flags["layout_transform"]
    if target not in ("", "cpu", "cuda"):
        _refuse("--layout_transform={}: it must be cpu or cuda", target)
    if target and (target == "cuda") != flags["cuda"]:
        _refuse(
            "--layout_transform={} works on that device only; {} --cuda",
            target,
            "add" if target == "cuda" else "leave out",
        )
    if flags["enable_nchw88"] and devices.is_amd():
        _refuse("--enable_nchw88 hangs or crashes MegEngine on AMD CPUs; it needs an Intel CPU")


def _modes(flags):
    if flags["lite"]:  # wins over --mdl, as in load_and_run
        return _lite(flags, "with --lite")
    if not uses_graph(flags):
        return None
    from load_and_run.mdl_network import CANNOT

    cause = "mdl" if flags["mdl"] else "disable_mem_opt"
    for name in _set(flags, CANNOT):
        _refuse("--{} and --{} together cannot be done by the wheel: {}", name, cause, CANNOT[name])
    return None


def _lite(flags, when):
    for name in _set(flags, _LITE_ABORTS):
        _refuse("--{} is not supported {}", name, when)
    for name in _set(flags, _LITE_IGNORES):
        _refuse("--{} has no effect {}", name, when)


def _copies(flags):
    if flags["thread"] > 1:
        for name in _set(flags, _ONE_COPY):
            _refuse(
                "--thread={} and --{} together: the copies would write over each other",
                flags["thread"],
                name,
            )


def _same_file(path, other):
    return os.path.realpath(path) == os.path.realpath(other)
