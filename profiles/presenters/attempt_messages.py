"""User-facing messages about an attempt: its files, its passes, and disturbances."""

import re
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from agent.protocol.artifacts import LOG_NAME, MANIFEST_NAME, MEASUREMENT_NAME, profile_number
from tasks.models import Task

#: file name -> (title, description)
ARTIFACTS: dict[str, tuple[Any, Any]] = {
    LOG_NAME: (_("Log"), _("What load_and_run printed in all passes.")),
    MEASUREMENT_NAME: (
        _("Measurement"),
        _("Times of all iterations and passes, and the state of the device."),
    ),
    MANIFEST_NAME: (
        _("Manifest"),
        _("What it takes to run this again: files, inputs, options, versions, device."),
    ),
    "io_dump.txt": (_("Values of all variables, text"), _("Written by the option io_dump.")),
    "bin_io_dump.zip": (
        _("Values of all variables, binary"),
        _("One file for each variable. Can be compared with that of another task."),
    ),
    "bin_out_dump.zip": (_("Values of the outputs"), _("One file for each output and iteration.")),
    "algo_cache.bin": (
        _("Algorithm cache"),
        _("The algorithms that fast_run chose. A later task can start from it."),
    ),
    "tensorrt_cache.bin": (
        _("TensorRT cache"),
        _("Engines that TensorRT built. A later task can start from it."),
    ),
    "chrome_timeline.json": (_("Trace"), _("What MegEngine’s Profiler recorded of the script.")),
    "memory_flow.svg": (_("Memory flow"), _("Which tensor lay where in memory, and when.")),
    "staticmeminfo.zip": (_("Static memory plan"), _("Where and how long each variable lies.")),
    "layout_transform.mge": (
        _("Model with transformed layouts"),
        _("The model after the option layout_transform."),
    ),
    "model_dump.mge": (_("Optimized model"), _("The graph after all passes of optimization.")),
    "packed_model.lite": (_("Packed model"), _("Written by the option packed_model_dump.")),
    "fitting_model.lite": (_("Fitted model"), _("A packed model with the best options found.")),
}

CONTAMINATIONS: dict[str, Any] = {
    "other_load": _("other programs used the processor"),
    "stolen": _("other machines on the same host took processor time"),
    "throttled": _("the device throttled itself"),
    "clock_dropped": _("the clock dropped during the run"),
    "hot": _("the device was hot"),
    "memory_low": _("memory was nearly used up"),
    "swapped": _("memory was swapped to disk"),
    "gpu_shared": _("other programs used the GPU"),
    "gate_gave_up": _("the device did not calm down before the run, and the wait was given up"),
}

_PASSES: dict[str, Any] = {
    "inspect": _("looking up the model's inputs"),
    "clean": _("without profiling"),
    "profiled": _("with profiling"),
    "dump": _("writing dumps"),
}


def input_words(task: Task) -> list[str]:
    """Return the inputs of a task's model, one text each: `data float32 {1,3,224,224}`."""
    words = []
    for file in task.data_files:
        arrays = file.arrays or [{}]
        for array in arrays:
            name = file.input or str(array.get("name", "")) or file.name
            words.append(_tensor_words(name, array.get("dtype"), array.get("shape")))
    for task_input in task.inputs:
        words.append(
            _tensor_words(task_input["name"], task_input.get("dtype"), task_input.get("shape"))
        )
    return words


def _tensor_words(name: str, dtype: str | None, shape: Sequence[int] | None) -> str:
    axes = f"{{{','.join(map(str, shape))}}}" if shape else ""
    return " ".join(filter(None, (name, dtype, axes)))


def artifact_title(name: str) -> str:
    """Return the title of a file of an attempt; its name if it is unknown."""
    number = profile_number(name)
    if number:
        return gettext("Profile %(number)s") % {"number": number}
    return str(ARTIFACTS[name][0]) if name in ARTIFACTS else name


def artifact_help(name: str, *, is_script: bool = False) -> str:
    """Return the description of a file of an attempt, in a sentence; empty if it is unknown."""
    if is_script and name == LOG_NAME:
        return gettext("What the script printed to stdout and stderr.")
    if profile_number(name):
        return gettext("Times of each operator, of the last iteration of one profiled pass.")
    return str(ARTIFACTS[name][1]) if name in ARTIFACTS else ""


#: English notes that agents write into measurements -> translatable messages
_NOTES: tuple[tuple[re.Pattern[str], Any], ...] = (
    (
        re.compile(
            r"The options ask for (?P<threads>\d{1,9}) threads, and the run has (?P<cores>\d{1,9}) "
            r"cores: the threads wait for each other, and the times include that\."
        ),
        _(
            "The options ask for %(threads)s threads, and the run has %(cores)s cores: the threads "
            "wait for each other, and the times include that."
        ),
    ),
)


def note_words(note: str) -> str:
    """Translate a note of a measurement; an unknown note is returned unchanged."""
    for pattern, words in _NOTES:
        if match := pattern.fullmatch(note):
            return str(words % match.groupdict())
    return note


def contamination_word(code: str) -> str:
    """Return the message for a disturbance; an unknown code is returned unchanged."""
    return str(CONTAMINATIONS.get(code, code))


def pass_word(kind: str, *, kept: bool) -> str:
    """Return the message for the kind of a pass."""
    if kind == "inspect":
        return gettext("look at the model's inputs")
    if not kept:
        return gettext("trial, to find the number of iterations")
    return str(_PASSES.get(kind, kind))


_KINDS: dict[str, Any] = {
    "dumps": _("values, dumps and models that runs wrote"),
    "caches": _("caches of algorithms"),
    "failed": _("profiles and traces of attempts that became no result"),
    "files": _("models and data that were uploaded"),
    "logs": _("the log on this page"),
}


def rules_shown() -> list[tuple[str, int]]:
    """Return what is deleted after the end of a task, and after how many days."""
    return [(str(_KINDS[name]), days) for name, days in settings.RETENTION.items()]
