"""Reject flags that do not fit the model, the files or this machine; only a run can check this.

Each rejection is one line, written before the library is loaded and before a file is written. The
agent has already rejected values and combinations that never work (`agent/protocol/options.py`).
"""

import os

from load_and_run import devices, graph_passes
from load_and_run.errors import Failure, FlagError
from load_and_run.files import check_algo_cache, is_packed, mentions
from load_and_run.flags import COMPILED_ONLY, DEFAULTS, FILES, LAYOUTS, OPTIONS, VARIABLE_DUMPS


def check(flags):
    """Raise FlagError if the wheel, a file, or this machine does not support one of the flags."""
    for name in COMPILED_ONLY:
        if is_set(flags, name):
            _refuse("--{} needs a compiled load_and_run; the wheel does not support it", name)
    if flags["fast_run_algo_policy"]:
        check_algo_cache(flags["fast_run_algo_policy"])
    if flags["c_opr_lib"] and not os.path.isfile(flags["c_opr_lib"]):
        _refuse("--c_opr_lib: the file {} does not exist", flags["c_opr_lib"])
    if flags["enable_nchw88"] and devices.is_amd():
        _refuse("--enable_nchw88 hangs or crashes MegEngine on AMD CPUs; it needs an Intel CPU")
    devices.core_ids(flags)


def check_model(model, flags):
    """Raise FlagError if the flags do not fit the model or would overwrite its file."""
    if is_packed(model):
        if flags["mdl"]:
            _refuse("--mdl cannot run a packed model; remove it")
        _refuse_in_lite_mode(flags)
        if flags["enable_ioc16"]:
            _refuse("--enable_ioc16 cannot convert a packed model; use the plain model")
    elif flags["record_comp_seq2"] and not flags["optimize_for_inference"]:
        if mentions(model, b"BatchNorm"):
            _refuse(
                "--record_comp_seq2 crashes MegEngine on batch normalization; "
                "add --optimize_for_inference, which folds it, or use --record_comp_seq"
            )
    for name in ["profile", "profile_host", *FILES]:
        is_model = os.path.realpath(flags[name]) == os.path.realpath(model)
        if flags[name] and is_model and os.path.exists(model):
            _refuse("--{} would overwrite the model {}", name, model)


def check_operators(model, flags):
    """Raise FlagError if an operator of the (valid) model hangs MegEngine on this CPU.

    The model is loaded in a child process, and only if the flags and the CPU require the check.
    """
    if flags["layout_transform"] != "cpu" or not devices.is_amd():
        return
    if is_packed(model):
        _refuse(
            "--layout_transform=cpu hangs MegEngine on AMD CPUs if the model has convolutions, "
            "which cannot be checked for a packed model; use the plain model, or an Intel CPU"
        )
    for name in graph_passes.operator_types(model):
        if "Conv" in name:
            _refuse(
                "--layout_transform=cpu hangs MegEngine on AMD CPUs if the model has convolutions "
                "(this one has {}), because it tries nchw88; remove it, or use an Intel CPU",
                name,
            )


def is_set(flags, name):
    """Return whether the value of a flag differs from its default."""
    return flags[name] != DEFAULTS[name]


def uses_graph(flags):
    """Return whether the run uses the graph interface instead of megenginelite."""
    return flags["mdl"] or flags["disable_mem_opt"]


def _refuse(text, *names):
    raise FlagError("ERROR: " + text.format(*names))


def _refuse_in_lite_mode(flags):
    """Reject flags that abort load_and_run in lite mode (for a packed model) or do nothing."""
    for name, row in OPTIONS.items():
        effect = row.get("lite", "ok") if is_set(flags, name) else "ok"
        if effect == "abort":
            _refuse("--{} is not supported with a packed model", name)
        # lite mode always copies to the host
        if effect == "no-op" and name != "copy_to_host":
            _refuse("--{} has no effect with a packed model", name)


#: advice for failures that a flag causes:
#: (part of the library's message, flags one of which must be set, advice)
_ADVICE = (
    (
        "to be 4 dim",
        LAYOUTS,
        "the layout does not fit batch normalization; add --optimize_for_inference, which folds it",
    ),
    (
        "invalid conv format",
        ("enable_nhwcd4",),
        "the layout nhwcd4 is for OpenCL, which the wheel does not support; remove it",
    ),
    (
        "can not handle dtype Byte",
        VARIABLE_DUMPS,
        "MegEngine cannot write the workspace of batch normalization as text; "
        "add --optimize_for_inference, which folds it",
    ),
    (
        "is_contiguous()",
        ("bin_io_dump",),
        "MegEngine cannot write a variable that is a view of another; "
        "add --optimize_for_inference, which folds batch normalization, or use --bin_out_dump",
    ),
    (
        "out of valid range [0, 0)",
        ("cuda",),
        "MegEngine finds no CUDA device on this machine; remove --cuda",
    ),
)


def explain(failure, flags):
    """Return the failure, with advice added if one of the flags is known to cause it."""
    for message, names, advice in _ADVICE:
        if message in str(failure) and any(is_set(flags, name) for name in names):
            return Failure("{}\n({})".format(advice, failure), failure.kind)
    return failure
