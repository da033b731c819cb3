"""The flags of load_and_run 1.7 to 1.13, and its help."""

import re
from collections.abc import Iterator
from typing import NamedTuple

Version = tuple[int, int]

_WORD = re.compile(r"(.+?)(?:\+(\d+\.\d+))?(?:-(\d+\.\d+))?(?:@(\w+))?")


class FakeFlag(NamedTuple):
    source: str
    name: str
    type: str
    default: str
    build: str


#: a line: source; then name:type:default, `+` and `-` are the first version with and without it,
#: `@` the build that it needs; a bare name is a bool that is false
TABLE = """
models/model.cpp; lite mdl+1.11
options/strategy_options.cpp; iter:int32:10 thread:int32:1 warmup_iter:int32:1 share_param_mem
options/io_options.cpp; input:string:"" batch_size:int32:-1+1.11 io_dump:string:"" io_dump_stdout io_dump_stderr
options/io_options.cpp; bin_io_dump:string:"" bin_out_dump:string:"" copy_to_host
options/fastrun_options.cpp; fast_run@fast_run full_run@fast_run binary_equal_between_batch reproducible
options/fastrun_options.cpp; fast_run_shared_batch_size:uint32:0-1.11 fast_run_shared_batch_size:int32:0+1.11
options/fastrun_options.cpp; fast_run_algo_policy:string:""
options/layout_options.cpp; enable_nchw4 enable_chwn4 enable_nchw44 enable_nchw88 enable_nchw32 enable_nchw64
options/layout_options.cpp; enable_nhwcd4 enable_nchw44_dot
options/layout_trans_options.cpp; layout_transform:string:"" layout_transform_dump:string:""
options/layout_trans_options.cpp; layout_transform_batch_size:int32:-1+1.10-1.11
options/dtype_options.cpp; enable_ioc16+1.13
options/optimize_options.cpp; enable_fuse_preprocess weight_preprocess fuse_grain+1.11 const_shape fake_first
options/optimize_options.cpp; enable_fuse_conv_bias_nonlinearity enable_fuse_conv_bias_with_z no_sanity_check
options/optimize_options.cpp; optimize_for_inference+1.11 record_comp_seq record_comp_seq2 disable_mem_opt
options/optimize_options.cpp; workspace_limit:uint64:18446744073709551615 enable_jit android_nn-1.9
options/optimize_options.cpp; tensorrt@tensorrt tensorrt_cache:string:""@tensorrt
options/device_options.cpp; cpu cuda@cuda cpu_default multithread:int32:-1 multithread_default:int32:-1
options/device_options.cpp; multi_thread_core_ids:string:""
options/plugin_options.cpp; range:double:0 check_dispatch check_var_value:string:"" profile:string:"" profile_host:string:""
options/plugin_options.cpp; model_info verbose disable_assert_throw wait_gdb get_static_mem_info:string:""
options/extern_c_opr_options.cpp; c_opr_lib:string:"" c_opr_lib_with_param c_opr_init_interface:string:"mgb_c_opr_init"+1.11
options/model_options.cpp; packed_model_dump:string:""+1.10 pack_info_json:string:""+1.10 pack_cache:string:""+1.10
options/model_options.cpp; pack_info_cryption:string:"NONE"+1.10 pack_model_cryption:string:"NONE"+1.10
options/model_options.cpp; model_dump:string:""+1.11
strategys/strategy_fitting.cpp; fitting dump_fitting_model:string:""+1.10
"""  # noqa: E501 - a table is read by its columns

_GFLAGS = """
gflags.cc; flagfile:string:"" fromenv:string:"" tryfromenv:string:"" undefok:string:""
gflags_completions.cc; tab_completion_columns:int32:80 tab_completion_word:string:""
gflags_reporting.cc; help helpfull helppackage helpshort helpxml version
gflags_reporting.cc; helpmatch:string:"" helpon:string:""
"""
#: long enough that gflags breaks the line, in places that depend on the length of the name
_MEANING = "what this flag is good for (see the guide), in some words: a type: default: is no harm"


def flags_of(version: Version, builds: frozenset[str]) -> dict[str, FakeFlag]:
    """Return the flags of a build of this version, including gflags' own."""
    known = list(_rows(TABLE, "/home/code/lite/load_and_run/src/", version))
    known += _rows(_GFLAGS, "/home/code/third_party/gflags/src/", version)
    return {flag.name: flag for flag in known if not flag.build or flag.build in builds}


