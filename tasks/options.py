"""The options of load_and_run in the reader's language: help, conditions, rows of form and page.

Functions return texts in the current language.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from django.conf import settings
from django.utils import translation
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from agent.protocol.options import KEPT_BY_FITTING, OPTIONS, Option, artifact_of

GROUP_TITLES: dict[str, Any] = {
    "model": _("Model interface"),
    "basic": _("Iterations and threads"),
    "io": _("Inputs, outputs and dumps"),
    "fast_run": _("Algorithm selection"),
    "layout": _("Layouts"),
    "layout_transform": _("Layout transform"),
    "dtype": _("Data types"),
    "optimize": _("Graph optimization"),
    "device": _("Device and threads"),
    "plugin": _("Checks and profiling"),
    "debug": _("Debugging"),
    "c_opr": _("Custom operators"),
    "packing": _("Packing and dumping models"),
    "fitting": _("Automatic tuning"),
}
KIND_WORDS: dict[str, Any] = {
    "bool": _("switch"),
    "int": _("integer"),
    "float": _("number"),
    "choice": _("choice"),
    "text": _("text"),
    "artifact": _("switch; the file becomes an artifact"),
    "file": _("uploaded file"),
    "library": _("name of a library"),
    "agent": _("not supported"),
}
PLATFORM_WORDS: dict[str, Any] = {
    "cuda": _("Needs a device with CUDA."),
    "tensorrt": _("Needs TensorRT and an NVIDIA GPU."),
    "opencl": _("Needs a build with OpenCL. The open source version does not include it."),
}
#: one line of help for each option
OPTION_HELP: dict[str, Any] = {
    "lite": _(
        "Load the model with the megengine-lite interface, regardless of its format. Several "
        "options do not work with it."
    ),
    "mdl": _("Load the model with the raw graph interface. Not for packed or encrypted models."),
    "iter": _("Timed iterations of each process. The profile contains the last iteration."),
    "warmup_iter": _(
        "Iterations before the timed ones. The first iteration is much slower than all others, so "
        "at least one warm-up iteration is required."
    ),
    "thread": _(
        "Host threads that each load and run a copy of the model. This tests thread safety; it "
        "does not make the model faster."
    ),
    "share_param_mem": _(
        "Read the file into one buffer, and let the parameters use its memory directly. This needs "
        "less memory and loads faster."
    ),
    "input": _("The data of each input variable."),
    "batch_size": _(
        "Set the first axis of every input to this number. Data given for inputs are repeated "
        "to that size."
    ),
    "io_dump": _(
        "Write the inputs and outputs of every operator as text. Fails on models that still "
        "have BatchNorm."
    ),
    "io_dump_stdout": _(
        "Like io_dump, but write the text to standard output, which becomes part of the log."
    ),
    "io_dump_stderr": _("Like io_dump, but write the text to standard error, mixed with the log."),
    "bin_io_dump": _(
        "Write each variable to a separate binary file. Fails on variables that are not "
        "contiguous, such as those of BatchNorm."
    ),
    "bin_out_dump": _("Write only the outputs of the model as binary files."),
    "copy_to_host": _("Copy the outputs from device to host within the timed part."),
    "fast_run": _(
        "Benchmark the optimized algorithms of each operator on the actual shapes and use the "
        "fastest. The first run takes about half a minute longer."
    ),
    "full_run": _(
        "Like fast_run, but with all algorithms, including naive ones. The first run takes minutes."
    ),
    "binary_equal_between_batch": _(
        "Use only algorithms whose result for one item does not depend on the batch. Implies "
        "reproducible."
    ),
    "reproducible": _(
        "Use only algorithms that give the same result every time. Matters mainly for cuDNN."
    ),
    "fast_run_shared_batch_size": _(
        "Batch size for benchmarking algorithms, instead of that of the model."
    ),
    "fast_run_algo_policy": _(
        "Save the chosen algorithms as an artifact. Provide a file to start from an earlier "
        "choice. Valid for one device, shape and version."
    ),
    "enable_nchw4": _("Layout NCHW4 for int8 on CUDA (dp4a, cuDNN)."),
    "enable_chwn4": _("Layout CHWN4 for int8 on CUDA. Needs compute capability 6.1 or later."),
    "enable_nchw32": _("Layout NCHW32 for int8 on the tensor cores of CUDA."),
    "enable_nchw64": _("Layout NCHW64 for int4 on CUDA tensor cores."),
    "enable_nchw44": _(
        "Layout NCHW44 for float32 and int8 on ARM. Slower on x86; models with BatchNorm need "
        "optimize_for_inference."
    ),
    "enable_nchw44_dot": _(
        "Layout NCHW44 with dot product for int8 on ARM. Models with BatchNorm need "
        "optimize_for_inference."
    ),
    "enable_nchw88": _(
        "Layout NCHW88 for float32 on x86 with AVX, by MKL-DNN. Models with BatchNorm need "
        "optimize_for_inference."
    ),
    "enable_nhwcd4": _("Layout NHWCD4 for OpenCL."),
    "layout_transform": _(
        "Benchmark the operators in many layouts and rewrite the graph for this target. Takes "
        "minutes."
    ),
    "layout_transform_dump": _("Save the rewritten model as an artifact."),
    "enable_ioc16": _(
        "Store and compute in float16. Meant for ARM with float16 and for CUDA; a hundred times "
        "slower on x86."
    ),
    "enable_fuse_preprocess": _(
        "Fuse astype, pad channel and dimshuffle after the input into one operator."
    ),
    "fuse_grain": _("Fuse small operators into larger ones."),
    "weight_preprocess": _(
        "Transform weights in advance (winograd, im2col). Faster, but uses more memory; shapes "
        "must not change."
    ),
    "enable_fuse_conv_bias_nonlinearity": _(
        "Fuse convolution, bias and activation into one operator."
    ),
    "enable_fuse_conv_bias_with_z": _(
        "Fuse the addition of a residual into the convolution too. CUDA only."
    ),
    "optimize_for_inference": _(
        "Run all inference optimizations after loading: fold BatchNorm, and apply the chosen "
        "layouts and fusions."
    ),
    "const_shape": _("Treat the shapes of variables as constant when the model is loaded."),
    "fake_first": _("Do everything in the first run except the computation."),
    "no_sanity_check": _(
        "Skip checksums of variables in the first run, which makes it much faster on a busy "
        "machine."
    ),
    "record_comp_seq": _(
        "Record the kernels once, then replay them. Hangs when profiling, and fails if memory "
        "of a variable is allocated dynamically."
    ),
    "record_comp_seq2": _(
        "Like record_comp_seq, and also free the graph. Models with BatchNorm crash."
    ),
    "disable_mem_opt": _("Disable memory planning and reuse, for debugging."),
    "workspace_limit": _(
        "Maximum workspace of an algorithm, in bytes. On a compiled load_and_run it works only "
        "with lite."
    ),
    "enable_jit": _("Compile fused elementwise operators just in time, with NVRTC."),
    "tensorrt": _("Let TensorRT run the parts of the graph that it supports."),
    "tensorrt_cache": _(
        "Save the TensorRT engines as an artifact. Provide a file to reuse the engines of an "
        "earlier run."
    ),
    "cpu": _("Run on the CPU with one worker thread."),
    "cuda": _("Run on the first CUDA device."),
    "cpu_default": _("Run on the CPU in the calling thread: steadier times on a busy machine."),
    "multithread": _("Run on the CPU with this many threads."),
    "multithread_default": _("Like multithread, but the calling thread is one of the threads."),
    "multi_thread_core_ids": _(
        "The core of each thread, separated by commas, such as 0,1,2. One for each thread."
    ),
    "range": _(
        "Fail if the absolute value of any element is larger than this, or if it is NaN. "
        "Makes runs slower."
    ),
    "check_dispatch": _("Log each operator that starts no kernel on the CPU."),
    "check_var_value": _(
        "Find variables whose values change between runs. Each run checks one variable; after N "
        "runs, the next variable is checked. With N:K, variable K is checked first."
    ),
    "profile": _("The path of the profile."),
    "profile_host": _(
        "Request the profile with --profile_host, as OpenCL builds require. The file is the "
        "same as without this option."
    ),
    "model_info": _("Log the inputs and outputs of the model with their shapes."),
    "verbose": _("Write a detailed log, which becomes very long."),
    "disable_assert_throw": _("Do not fail when an AssertEqual of a test model does not hold."),
    "wait_gdb": _("Wait for a debugger."),
    "get_static_mem_info": _("Save the static memory plan and the graph as JSON, as an artifact."),
    "c_opr_lib": _("Load a library of custom operators that the device’s owner configured."),
    "c_opr_lib_with_param": _(
        "Generate test inputs with the copr_param functions of the operator library. For test "
        "models."
    ),
    "c_opr_init_interface": _("The name of the library’s init function."),
    "packed_model_dump": _("Save the model as a packed lite model, as an artifact."),
    "pack_info_json": _(
        "A JSON file with information to embed. It must contain name, valid and version."
    ),
    "pack_cache": _("A cache of algorithms to embed into the packed model."),
    "pack_info_cryption": _(
        "How the embedded information is encrypted. This is only a label: the file must be "
        "encrypted already."
    ),
    "pack_model_cryption": _(
        "How the model is encrypted. This is only a label: the file must be encrypted already."
    ),
    "model_dump": _("Save the model after all graph optimizations, as an artifact."),
    "fitting": _("Try predefined sets of options and print the best. Resets most other options."),
    "dump_fitting_model": _("Pack the best options into the model, and save it as an artifact."),
}
#: flags that users may not set, with the reason; load_and_run's own options first
NEVER_TAKEN: dict[str, Any] = {
    "input": _("The agent sets it from the files and values of the task."),
    "profile": _(
        "The agent sets it for each profiled pass; choose the number of profiled passes instead."
    ),
    "wait_gdb": _("It waits for keyboard input, which a task never gets."),
    "flagfile": _("It reads more options from a file on the device, without any check."),
    "fromenv, tryfromenv": _("They read options from the device’s environment."),
    "undefok": _("It hides misspelled options."),
    "tab_completion_word, tab_completion_columns": _(
        "They are for shell completion and run nothing."
    ),
    "help, helpfull, helpshort, helpon, helpmatch, helppackage, helpxml, version": _(
        "They print a help text and run nothing; this page has the same content."
    ),
}
#: the options that most tasks set, which the form shows first and outside of the groups
COMMON = ("iter", "warmup_iter", "batch_size", "fast_run", "optimize_for_inference", "cpu_default")

#: title, help and switches of each preset of the form
_PRESETS: tuple[tuple[Any, Any, tuple[str, ...]], ...] = (
    (_("Defaults"), _("load_and_run without options."), ()),
    (
        _("Inference"),
        _("Folds BatchNorm, and fuses convolution, bias and activation."),
        ("optimize_for_inference", "enable_fuse_conv_bias_nonlinearity"),
    ),
    (
        _("Fastest algorithms"),
        _(
            "Same as Inference. In addition, measures the algorithms of each operator, uses the "
            "fastest, and transforms weights in advance. The first run takes longer."
        ),
        (
            "optimize_for_inference",
            "enable_fuse_conv_bias_nonlinearity",
            "fast_run",
            "weight_preprocess",
        ),
    ),
    (
        _("Reproducible"),
        _(
            "Uses only algorithms whose results are the same in every run, and whose result for "
            "one item does not depend on the batch."
        ),
        ("reproducible", "binary_equal_between_batch"),
    ),
)


def preset_rows() -> list[dict[str, Any]]:
    """Return the presets of the form; `options` are the names of switches, separated by spaces."""
    return [
        {"title": title, "help": text, "options": " ".join(switches)}
        for title, text, switches in _PRESETS
    ]


def common_rows() -> list[dict[str, Any]]:
    return [row_of(OPTIONS[name]) for name in COMMON]


def form_groups(caches: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return the options that users may set, except the common ones, grouped as in the table.

    caches: artifacts of earlier tasks that may be the file of an option, by option
    """
    groups = _groups(o for o in OPTIONS.values() if o.kind != "agent" and o.name not in COMMON)
    for group in groups:
        for row in group["options"]:
            row["caches"] = caches.get(row["name"], ())
    return groups


