"""The 74 options of load_and_run 1.13, one row each: what the rest of the product knows of them.

Names, types, defaults and limits are load_and_run's own (`lite/load_and_run/src` of MegEngine
v1.13.0); the order is that of its groups. From this table come the form, the validation, the
command line, the page of documentation and `python -m agent options --json`.
"""

from collections.abc import Mapping
from dataclasses import replace

from agent.protocol.option import Group, Option

_LAYOUTS = (
    "enable_nchw4",
    "enable_chwn4",
    "enable_nchw32",
    "enable_nchw64",
    "enable_nchw44",
    "enable_nchw44_dot",
    "enable_nchw88",
    "enable_nhwcd4",
)
_DUMPS = ("io_dump", "io_dump_stdout", "io_dump_stderr", "bin_io_dump", "bin_out_dump")
_DEVICES = ("cpu", "cuda", "cpu_default", "multithread", "multithread_default")
_RECORDS = ("record_comp_seq", "record_comp_seq2")
_FAST_RUN = ("fast_run", "full_run")
_PACK = ("packed_model_dump",)
#: every copy of the model would write these to the same file
_ONE_COPY = (
    *_DUMPS,
    "layout_transform_dump",
    "tensorrt_cache",
    "get_static_mem_info",
    "packed_model_dump",
    "model_dump",
)
#: these do nothing on a CPU, or fail there
_FOR_CUDA = (
    *_LAYOUTS[:4],
    "enable_fuse_conv_bias_with_z",
    "enable_jit",
    "tensorrt",
    "tensorrt_cache",
)
_ON_CPU = ("cpu", "cpu_default", "multithread", "multithread_default")
#: none of the first goes with any other of the second
_CONFLICTS = (
    (("lite",), ("mdl",)),
    (_FAST_RUN, _FAST_RUN),
    (_LAYOUTS, _LAYOUTS),
    (_DEVICES, _DEVICES),
    (_DUMPS, _DUMPS),
    # the first run is the one recorded; a replayed one writes the outputs only
    (_RECORDS, (*_RECORDS, "fake_first", *_DUMPS[:4])),
    (("thread",), _ONE_COPY),
    (_FOR_CUDA, _ON_CPU),
    # it looks at how CPU kernels are dispatched
    (("check_dispatch",), ("cuda",)),
)


def _excludes(name: str) -> tuple[str, ...]:
    both_ways = (*_CONFLICTS, *((others, some) for some, others in _CONFLICTS))
    found = [other for some, others in both_ways if name in some for other in others]
    return tuple(other for other in dict.fromkeys(found) if other != name)


def _layout(name: str) -> Option:
    return Option(name, Group.LAYOUT, "bool")


def _threads(name: str) -> Option:
    return Option(name, Group.DEVICE, "int", -1, "int32", minimum=1, maximum=256, wheel_mdl=False)


_CIPHERS = ("NONE", "AES_default", "RC4_default", "SIMPLE_FAST_RC4_default")

