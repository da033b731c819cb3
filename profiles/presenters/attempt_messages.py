"""User-facing messages about an attempt: its files, its passes, its device, and disturbances."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from agent.protocol.artifacts import (
    ARM_PROFILE_NAMES,
    LOG_NAME,
    MANIFEST_NAME,
    MEASUREMENT_NAME,
    profile_number,
)
from agent.protocol.pairs import ARM_NAMES, OPERATORS_NAME, PAIRED_NAME
from agent.statistics.canary import LEAST_READINGS
from profiles.analysis.durations import ABSENT
from profiles.analysis.numbers import share
from profiles.models import AttemptMeasurement
from profiles.presenters.formatting import bytesize, listed
from tasks.models import Task
from tasks.run_steps import step_title
from webprofile.messages.notes import details_text
from webprofile.sentences import sentences

#: largest number of a device's state that is shown
_LARGEST = 2**63
#: file name -> (title, description)
ARTIFACTS: dict[str, tuple[Any, Any]] = {
    LOG_NAME: (_("Log"), _("The output of load_and_run in all passes.")),
    MEASUREMENT_NAME: (
        _("Measurement"),
        _("Times of all iterations and passes, and the state of the device."),
    ),
    PAIRED_NAME: (
        _("Paired comparison"),
        _("Times of all turns and pairs, differences of the outputs, and the verdicts."),
    ),
    OPERATORS_NAME: (
        _("Operators compared in pairs"),
        _("Times of the operators of each arm in each pair with profiled turns."),
    ),
    MANIFEST_NAME: (
        _("Manifest"),
        _("Everything needed to repeat this run: files, inputs, options, versions, device."),
    ),
    "io_dump.txt": (_("Values of all variables, text"), _("Written by the option io_dump.")),
    "bin_io_dump.zip": (
        _("Values of all variables, binary"),
        _("One file for each variable. Can be compared with the dump of another task."),
    ),
    "bin_out_dump.zip": (_("Values of the outputs"), _("One file for each output and iteration.")),
    "algo_cache.bin": (
        _("Algorithm cache"),
        _("The algorithms that fast_run chose. A later task can reuse them."),
    ),
    "tensorrt_cache.bin": (
        _("TensorRT cache"),
        _("Engines that TensorRT built. A later task can reuse them."),
    ),
    "chrome_timeline.json": (_("Trace"), _("What MegEngine’s Profiler recorded of the script.")),
    "memory_flow.svg": (_("Memory flow"), _("Address and live range of each tensor over time.")),
    "staticmeminfo.zip": (_("Static memory plan"), _("Address and live range of each variable.")),
    "layout_transform.mge": (
        _("Model with transformed layouts"),
        _("The model after the option layout_transform."),
    ),
    "model_dump.mge": (_("Optimized model"), _("The graph after all optimization passes.")),
    "packed_model.lite": (_("Packed model"), _("Written by the option packed_model_dump.")),
    "fitting_model.lite": (_("Auto-tuned model"), _("A packed model with the best options found.")),
}

#: what pages, the API and the client say about a run that was disturbed
DISTURBED_RUN: dict[str, Any] = {
    "title": _("This run was disturbed: its times may be longer than usual"),
    "left_out": _(
        "This pass was disturbed and is not used, because there are enough undisturbed passes."
    ),
    "withheld": _("Not shown: the run was disturbed."),
    "compared": _(
        "%(letter)s was disturbed: %(causes)s. Its times may be too high, so its differences "
        "get no verdict. Repeat it while the device is idle."
    ),
    "verdict": _("not enough evidence: disturbed run"),
    "verdict_advice": _("a run was disturbed; repeat it while the device is idle"),
    "verdict_help": _(
        "Something other than the run may have changed the times of one of the runs, such as "
        "other processes, throttling or heat. The figures are shown, but no conclusion can be "
        "drawn from their difference."
    ),
}
#: kinds of disturbances
DISTURBANCES: dict[str, Any] = {
    "waited": _("the run had to wait for a processor core"),
    "other_load": _("other programs used the processor cores of the run"),
    "stolen": _("other virtual machines on the same host used processor time"),
    "throttled": _("the device throttled itself"),
    "clock_dropped": _("the clock dropped during the run"),
    "hot": _("the device was hot"),
    "memory_low": _("memory was nearly used up"),
    "swapped": _("memory was swapped to disk"),
    "gpu_shared": _("other programs used the GPU"),
    "not_itself": _("the speed of the device was outside its usual range"),
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
    if name in ARM_PROFILE_NAMES:
        arm = ARM_NAMES[ARM_PROFILE_NAMES.index(name) + 1]
        return gettext("Profile of %(arm)s") % {"arm": arm}
    return str(ARTIFACTS[name][0]) if name in ARTIFACTS else name


def artifact_help(name: str, *, is_script: bool = False) -> str:
    """Return the description of a file of an attempt, in a sentence; empty if it is unknown."""
    if is_script and name == LOG_NAME:
        return gettext("Output of the script to stdout and stderr.")
    if profile_number(name) or name in ARM_PROFILE_NAMES:
        return gettext("Times of each operator in the last iteration of one profiled pass.")
    return str(ARTIFACTS[name][1]) if name in ARTIFACTS else ""


def disturbance_word(code: str) -> str:
    """Return the message for a disturbance; an unknown code is returned unchanged."""
    return str(DISTURBANCES.get(code, code))


def pass_words(measurement: AttemptMeasurement) -> list[str]:
    """Return the titles of all passes of a measurement; latency and profiled ones are numbered.

    Profiled passes have the numbers of the plan, also if some of them did not run.
    """
    # calibrations are clean passes that were not kept
    totals = Counter(row["kind"] for row in measurement.passes if row["kept"])
    totals["profiled"] = max(totals["profiled"], measurement.plan.get("profiled") or 0)
    numbers, words = Counter[str](), []
    for row in measurement.passes:
        kind = row["kind"]
        if kind == "clean" and not row["kept"]:
            words.append(gettext("Calibration"))
            continue
        numbers[kind] += 1
        words.append(step_title(kind, numbers[kind], totals[kind]))
    return words


def disturbance_notes(measurement: AttemptMeasurement, *, with_names: bool = True) -> list[str]:
    """Return sentences about passes that were left out, the load of other processes and the gate.

    The load explains a disturbance, so it is only mentioned with one.

    with_names: whether the sentences name other processes
    """
    notes = []
    for kind, sentence in (
        (
            "clean",
            _("The latency is from %(used)s of %(all)s latency passes. The others were disturbed."),
        ),
        (
            "profiled",
            _(
                "The figures are from %(used)s of %(all)s profiled passes. The others were "
                "disturbed."
            ),
        ),
    ):
        rows = [row for row in measurement.passes if row["kept"] and row["kind"] == kind]
        used = sum(row.get("used", True) for row in rows)
        if used < len(rows):
            notes.append(str(sentence) % {"used": used, "all": len(rows)})
    load = _mapping(measurement.other_load)
    is_disturbed = bool(measurement.disturbances or notes)
    if is_disturbed and _is_number(load.get("percent")) and _is_number(load.get("most_percent")):
        shares = {key: f"{load[key]:.0f}" for key in ("percent", "most_percent")}
        text = gettext(
            "Other processes used %(percent)s %% of a core on average, at most %(most_percent)s %%."
        )
        names = [str(name) for name in load.get("processes") or () if with_names]
        notes.append(sentences([text % shares, *_named(names)]))
    timed = [row for row in measurement.passes if row["kind"] in ("clean", "profiled")]
    if timed and all("waited" in row and row["waited"] is None for row in timed):
        notes.append(
            gettext(
                "The device does not measure how long a run waits for a core. Any other load on "
                "the cores of the run therefore counts as a disturbance."
            )
        )
    if measurement.gate.get("passed") is False:
        gate = measurement.gate if with_names else {**measurement.gate, "reasons": None}
        notes.append(_gate_text(gate))
    return notes


def device_speed_text(measurement: AttemptMeasurement | None) -> str:
    """Return how fast the device was compared with itself; empty if its agent did not read it."""
    canary = measurement.canary if measurement else {}
    before, after = (_mapping(canary.get(when)) for when in ("before", "after"))
    if not before:
        return ""
    if not _is_number(before.get("share")) or not _is_number(canary.get("low")):
        return gettext("not known yet: %(count)s readings of the device are needed first") % {
            "count": LEAST_READINGS
        }
    values = {
        "before": share(before["share"]),
        "after": share(after.get("share")),
        "low": share(canary["low"]),
        "high": share(canary.get("high")),
    }
    return (
        gettext(
            "%(before)s of its usual speed before the run, %(after)s after it (usual range: "
            "%(low)s to %(high)s)"
        )
        % values
    )


def device_share_text(measurement: AttemptMeasurement) -> str:
    """Return the mean of both readings, as `97.2 %` of the usual speed; empty if unknown."""
    sides = (_mapping(measurement.canary.get(when)) for when in ("before", "after"))
    shares = [side["share"] for side in sides if _is_number(side.get("share"))]
    return share(sum(shares) / len(shares)) if shares else ""


def _gate_text(gate: Mapping[str, Any]) -> str:
    """Return the sentence about a run that began although the device was not idle."""
    values = {"waited": f"{gate.get('waited_s') or 0:.0f}"}
    if reasons := details_text(_notes(gate.get("reasons"))):
        text = gettext(
            "The run started after %(waited)s s although the device was not idle: %(reasons)s."
        )
        return text % {**values, "reasons": reasons}
    return gettext("The run started after %(waited)s s although the device was not idle.") % values


def _notes(value: Any) -> list[Mapping[str, Any]]:
    items = value if isinstance(value, list) else []
    return [item for item in items if isinstance(item, dict)]


def _named(names: Sequence[str]) -> list[str]:
    return [gettext("Busiest: %(names)s.") % {"names": listed(names)}] if names else []


_KINDS: dict[str, Any] = {
    "dumps": _("values, dumps and models written by runs"),
    "caches": _("algorithm caches"),
    "failed": _("profiles and traces of attempts without a result"),
    "files": _("uploaded models and data"),
    "logs": _("the log on this page"),
}


def rules_shown() -> list[tuple[str, int]]:
    """Return what is deleted after the end of a task, and after how many days."""
    return [(str(_KINDS[name]), days) for name, days in settings.RETENTION.items()]


def device_rows(device: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return [{"name", "before", "after"}], without rows that are missing on both sides.

    device: `before` and `after` as in `agent.protocol.measurement`; any part may be missing or of
        another type, since an agent wrote it.
    """
    sides = [_cells(_mapping(device.get(when))) for when in ("before", "after")]
    names = list(dict.fromkeys([*sides[0], *sides[1]]))
    return [
        {"name": name, "before": sides[0].get(name, ABSENT), "after": sides[1].get(name, ABSENT)}
        for name in names
    ]


