"""Data for the viewers: the executed graph, the uploaded model, and the file of a trace."""

from typing import Any

import numpy as np
from django.conf import settings
from django.http import QueryDict
from django.utils.translation import gettext

from agent.protocol.pairs import MOST_ARMS
from profiles.analysis.data import ProfileData
from profiles.analysis.netron.colours import Colouring, Metric, colouring
from profiles.analysis.netron.document import netron_document, place_of_row
from profiles.comparison.paired_operators import ArmChanges, row_differences
from profiles.exports.originals import Original
from profiles.formats.columns import MISSING, Side
from profiles.ingest.loading import profile_data
from profiles.models import Profile
from profiles.presenters.charts import chart_side
from tasks.models import Task, TaskFile
from tasks.submission.model_heads import (
    FORM_BYTES,
    ModelForm,
    graph_end,
    graph_offset,
    model_form,
)
from webprofile.errors import DomainError
from webprofile.integers import parse_int
from webprofile.storage import storage

#: largest trace for the viewer: a browser holds several copies while it reads it
TRACE_LIMIT_BYTES = 200 * 1024**2


def graph_document(
    profile: Profile,
    changes: ArmChanges | None = None,
    *,
    scope: str,
    row: int | None,
    colour: Metric,
    side: Side | None,
) -> bytes:
    """Return one view of the executed graph, in the format of `netron_document`.

    changes: of an arm of a paired comparison, for the colour `change`
    row: instead of `scope`, the view that shows this row of the table
    side: None for the device, or for the host if the device was not timed

    Raises DomainError operator_not_drawn if no view shows the row, and as `profile_data`.
    """
    data = profile_data(profile)
    place = drawn_place(data, scope, row)
    side = side or chart_side(data)
    if changes is not None:
        delta_us, differs = row_differences(changes, data.columns.device.end_s)
        colours = Colouring("change", np.where(differs, delta_us, 0.0) / 1e6)
    else:
        colours = colouring(data, colour, side)
    return netron_document(data, side=side, place=place, colours=colours)


def drawn_place(data: ProfileData, scope: str, row: int | None) -> str:
    """Return the scope, or else the view that shows a row.

    Raises DomainError operator_not_drawn if no view shows it.
    """
    place = scope if row is None else place_of_row(data, row)
    if place is None:
        raise DomainError("operator_not_drawn", status=404)
    return place


def task_model_view(task: Task, arm: int = 0, *, expires_s: int | None = None) -> dict[str, Any]:
    """Return {"address", "name", "size_bytes", "begin", "end"} of the model, or {"reason"}.

    arm: of a paired comparison, whose model is shown; the result has the `arm` and the `file` shown
    expires_s: lifetime of `address`; None for the usual one
    begin, end: the part of the file with the graph, in bytes: unlike MegEngine, the viewer fails
        on a header of test data and on bytes after the graph
    """
    if task.is_script:
        reason = gettext("This task ran a script, so there is no model file.")
        return {"file": task.model_file} | _refusal(reason)
    # an arm without a model of its own runs that of the baseline
    models = task.files.filter(kind=TaskFile.Kind.MODEL, arm__in=(0, arm))
    file = models.order_by("-arm").first()
    return {"file": file, "arm": file.arm if file else arm} | _model_view(file, expires_s)


def _model_view(file: TaskFile | None, expires_s: int | None) -> dict[str, Any]:
    if file is None or file.purged_at is not None:
        return _refusal(gettext("The uploaded model has been removed from the server."))
    if file.stored_at is None:
        return _refusal(gettext("The model has not been uploaded yet."))
    limit = settings.MODEL_VIEW_LIMIT_BYTES
    if file.size_bytes > limit:
        mib = limit // 1024**2
        return _refusal(
            gettext(
                "The model is larger than the limit of %(limit)s MiB for display in the browser."
            )
            % {"limit": mib}
        )
    head = storage.read_start(file.object_key, size_bytes=FORM_BYTES)
    form = model_form(head)
    if form != "v2":
        return _refusal(_why_not(form))
    return {
        "address": storage.presign_get(file.object_key, expires_s=expires_s),
        "name": file.name,
        "size_bytes": file.size_bytes,
        "begin": graph_offset(head),
        "end": graph_end(head),
    }


def arm_of(parameters: QueryDict) -> int:
    """Return the arm that a query chooses; the baseline by default."""
    return parse_int(parameters.get("arm", ""), maximum=MOST_ARMS - 1) or 0


def model_times(task: Task, arm: int = 0) -> dict[str, Any]:
    """Return {"nodes": {name: [row of the table, time, colour class]}, "scale"} of the last result
    of a model; empty without one, and for other arms than the baseline.

    Nodes of a model are known by the names of their output tensors, which MegEngine keeps when it
    runs the model. A name that several variables have is left out.
    """
    if arm:
        return {}
    profile = Profile.objects.filter(attempt__task=task).order_by("-attempt__number").first()
    try:
        data = profile_data(profile) if profile else None
    except DomainError:
        # the page of the result says why its data cannot be read
        data = None
    if data is None:
        return {}
    side = chart_side(data)
    colours = colouring(data, "time", side)
    classes, texts = colours.classes(colours.values)
    rows = data.graph.operators.row
    found: dict[str, int] = {}
    repeated = set[str]()
    variables = data.graph.variables
    for name, operator in zip(variables.names, variables.producer.tolist(), strict=True):
        row = MISSING if operator == MISSING else int(rows[operator])
        if row == MISSING or classes[row] == MISSING:
            continue
        if name in found:
            repeated.add(name)
        found[name] = row
    nodes = {
        name: [row, colours.texts([float(colours.values[row])])[0], f"heat{classes[row]}"]
        for name, row in found.items()
        if name not in repeated
    }
    return {"nodes": nodes, "scale": {"prefix": colours.prefix, "texts": texts}}


def _why_not(form: ModelForm) -> str:
    if form == "v1":
        return gettext(
            "The model is in the older format FBS, which the viewer cannot read. "
            'Dump it with dump_format="FBS_V2" to see it here.'
        )
    if form == "old":
        return gettext(
            "The model is in a very old format of MegEngine, which the viewer cannot read."
        )
    return gettext(
        "The model is packed, encrypted or not a plain MegEngine file, so the viewer cannot "
        "read it."
    )


def _refusal(reason: str) -> dict[str, Any]:
    return {"reason": reason}


def trace_file_view(original: Original | None, *, is_cut: bool) -> dict[str, Any]:
    """Return {"size_bytes", "is_cut"} of a trace as uploaded, or {"reason"} why it cannot be shown.

    original: None if the file was deleted
    is_cut: whether it ends in the middle of its list
    """
    if original is None:
        return {"reason": gettext("The file of the trace has been removed from the server.")}
    if original.size_bytes > TRACE_LIMIT_BYTES:
        text = gettext(
            "The trace is larger than the limit of %(limit)s MiB for display in the browser. "
            "You can open the file with Perfetto’s own tools."
        )
        return {"reason": text % {"limit": TRACE_LIMIT_BYTES // 1024**2}}
    return {"size_bytes": original.size_bytes, "is_cut": is_cut}