_MODEL = (
    Option("lite", Group.MODEL, "bool", since="1.7"),
    Option("mdl", Group.MODEL, "bool", wheel_graph=True, since="1.11"),
)
_BASIC = (
    # 0 iterations would leave the warm-up in the profile, a negative number would never end
    # so that the times of 50 profiled passes fit into `measurement.json`
    Option("iter", Group.BASIC, "int", 10, "int32", minimum=1, maximum=10_000),
    # without a warm-up the host's times are some 90 times too high
    Option("warmup_iter", Group.BASIC, "int", 1, "int32", minimum=1, maximum=1_000),
    # each thread writes the profile to the same file, so a profile would be that of any of them
    Option(
        "thread",
        Group.BASIC,
        "int",
        1,
        "int32",
        minimum=1,
        maximum=64,
        alone=True,
        wheel_mdl=False,
    ),
    Option("share_param_mem", Group.BASIC, "bool", lite="no-op", wheel_mdl=False),
)
_IO = (
    Option("input", Group.IO, "agent", "", "string"),
    Option("batch_size", Group.IO, "int", -1, "int32", minimum=1, maximum=65_536, by_agent=True),
    Option("io_dump", Group.IO, "artifact", "", "string", file="io_dump.txt", wheel_mdl=False),
    Option("io_dump_stdout", Group.IO, "bool", lite="abort", wheel_mdl=False),
    Option("io_dump_stderr", Group.IO, "bool", lite="abort", wheel_mdl=False),
    Option("bin_io_dump", Group.IO, "artifact", "", "string", file="bin_io_dump/", wheel_mdl=False),
    Option("bin_out_dump", Group.IO, "artifact", "", "string", file="bin_out_dump/", lite="abort"),
    Option("copy_to_host", Group.IO, "bool", lite="no-op"),
)
_ALGORITHMS = (
    Option("fast_run", Group.FAST_RUN, "bool"),
    Option("full_run", Group.FAST_RUN, "bool", since="1.3"),
    Option("binary_equal_between_batch", Group.FAST_RUN, "bool", wheel_mdl=False, since="1.5"),
    Option("reproducible", Group.FAST_RUN, "bool", lite="no-op"),
    Option(
        "fast_run_shared_batch_size",
        Group.FAST_RUN,
        "int",
        0,
        "int32",
        minimum=1,
        maximum=65_536,
        needs=(*_FAST_RUN, "fast_run_algo_policy"),
        wheel_mdl=False,
        since="1.5",
    ),
    Option(
        "fast_run_algo_policy",
        Group.FAST_RUN,
        "artifact",
        "",
        "string",
        file="algo_cache.bin",
        file_taken=True,
        needs=_FAST_RUN,
    ),
)
_LAYOUT = (
    replace(_layout("enable_nchw4"), platform="cuda"),
    replace(_layout("enable_chwn4"), platform="cuda", lite="abort"),
    replace(_layout("enable_nchw32"), platform="cuda"),
    replace(_layout("enable_nchw64"), platform="cuda"),
    _layout("enable_nchw44"),
    _layout("enable_nchw44_dot"),
    _layout("enable_nchw88"),
    replace(_layout("enable_nhwcd4"), platform="opencl"),
)
_LAYOUT_TRANSFORM = (
    Option(
        "layout_transform",
        Group.LAYOUT_TRANSFORM,
        "choice",
        "",
        "string",
        choices=("cpu", "cuda"),
        wheel_mdl=False,
        since="1.6",
    ),
    Option(
        "layout_transform_dump",
        Group.LAYOUT_TRANSFORM,
        "artifact",
        "",
        "string",
        file="layout_transform.mge",
        needs=("layout_transform",),
        wheel_mdl=False,
        since="1.6",
    ),
)
_OPTIMIZE = (
    Option("enable_fuse_preprocess", Group.OPTIMIZE, "bool"),
    Option("fuse_grain", Group.OPTIMIZE, "bool", lite="abort", since="1.11"),
    Option("weight_preprocess", Group.OPTIMIZE, "bool"),
    Option("enable_fuse_conv_bias_nonlinearity", Group.OPTIMIZE, "bool", lite="abort"),
    Option("enable_fuse_conv_bias_with_z", Group.OPTIMIZE, "bool", platform="cuda", lite="abort"),
    Option("optimize_for_inference", Group.OPTIMIZE, "bool", lite="abort", since="1.11"),
    Option("const_shape", Group.OPTIMIZE, "bool", wheel_mdl=False),
    Option("fake_first", Group.OPTIMIZE, "bool", wheel_mdl=False),
    # on by default here (load_and_run: off): the check stops after every operator of the first run,
    # 3 to 5.6 s instead of 0.05 to 0.08 s with 5,326 operators
    Option("no_sanity_check", Group.OPTIMIZE, "bool", True),
    Option("record_comp_seq", Group.OPTIMIZE, "bool", alone=True, wheel_mdl=False),
    Option(
        "record_comp_seq2",
        Group.OPTIMIZE,
        "bool",
        needs=("no_sanity_check",),
        alone=True,
        wheel_mdl=False,
    ),
    Option("disable_mem_opt", Group.OPTIMIZE, "bool", lite="abort", wheel_graph=True),
    Option(
        "workspace_limit",
        Group.OPTIMIZE,
        "int",
        2**64 - 1,
        "uint64",
        minimum=0,
        maximum=2**63 - 1,
        wheel_mdl=False,
    ),
    # without a compiler for kernels it ends in "No compiler support for cpu"
    Option("enable_jit", Group.OPTIMIZE, "bool", platform="cuda"),
    Option("tensorrt", Group.OPTIMIZE, "bool", platform="tensorrt", lite="abort"),
    Option(
        "tensorrt_cache",
        Group.OPTIMIZE,
        "artifact",
        "",
        "string",
        file="tensorrt_cache.bin",
        file_taken=True,
        needs=("tensorrt",),
        platform="tensorrt",
        wheel_mdl=False,
    ),
)
_DEVICE = (
    Option("cpu", Group.DEVICE, "bool"),
    Option("cuda", Group.DEVICE, "bool", platform="cuda", since="1.7"),
    Option("cpu_default", Group.DEVICE, "bool", wheel_mdl=False),
    _threads("multithread"),
    _threads("multithread_default"),
    Option(
        "multi_thread_core_ids",
        Group.DEVICE,
        "text",
        "",
        "string",
        pattern=r"[0-9]{1,4}(,[0-9]{1,4}){0,255}",
        needs=("multithread", "multithread_default"),
        lite="abort",
        wheel_mdl=False,
    ),
)
_PLUGIN = (
    Option(
        "range",
        Group.PLUGIN,
        "float",
        0.0,
        "double",
        minimum=1e-30,
        maximum=1e300,
        lite="abort",
    ),
    Option("check_dispatch", Group.PLUGIN, "bool", lite="abort", wheel=False),
    Option(
        "check_var_value",
        Group.PLUGIN,
        "text",
        "",
        "string",
        pattern=r"[1-9][0-9]{0,8}(:[0-9]{1,9})?",
        lite="abort",
        wheel=False,
    ),
    Option("profile", Group.PLUGIN, "agent", "", "string"),
    # the agent chooses the file; the switch only says by which of the two names it asks for it
    Option("profile_host", Group.PLUGIN, "bool", type="string", by_agent=True),
)
_DEBUG = (
    Option("model_info", Group.DEBUG, "bool", since="1.5"),
    Option("verbose", Group.DEBUG, "bool"),
    Option("disable_assert_throw", Group.DEBUG, "bool", lite="abort", wheel=False),
    Option("wait_gdb", Group.DEBUG, "agent"),
    Option(
        "get_static_mem_info",
        Group.DEBUG,
        "artifact",
        "",
        "string",
        file="staticmeminfo/",
        lite="abort",
        since="1.5",
    ),
)
_C_OPR = (
    Option(
        "c_opr_lib",
        Group.C_OPR,
        "library",
        "",
        "string",
        pattern=r"[A-Za-z0-9_-]{1,40}",
        wheel_mdl=False,
    ),
    Option(
        "c_opr_lib_with_param",
        Group.C_OPR,
        "bool",
        needs=("c_opr_lib",),
        lite="abort",
        wheel=False,
    ),
    Option(
        "c_opr_init_interface",
        Group.C_OPR,
        "text",
        "mgb_c_opr_init",
        "string",
        pattern=r"[A-Za-z_][A-Za-z0-9_]{0,99}",
        needs=("c_opr_lib",),
        lite="abort",
        wheel=False,
        since="1.11",
    ),
)
_PACKED = (
    Option("packed_model_dump", Group.PACKING, "artifact", "", "string", file="packed_model.lite"),
    Option("pack_info_json", Group.PACKING, "file", "", "string", file="pack_info.json"),
    Option("pack_cache", Group.PACKING, "file", "", "string", file="pack_cache.bin"),
    Option("pack_info_cryption", Group.PACKING, "choice", "NONE", "string", choices=_CIPHERS),
    Option("pack_model_cryption", Group.PACKING, "choice", "NONE", "string", choices=_CIPHERS),
)
_PACKING = (
    *(
        replace(each, needs=() if each is _PACKED[0] else _PACK, wheel=False, since="1.10")
        for each in _PACKED
    ),
    Option(
        "model_dump",
        Group.PACKING,
        "artifact",
        "",
        "string",
        file="model_dump.mge",
        lite="abort",
        since="1.11",
    ),
)
_FITTING = (
    Option("fitting", Group.FITTING, "bool", alone=True, wheel=False, since="1.7"),
    Option(
        "dump_fitting_model",
        Group.FITTING,
        "artifact",
        "",
        "string",
        file="fitting_model.lite",
        needs=("fitting",),
        wheel=False,
        since="1.10",
    ),
)
_DTYPE = (Option("enable_ioc16", Group.DTYPE, "bool", since="1.12.4"),)

