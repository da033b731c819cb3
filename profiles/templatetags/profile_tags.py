"""Tags and filters for templates that show profiles."""

from dataclasses import dataclass
from typing import Any

from django import template
from django.conf import settings
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from agent.protocol.multipart import PARTS_FROM_BYTES
from profiles.exports.originals import originals_of
from profiles.presenters.formatting import isolated, visible
from profiles.viewer_packages import viewer_address

register = template.Library()
register.filter(isolated)
register.filter(visible)
register.simple_tag(viewer_address)
register.simple_tag(originals_of)


@dataclass(frozen=True)
class Chart:
    """A chart.

    headings: of its table, whose first column is a name and whose other columns are numbers
    tools: template between the explanation and the chart
    more: template below the chart
    """

    title: Any
    explain: Any
    headings: tuple[Any, ...]
    tools: str = ""
    more: str = ""


#: the charts of a result; one template renders the frame, explanation and table of each
CHARTS = {
    "timeline": Chart(
        _("Timeline"),
        _(
            "When each operator ran in the profiled iteration, with one track per host thread and "
            "per computing node of the device. The time axis begins when the first operator "
            "starts. The thin part of a bar is waiting (kern − start), and the thick part is "
            "running (end − kern)."
        ),
        (_("Operator"), _("Track"), _("Start"), _("Waits"), _("Computes")),
        tools="profiles/_chart_timeline_tools.html",
    ),
    "types": Chart(
        _("Time by operator type"),
        _(
            "Sum of the self times (end − start) of all operators of a type, and its share of "
            "the total. Click a type to show only its operators in the table."
        ),
        (_("Type"), _("Time"), _("Share"), _("Operators")),
    ),
    "cumulative": Chart(
        _("Cumulative share of time (Pareto)"),
        _(
            "Operators from the slowest to the fastest. The curve is the cumulative self time "
            "as a share of the total."
        ),
        (_("Operator"), _("Rank"), _("Time"), _("Cumulative share")),
    ),
    "scopes": Chart(
        _("Time by scope"),
        _(
            "Areas are self times (end − start). The scope of an operator comes from the name "
            "of its variable; colours are operator types. Click a scope to open it; use the bar "
            "below to go back."
        ),
        (_("Scope"), _("Time"), _("Share"), _("Operators")),
    ),
    "roofline": Chart(
        _("Roofline"),
        _(
            "Horizontal: arithmetic intensity (FLOP/byte = computation / memory). Vertical: "
            "speed (FLOP/s = computation / self time). Both axes are logarithmic; the area of a "
            "point is its self time. Operators left of the ridge point are limited by memory, "
            "those right of it by computation. Points far below the line can be faster."
        ),
        (_("Operator"), _("Type"), "FLOP/byte", "FLOP/s", _("Time")),
    ),
    "memory": Chart(
        _("Memory by execution step"),
        _(
            "Bytes in use while each operator runs. Parameters, constants and inputs are always in "
            "use; chunks of MegEngine’s memory plan are in use from the first operator that writes "
            "them to the last that reads them. The figures are computed from the plan, not "
            "measured."
        ),
        (
            _("Operator"),
            _("Step"),
            _("In total"),
            pgettext_lazy("memory", "planned"),
            pgettext_lazy("memory", "estimated"),
        ),
        tools="profiles/_chart_memory_tools.html",
        more="profiles/_chart_memory_owners.html",
    ),
}


@register.inclusion_tag("profiles/_chart.html", takes_context=True)
def chart(context: dict[str, Any], name: str, data: str) -> dict[str, Any]:
    """Return the context of the frame of one chart; a script fetches its data.

    data: as in `profiles.views.common.ResultLinks`
    """
    return {
        "name": name,
        "chart": CHARTS[name],
        "url": f"{data}charts/{name}/",
        "pass_choices": context.get("pass_choices"),
        "has_changes": context.get("share") is None
        and "paired" in context
        and bool(context["paired"]["operators"]),
    }


@register.inclusion_tag("profiles/_chart.html")
def compared_timelines(url: str, letter: str) -> dict[str, Any]:
    """Return the context of the frame of two timelines, of A and of another profile."""
    chart = Chart(
        _("Timelines"),
        _(
            "Start and duration of each operator in the first profiled pass. Time zero of each "
            "run is the start of its first operator. Bands connect operators in the same row of "
            "the comparison. Select a bar to see its row."
        ),
        (
            _("Operator"),
            _("A, start"),
            _("A, time"),
            gettext("%(letter)s, start") % {"letter": letter},
            gettext("%(letter)s, time") % {"letter": letter},
        ),
        tools="profiles/_chart_timeline_tools.html",
    )
    return {"name": "timelines", "chart": chart, "url": url}


@register.simple_tag
def parts_from() -> int:
    """Return the size in bytes from which a file is uploaded in parts; 0 if none is."""
    return PARTS_FROM_BYTES if settings.S3_TAKES_PARTS else 0