def all_groups() -> list[dict[str, Any]]:
    return _groups(option for option in OPTIONS.values() if option.kind != "agent")


def row_of(option: Option) -> dict[str, Any]:
    """Return the template context for one option."""
    return {
        "name": option.name,
        "kind": option.kind,
        "type": option.type,
        "kind_words": KIND_WORDS[option.kind],
        "default": default_words(option),
        "is_on": option.default is True,
        "range": range_words(option),
        "minimum": option.minimum,
        "maximum": option.maximum,
        "choices": [choice for choice in option.choices if choice != option.default],
        "file_taken": option.file_taken or option.kind == "file",
        "help": OPTION_HELP[option.name],
        "search": _search_text(option),
        "conditions": list(conditions_of(option)),
    }


def _search_text(option: Option) -> str:
    """Return the text that the form's search matches: name and help in every language."""
    names = [option.name, option.name.replace("_", " ")]
    return " ".join([*names, *help_by_language(option.name).values()]).lower()


def help_by_language(name: str) -> dict[str, str]:
    texts = {}
    for language, _name in settings.LANGUAGES:
        with translation.override(language):
            texts[language] = str(OPTION_HELP[name])
    return texts


def _groups(options: Iterable[Option]) -> list[dict[str, Any]]:
    rows_by_group: dict[str, list[dict[str, Any]]] = {}
    for option in options:
        rows_by_group.setdefault(option.group, []).append(row_of(option))
    return [
        {"key": group, "title": GROUP_TITLES[group], "options": rows}
        for group, rows in rows_by_group.items()
    ]