def _cells(state: Mapping[str, Any]) -> dict[str, str]:
    rows = {
        gettext("Processor load"): _number(state.get("cpu_percent"), "{:.0f} %"),
        gettext("Load average (1 min)"): _number(_first(state.get("load_average")), "{:.2f}"),
        gettext("Processor clock"): _clocks(state.get("clocks")),
        gettext("Frequency governor"): _text(state.get("governor")),
        gettext("Temperature"): _number(state.get("temperature_c"), "{:.0f} °C"),
        gettext("Free memory"): _bytes(state.get("memory_available_bytes")),
    }
    gpus = state.get("gpus")
    for number, gpu in enumerate(gpus if isinstance(gpus, list) else []):
        rows[f"GPU {number}"] = _gpu(_mapping(gpu))
    return {name: text for name, text in rows.items() if text}


def _clocks(clocks: Any) -> str:
    """Return the lowest and the highest clock of all cores."""
    cores = clocks if isinstance(clocks, list) else []
    known = [core.get("current_mhz") for core in cores if isinstance(core, dict)]
    speeds = [float(speed) for speed in known if speed is not None and _is_number(speed)]
    if not speeds:
        return ""
    low, high = min(speeds), max(speeds)
    return f"{high:.0f} MHz" if high - low < 1 else f"{low:.0f}–{high:.0f} MHz"


def _gpu(gpu: Mapping[str, Any]) -> str:
    parts = (
        _text(gpu.get("name")),
        _number(gpu.get("sm_clock_mhz"), "{:.0f} MHz"),
        _number(gpu.get("temperature_c"), "{:.0f} °C"),
        _number(gpu.get("utilisation_percent"), "{:.0f} %"),
        _bytes(gpu.get("memory_used_bytes")),
    )
    return listed(filter(None, parts))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else None


def _is_number(value: Any) -> bool:
    """Whether this is a number that can be shown: an agent wrote it."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= _LARGEST


def _number(value: Any, form: str) -> str:
    return form.format(value) if _is_number(value) else ""


def _bytes(value: Any) -> str:
    return bytesize(value) if _is_number(value) else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