def _rows(table: str, root: str, version: Version) -> Iterator[FakeFlag]:
    for line in table.strip().splitlines():
        source, _, rest = line.partition(";")
        for word in rest.split():
            base, since, until, build = _WORD.fullmatch(word).groups()
            if (since and version < _number(since)) or (until and version >= _number(until)):
                continue
            name, kind, default = base.split(":") if ":" in base else (base, "bool", "false")
            yield FakeFlag(root + source, name, kind, default, build or "")


def _number(text: str) -> Version:
    major, minor = text.split(".")
    return int(major), int(minor)


def gflags_help(flags: dict[str, FakeFlag]) -> str:
    """Format --help like gflags: 80 columns, continuation lines begin with six blanks."""
    lines = ["load_and_run: load_and_run <model_path> [options Flags...]"]
    for source in dict.fromkeys(flag.source for flag in flags.values()):
        lines += ["", f"  Flags from {source}:"]
        for flag in sorted(flag for flag in flags.values() if flag.source == source):
            text = f"    -{flag.name} ({_MEANING}) type: {flag.type} default: {flag.default}"
            lines += _wrapped(text)
    return "\n".join([*lines, "", ""])


def _wrapped(text: str) -> list[str]:
    lines, line = [], "    "
    for word in text.split():
        if line.strip() and len(line) + len(word) >= 79:
            lines.append(line.rstrip())
            line = "      "
        line += word + " "
    return [*lines, line.rstrip()]


#: of load_and_run 1.6, without arguments; the explanations are ours, shorter
LEGACY_HELP = """
  --cpu|--cpu-default
    On the CPU; --cpu-default in the caller's thread.
  --multithread|--multithread-default <nr_thread>
    On the CPU with threads.
  --multi-thread-core-ids
    For example:--multi-thread-core-ids "0,1,2,3"
  --profile|--profile-host <output>
    Write a profile. Use --profile-host for some backends.
  --input [ filepath | string]
    Set up inputs. for example: --data image.ppm --data
    param.json --data bbox:bbox.npy@batchid:b.npy
  --model-info
    Show inputs and outputs.
  --io-dump <output> | --bin-io-dump <output dir>
    Dump all variables.
  --io-dump-stdout | --io-dump-stderr
    Dump all variables as text.
  --bin-out-dump <output dir>
    Dump outputs.
  --iter <num>
    Iterations.
  --warmup-iter <num>
    Warm-up iterations.
  --range <value>
    Check values.
  --check-dispatch
    Check dispatch.
  --check-var-value <switch_interval[:start_idx]>
    Check values for changes.
  --no-sanity-check
    Without checks in the first run.
  --disable-mem-opt
    Without reuse of memory.
  --fake-first
    Do not compute in the first run.
  --const-shape
    Shapes do not change.
  --share-param-mem
    Share memory.
  --record-comp-seq | --record-comp-seq2
    Record kernels.
  --get-static-mem-info <log_dir_path>
    Record memory.
 --full-run
    Time all algorithms.
 --fast-run
    Time the good algorithms.
  --fast-run-algo-policy <path>
    A cache file.
  --fast-run-shared-batch-size
    A batch size.
  --binary-equal-between-batch
    Also turns on `--reproducible`.
  --reproducible
    Only reproducible algorithms.
  --wait-gdb
    Wait.
  --c-opr-lib <path>
    Load a library.
  --c-opr-lib-with-param
    With parameters.
  --thread <num>
    Threads.
  --disable-assert-throw
    Do not throw.
  --copy-to-host
    Copy outputs.
  --workspace-limit <num>
    A limit.
  --verbose
    Log more.
  --enable-jit
    JIT.
  --enable-chwn4
    CHWN4.
  --enable-nchw44
    NCHW44.
  --enable-nchw88
    NCHW88.
  --enable-nchw44-dot
    NCHW44-DOT.
  --weight-preprocess
    Weights.
  --enable-fuse-preprocess
    Fusion.
  --enable-nchw64
    NCHW64.
  --layout-transform [cuda|x86|arm|opencl|unspec]
    Layouts.
  --layout-transform-dump <dump_path>
    Dump the model.
  --layout-transform-verify
    Verify.

"""