def default_words(option: Option) -> str:
    value = option.default
    if option.kind in ("bool", "artifact", "file"):
        return gettext("on") if value is True else gettext("off")
    if option.name == "workspace_limit":
        return gettext("no limit")
    if value == "" or (option.minimum is not None and float(value) < option.minimum):
        return gettext("not set")
    return str(value)


def changed_options(options: Mapping[str, Any]) -> list[str]:
    """Return the options that differ from their defaults, as command line arguments.

    A switch becomes `--fast_run` or `--name=false`, other options become `--name=value`. Options
    that the table does not contain are included: a release may remove an option of stored tasks.
    """
    return [_argument(name, value) for name, value in options.items() if _differs(name, value)]


def _differs(name: str, value: Any) -> bool:
    if name not in OPTIONS:
        return True
    default = OPTIONS[name].default
    # the default of an artifact is an empty path, which means the same as a switch that is off
    return bool(value != default and (value is not False or default is True))


def _argument(name: str, value: Any) -> str:
    if value is True:
        return f"--{name}"
    return f"--{name}={'false' if value is False else value}"


def range_words(option: Option) -> str:
    """Return a text about the accepted values; empty for a switch."""
    if option.choices:
        return gettext("one of %(choices)s") % {"choices": ", ".join(option.choices)}
    if option.minimum is not None and option.maximum is not None:
        return gettext("%(low)s to %(high)s") % {
            "low": _number(option.minimum),
            "high": _number(option.maximum),
        }
    return gettext("matches %(pattern)s") % {"pattern": option.pattern} if option.pattern else ""