OPTIONS: Mapping[str, Option] = {
    option.name: replace(
        option,
        excludes=_excludes(option.name),
        # the wheel runs on the CPU unless it is told otherwise
        wheel_needs=("cuda",) if option.name in _FOR_CUDA else (),
    )
    for option in (
        *_MODEL,
        *_BASIC,
        *_IO,
        *_ALGORITHMS,
        *_LAYOUT,
        *_LAYOUT_TRANSFORM,
        *_DTYPE,
        *_OPTIMIZE,
        *_DEVICE,
        *_PLUGIN,
        *_DEBUG,
        *_C_OPR,
        *_PACKING,
        *_FITTING,
    )
}

#: written while iterations run, which makes them slow: they belong into a pass of their own
DISTURBING = frozenset(_DUMPS)
#: written once an attempt, by its first pass
ONCE = frozenset(
    {
        "layout_transform_dump",
        "get_static_mem_info",
        "packed_model_dump",
        "pack_info_json",
        "pack_cache",
        "pack_info_cryption",
        "pack_model_cryption",
        "model_dump",
        "dump_fitting_model",
    }
)
#: fitting resets what else is set; these stay
KEPT_BY_FITTING = frozenset(
    {"fitting", "dump_fitting_model", "cpu", "cuda", "verbose", "no_sanity_check"}
)
