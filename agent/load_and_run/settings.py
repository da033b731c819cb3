"""Apply flags to a megenginelite network, before and after its model is loaded."""

import ctypes
import os

from load_and_run import devices
from load_and_run.errors import log
from load_and_run.flags import LAYOUTS, NO_LIMIT

#: flag -> (field of LiteOptions, its value, line in the log)
_OPTIONS = {
    "enable_fuse_preprocess": ("fuse_preprocess", 1, "enable fuse-preprocess optimization"),
    "weight_preprocess": ("weight_preprocess", 1, "enable weight-preprocess optimization"),
    "const_shape": ("const_shape", 1, "enable const var shape"),
    "fake_first": ("fake_next_exec", 1, "enable fake-first optimization"),
    "no_sanity_check": ("var_sanity_check_first_run", 0, "disable var sanity check optimization"),
    "record_comp_seq": ("comp_node_seq_record_level", 1, "set record_comp_seq_level to 1"),
    "record_comp_seq2": ("comp_node_seq_record_level", 2, "set record_comp_seq_level to 2"),
    "enable_jit": ("jit_level", 1, "enable JIT (level 1)"),
}


def make_network(lite, flags):
    """Create a LiteNetwork and apply the flags that must be set before it loads a model."""
    options = lite.LiteOptions()
    for flag, (field, value, line) in _OPTIONS.items():
        if flags[flag]:
            log(line)
            setattr(options, field, value)
    for flag in LAYOUTS:
        # only the graph interface supports chwn4
        if flags[flag] and flag != "enable_chwn4":
            log("using {} layout\n".format(flag[len("enable_") :].replace("_", "-")))
            setattr(options, flag, 1)
    kind = lite.LiteDeviceType.LITE_CUDA if flags["cuda"] else lite.LiteDeviceType.LITE_CPU
    network = lite.LiteNetwork(lite.LiteConfig(kind, options))
    if flags["cpu_default"] or flags["multithread_default"] > 0:
        network.enable_cpu_inplace_mode()
    if devices.threads(flags):
        network.threads_number = devices.threads(flags)
    if flags["layout_transform"]:
        log("using global layout transform optimization\n")
        network.enable_global_layout_transform()
    if flags["tensorrt"]:
        log("enable TensorRT")
        network.use_tensorrt()
    return network


def after_load(lite, network, flags):
    """Apply the other flags to a loaded network.

    Return a callback that the caller must keep referenced while the network is in use, or None.
    """
    if flags["workspace_limit"] < NO_LIMIT:
        log("set workspace limit to {}".format(flags["workspace_limit"]))
        network.set_network_algo_workspace_limit(flags["workspace_limit"])
    _choose_algorithms(lite, network, flags)
    if flags["layout_transform_dump"]:
        network.dump_layout_transform_model(flags["layout_transform_dump"])
        log("model after layout transform written to {}".format(flags["layout_transform_dump"]))
    return devices.pin_threads(network, flags)


def _choose_algorithms(lite, network, flags):
    """Set the strategy by which operators choose among their algorithms."""
    kind = lite.LiteAlgoSelectStrategy
    cache = flags["fast_run_algo_policy"]
    policy = kind.LITE_ALGO_HEURISTIC
    if flags["full_run"]:
        log("enable full-run strategy for algo profile")
        policy = kind.LITE_ALGO_PROFILE
    elif flags["fast_run"]:
        log("enable fast-run strategy for algo profile")
        policy = kind.LITE_ALGO_PROFILE | kind.LITE_ALGO_OPTIMIZED
    elif cache:  # from the cache, else by heuristics
        policy = kind.LITE_ALGO_PROFILE | kind.LITE_ALGO_HEURISTIC
    equal, batch = flags["binary_equal_between_batch"], flags["fast_run_shared_batch_size"]
    if equal or flags["reproducible"]:
        log("enable reproducible strategy for algo profile")
        policy |= kind.LITE_ALGO_REPRODUCIBLE
    if equal:
        log("enable batch binary equal")
    if batch:
        log("set shared shared batch")
    if policy != kind.LITE_ALGO_HEURISTIC or batch:
        network.set_network_algo_policy(policy, batch, equal)


def set_caches(lite, flags):
    """Open the caches and libraries shared by all networks; call it before a model is loaded."""
    if flags["c_opr_lib"]:
        lite.LiteGlobal.set_loader_lib_path(os.path.abspath(flags["c_opr_lib"]))
        log("loaded C opr library: {}".format(flags["c_opr_lib"]))
    cache = flags["fast_run_algo_policy"]
    if cache:
        lite.LiteGlobal.set_persistent_cache(cache, not os.path.exists(cache))
    if flags["tensorrt_cache"]:
        # LiteGlobal.set_tensorrt_cache calls a function that the library does not export
        function = lite.LiteGlobal._api.LITE_set_tensor_rt_cache
        function.argtypes, function.restype = [ctypes.c_char_p], ctypes.c_int
        if function(os.fsencode(flags["tensorrt_cache"])):
            raise RuntimeError("cannot use the TensorRT cache " + flags["tensorrt_cache"])


def write_caches(lite, flags):
    """Write the caches to their files after the runs."""
    if flags["fast_run_algo_policy"]:
        lite.LiteGlobal.dump_persistent_cache(flags["fast_run_algo_policy"])
    if flags["tensorrt_cache"]:
        lite.LiteGlobal.dump_tensorrt_cache()
