"""Reject flags and combinations of flags that load_and_run forbids, ignores, crashes or hangs on.

Each rejection is one line, written before the library is loaded and before a file is written.
"""

import os
import re

from load_and_run import devices, graph_passes
from load_and_run.errors import Failure, FlagError
from load_and_run.files import check_algo_cache, is_packed, mentions
from load_and_run.flags import (
    COMPILED_ONLY,
    CONFLICTS,
    FILES,
    FLAGS,
    LAYOUTS,
    OPTIONS,
    VARIABLE_DUMPS,
)

#: both 0: the run only prints information about the model
_COUNTS = ("iter", "warmup_iter")
_RECORDS = ("record_comp_seq", "record_comp_seq2")
_STATIC_MEM_NAME = re.compile(r"[0-9a-zA-Z](?:[0-9a-zA-Z/]*[0-9a-zA-Z])?/?\Z")


def check(flags):
    """Raise FlagError unless all these flags take effect together in one run."""
    for name in COMPILED_ONLY:
        if is_set(flags, name):
            _refuse("--{} needs a compiled load_and_run; the wheel has no way to do it", name)
    if is_set(flags, "batch_size"):
        _refuse("--batch_size: the agent makes inputs of that batch; give them by --input")
    for rule in (_values, _conflicts, _needs, _files, _recording, _wheel, _modes):
        rule(flags)
    devices.core_ids(flags)


def check_model(model, flags):
    """Raise FlagError if the flags do not fit the model or would overwrite its file."""
    if is_packed(model):
        if flags["mdl"]:
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
            "which cannot be told of a packed model; give the plain one, or use an Intel CPU"
        )
    for name in graph_passes.operator_types(model):
        if "Conv" in name:
            _refuse(
                "--layout_transform=cpu hangs MegEngine on AMD CPUs if the model has convolutions "
                "(this one has {}), because it tries nchw88; leave it out, or use an Intel CPU",
                name,
            )


def is_set(flags, name):
    """Return whether the value of a flag differs from its default."""
    return flags[name] != FLAGS[name][1]


def uses_graph(flags):
    """Return whether the run uses the graph interface instead of megenginelite."""
    return flags["mdl"] or flags["disable_mem_opt"]


def _refuse(text, *names):
    raise FlagError("ERROR: " + text.format(*names))


def _set(flags, names):
    return [name for name in names if is_set(flags, name)]


def _values(flags):
    for name in _set(flags, OPTIONS):
        smallest, choices = OPTIONS[name].get("minimum"), OPTIONS[name].get("choices")
        # `not ... >=` rejects NaN, too
        if smallest is not None and name not in _COUNTS and not flags[name] >= smallest:
            _refuse("--{}={}: it must be at least {}", name, flags[name], smallest)
        if choices and flags[name] not in choices:
            _refuse("--{}={}: it must be {}", name, flags[name], " or ".join(choices))


def _conflicts(flags):
    chosen = _set(flags, OPTIONS)
    for names, others, why in CONFLICTS:
        for name in names:
            for other in others:
                if name != other and name in chosen and other in chosen:
                    _refuse("--{} and --{} together: {}", name, other, why)


def _needs(flags):
    cache = flags["fast_run_algo_policy"]
    for name in _set(flags, OPTIONS):
        if name == "fast_run_algo_policy" and os.path.exists(cache):
            continue  # the cache replaces the search for algorithms
        for needs in (OPTIONS[name].get("needs"), OPTIONS[name].get("wheel_needs")):
            if needs and not _set(flags, needs):
                _refuse("--{} needs {}", name, " or ".join("--" + other for other in needs))


def _files(flags):
    if flags["fast_run_algo_policy"]:
        check_algo_cache(flags["fast_run_algo_policy"])
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
    for record in _set(flags, _RECORDS):
        if flags["profile"] or flags["profile_host"]:
            _refuse("--{} cannot be profiled (the run would hang); leave out --profile", record)


def _wheel(flags):
    """Reject flags that crash, hang, or have no effect on this machine."""
    target = flags["layout_transform"]
    if target and (target == "cuda") != flags["cuda"]:
        _refuse(
            "--layout_transform={} works on that device only; {} --cuda",
            target,
            "add" if target == "cuda" else "leave out",
        )
    if flags["enable_nchw88"] and devices.is_amd():
        _refuse("--enable_nchw88 hangs or crashes MegEngine on AMD CPUs; it needs an Intel CPU")


def _modes(flags):
    if flags["lite"]:
        _lite(flags, "with --lite")
    if not uses_graph(flags):
        return
    cause = "mdl" if flags["mdl"] else "disable_mem_opt"
    for name in _set(flags, OPTIONS):
        why = OPTIONS[name].get("not_with_mdl")
        if why:
            _refuse("--{} and --{} together cannot be done by the wheel: {}", name, cause, why)


def _lite(flags, when):
    """Reject flags that abort load_and_run in lite mode or have no effect there."""
    for name in _set(flags, OPTIONS):
        effect = OPTIONS[name].get("lite", "ok")
        if effect == "abort":
            _refuse("--{} is not supported {}", name, when)
        # lite mode always copies to the host
        if effect == "no-op" and name != "copy_to_host":
            _refuse("--{} has no effect {}", name, when)


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
        "the layout nhwcd4 is for OpenCL, which the wheel does not have; leave it out",
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
        "MegEngine finds no CUDA device here; leave out --cuda",
    ),
)


def explain(failure, flags):
    """Return the failure, with advice added if one of the flags is known to cause it."""
    for message, names, advice in _ADVICE:
        if message in str(failure) and any(is_set(flags, name) for name in names):
            return Failure("{}\n({})".format(advice, failure), failure.kind)
    return failure