def conditions_of(option: Option) -> Iterator[str]:
    """Yield one sentence for each requirement and incompatibility of an option."""
    if option.platform:
        yield str(PLATFORM_WORDS[option.platform])
    if not option.wheel:
        yield gettext("Only with a compiled load_and_run, not with the Python package.")
    if option.since:
        yield gettext("Since MegEngine %(version)s.") % {"version": option.since}
    if option.needs:
        if len(option.needs) == 1:
            yield gettext("Needs %(option)s.") % {"option": option.needs[0]}
        else:
            yield gettext("Needs one of: %(options)s.") % {"options": ", ".join(option.needs)}
    if option.wheel_needs:
        needs = ", ".join(option.wheel_needs)
        yield gettext("With the Python package, needs: %(options)s.") % {"options": needs}
    yield from _exclusions(option)
    if option.kind == "artifact":
        yield gettext("Writes %(file)s.") % {"file": artifact_of(option.name)}
    if option.file_taken:
        yield gettext("A file can provide the initial content.")


def _exclusions(option: Option) -> Iterator[str]:
    if option.excludes:
        yield gettext("Cannot be combined with: %(options)s.") % {
            "options": ", ".join(option.excludes)
        }
    if option.name == "fitting":
        kept = ", ".join(sorted(KEPT_BY_FITTING - {"fitting"}))
        yield gettext("Can be combined only with: %(options)s.") % {"options": kept}
    if option.alone:
        yield gettext("Not available when profiling: choose a custom plan without profiled passes.")
    if option.lite != "ok" and "lite" not in option.excludes:
        yield gettext("Cannot be combined with lite.")
    if option.wheel and not option.wheel_mdl:
        graph = ", ".join(other.name for other in OPTIONS.values() if other.wheel_graph)
        yield gettext("With the Python package, cannot be combined with: %(options)s.") % {
            "options": graph
        }
    if option.wheel_graph:
        yield gettext(
            "With the Python package, runs the model with the graph interface, which does not "
            "support some options."
        )
    if option.name == "layout_transform":
        yield gettext(
            "Must match the device that the model runs on: cuda only with the option cuda."
        )
    if option.name == "multi_thread_core_ids":
        yield gettext("Each core at most once.")


def _number(value: int | float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
