"""User-facing texts about load_and_run's options, for the form and for the page of options.

Functions return texts in the current language.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from agent.protocol.artifacts import artifact_of
from agent.protocol.option_table import KEPT_BY_FITTING, OPTIONS, Option, OptionGroup

GROUP_TITLES: dict[OptionGroup, Any] = {
    OptionGroup.MODEL: _("Model interface"),
    OptionGroup.BASIC: _("Iterations and threads"),
    OptionGroup.IO: _("Inputs, outputs and dumps"),
    OptionGroup.FAST_RUN: _("Choice of algorithms"),
    OptionGroup.LAYOUT: _("Layouts"),
    OptionGroup.LAYOUT_TRANSFORM: _("Layout transform"),
    OptionGroup.DTYPE: _("Data types"),
    OptionGroup.OPTIMIZE: _("Optimization of the graph"),
    OptionGroup.DEVICE: _("Device and threads"),
    OptionGroup.PLUGIN: _("Checks and profiling"),
    OptionGroup.DEBUG: _("Debugging"),
    OptionGroup.C_OPR: _("Custom operators"),
    OptionGroup.PACKING: _("Packing and dumping of models"),
    OptionGroup.FITTING: _("Fitting"),
}
KIND_WORDS: dict[str, Any] = {
    "bool": _("switch"),
    "int": _("whole number"),
    "float": _("number"),
    "choice": _("one of several"),
    "text": _("text"),
    "artifact": _("switch; the file becomes an artifact"),
    "file": _("uploaded file"),
    "library": _("name of a library"),
    "agent": _("not taken"),
}
PLATFORM_WORDS: dict[str, Any] = {
    "cuda": _("Needs a device with CUDA."),
    "tensorrt": _("Needs TensorRT and an NVIDIA GPU."),
    "opencl": _("Needs a build for OpenCL, which the open source version is not."),
}
#: flags that users may not set, with the reason; load_and_run's own options first
NEVER_TAKEN: dict[str, Any] = {
    "input": _("The agent sets it from the files and values of the task."),
    "profile": _("The agent sets it for each profiled pass; choose their number instead."),
    "wait_gdb": _("It waits for a character that nobody will ever type."),
    "flagfile": _("It reads further options from a file of the device, past every check."),
    "fromenv, tryfromenv": _("They read options from the device's environment."),
    "undefok": _("It hides options that are misspelt."),
    "tab_completion_word, tab_completion_columns": _("They are for a shell and run nothing."),
    "help, helpfull, helpshort, helpon, helpmatch, helppackage, helpxml, version": _(
        "They print a text and run nothing; this page says the same."
    ),
}


def default_words(option: Option) -> str:
    """Return the default value of an option as text."""
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
    that the table does not contain are included, since an older version accepted them.
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
        yield gettext("On the Python package it needs: %(options)s.") % {"options": needs}
    yield from _exclusions(option)
    if option.kind == "artifact":
        yield gettext("Leaves %(file)s.") % {"file": artifact_of(option.name)}
    if option.file_taken:
        yield gettext("A file may be given as its content at the start.")


def _exclusions(option: Option) -> Iterator[str]:
    if option.excludes:
        yield gettext("Not together with: %(options)s.") % {"options": ", ".join(option.excludes)}
    if option.name == "fitting":
        kept = ", ".join(sorted(KEPT_BY_FITTING - {"fitting"}))
        yield gettext("Only together with: %(options)s.") % {"options": kept}
    if option.alone:
        yield gettext("Not beside a profile: choose your own plan without profiled passes.")
    if option.lite != "ok" and "lite" not in option.excludes:
        yield gettext("Not together with lite.")
    if option.wheel and not option.wheel_mdl:
        graph = ", ".join(other.name for other in OPTIONS.values() if other.wheel_graph)
        yield gettext("On the Python package not together with: %(options)s.") % {"options": graph}
    if option.wheel_graph:
        yield gettext(
            "On the Python package it runs the model by the graph interface, which some options "
            "do not go with."
        )
    if option.name == "layout_transform":
        yield gettext("For the device that the model runs on: cuda with the option cuda only.")
    if option.name == "multi_thread_core_ids":
        yield gettext("No core twice.")


def _number(value: int | float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
