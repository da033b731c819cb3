"""What a task measures: the presets, plans of one's own, and how long a run may take."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.utils.translation import gettext_lazy as _
from pydantic import ValidationError

from agent.protocol.plan import DEFAULT, PRESETS, Plan
from webprofile.errors import DomainError

#: a further pass gives a run so much more time
PASS_S = 60
_WORDS: dict[str, tuple[Any, Any]] = {
    "quick": (
        _("Quick"),
        _("One profiled run: one sample of each operator. For a first look."),
    ),
    "standard": (
        _("Standard"),
        _(
            "A run without profiling for the time of an iteration (at least 1 s and 20 iterations),"
            " then 5 profiled runs for several samples of each operator."
        ),
    ),
    "thorough": (
        _("Thorough"),
        _(
            "As standard, but at least 3 s and 50 iterations, then 20 profiled runs: for comparing"
            " versions whose times differ little."
        ),
    ),
    "custom": (
        _("Custom"),
        _("Your own numbers, for example no profiled run at all."),
    ),
}
#: what the numbers are called in the form
LABELS: dict[str, Any] = {
    "clean_min_s": _("It lasts at least (s)"),
    "clean_min_iterations": _("It has at least so many iterations"),
    "profiled": _("Profiled runs"),
}


def read_plan(given: Mapping[str, Any]) -> Plan:
    """Turn the values of a `schema.PlanAsked`, a preset or numbers, into a plan.

    Raises DomainError plan_field (naming the field) or plan_empty.
    """
    preset = given.get("preset", "custom") if given else DEFAULT.preset
    if preset != "custom":
        return PRESETS[preset]
    try:
        plan = Plan.model_validate({**given, "preset": "custom"}, strict=True)
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        low, high = limits_of(name)
        raise DomainError(
            "plan_field", field=name, name=LABELS[name], low=f"{low:g}", high=f"{high:g}"
        ) from error
    if not plan.measures:
        raise DomainError("plan_empty", field="profiled")
    if plan.clean:
        return plan
    # how long a pass lasts that is not made means nothing
    return plan.model_copy(update={"clean_min_s": 0.0, "clean_min_iterations": 0})


def plan_rows() -> list[dict[str, Any]]:
    """What may be chosen, for the form; `processes` is 0 where it depends on further fields."""
    return [
        {
            "preset": name,
            "title": title,
            "help": text,
            "processes": PRESETS[name].passes if name in PRESETS else 0,
            "is_default": name == DEFAULT.preset,
        }
        for name, (title, text) in _WORDS.items()
    ]


def plan_fields() -> list[dict[str, Any]]:
    """The numbers of a plan of one's own, as they are offered at first."""
    offered = PRESETS["standard"]
    return [
        {
            "name": name,
            "label": label,
            "value": f"{getattr(offered, name):g}",
            "low": f"{limits_of(name)[0]:g}",
            "high": f"{limits_of(name)[1]:g}",
            "step": "0.1" if name == "clean_min_s" else "1",
        }
        for name, label in LABELS.items()
    ]


def longest_run_s(passes: int) -> int:
    """How long the site lets a run take, all passes of a model or formats of a script together."""
    return int(settings.RUN_TIMEOUT_S + PASS_S * passes)


def limits_of(field: str) -> tuple[float, float]:
    """The least and the greatest value of a plan's number."""
    found: dict[str, float] = {}
    for limit in Plan.model_fields[field].metadata:
        found |= {name: getattr(limit, name) for name in ("ge", "le") if hasattr(limit, name)}
    return found["ge"], found["le"]
