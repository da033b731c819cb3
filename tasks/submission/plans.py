"""Measurement plans: presets and custom plans, their form fields, and the limit of the run time."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.utils.translation import gettext_lazy as _
from pydantic import BaseModel, ValidationError

from agent.protocol.plan import DEFAULT, PRESETS, Plan
from webprofile.errors import DomainError

#: the plan of a quick check of an earlier result: the clean passes of "standard", in about 5 s
CHECK = PRESETS["standard"].model_copy(update={"preset": "custom", "profiled": 0})
#: additional time that each pass adds to the limit of a run, s
PASS_S = 60
_WORDS: dict[str, tuple[Any, Any]] = {
    "quick": (
        _("Quick"),
        _(
            "2 latency passes without the profiler, then one profiled pass: one sample per "
            "operator. For a first look."
        ),
    ),
    "standard": (
        _("Standard"),
        _(
            "3 latency passes without the profiler (each at least 0.5 s and 10 iterations), then "
            "5 profiled passes: 5 samples per operator."
        ),
    ),
    "thorough": (
        _("Thorough"),
        _(
            "8 latency passes of at least 1 s and 20 iterations each. More latency passes follow "
            "until the confidence interval of the median is within ±1 percent or 60 s have passed. "
            "Then 20 profiled passes. For comparing versions with small differences."
        ),
    ),
    "custom": (
        _("Custom"),
        _("Set each number yourself, for example 0 profiled passes."),
    ),
}
#: labels of a custom plan's numbers in the form
LABELS: dict[str, Any] = {
    "clean_passes": _("Number of latency passes"),
    "clean_min_s": _("Minimum duration of a latency pass (s)"),
    "clean_min_iterations": _("Minimum iterations of a latency pass"),
    "budget_s": _("Time for more latency passes (s)"),
    "half_width": _("Target half-width of the interval (ratio)"),
    "profiled": _("Number of profiled passes"),
}


def read_plan(body: Mapping[str, Any]) -> Plan:
    """Convert validated data of `schema.PlanBody`, a preset or numbers, into a plan.

    Raises DomainError plan_field (naming the field) or plan_empty.
    """
    preset = body.get("preset", "custom") if body else DEFAULT.preset
    if preset != "custom":
        return PRESETS[preset]
    try:
        plan = Plan.model_validate({**body, "preset": "custom"}, strict=True)
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0])
        raise DomainError(
            "plan_field", field=name, name=LABELS[name], **bounds_of(Plan, name)
        ) from error
    if not plan.measures:
        raise DomainError("plan_empty", field="profiled")
    if plan.clean:
        return plan
    # without clean passes their numbers have no meaning
    return Plan(preset="custom", profiled=plan.profiled)


def plan_rows() -> list[dict[str, Any]]:
    """Return the plans to choose from in the form; `processes` is 0 for the custom plan."""
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


def number_fields(defaults: BaseModel, labels: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return form fields for numbers of a model, with their labels, defaults and bounds."""
    return [
        {
            "name": name,
            "label": label,
            "value": f"{getattr(defaults, name):g}",
            **bounds_of(type(defaults), name),
        }
        for name, label in labels.items()
    ]


def longest_run_s(passes: int) -> int:
    """Return the limit of the run time, s, for this number of passes or recorded formats."""
    return int(settings.RUN_TIMEOUT_S + PASS_S * passes)


def bounds_of(model: type[BaseModel], field: str) -> dict[str, Any]:
    """Return the bounds of a number of a model as `low` and `high`, for fields and errors."""
    bounds: dict[str, Any] = {}
    for limit in model.model_fields[field].metadata:
        for name, bound in (("low", "ge"), ("high", "le")):
            if hasattr(limit, bound):
                bounds[name] = f"{getattr(limit, bound):g}"
    return bounds
