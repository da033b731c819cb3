"""Admin site: each function renders one fact about a device as text or HTML."""

import datetime
from typing import Any

from django.contrib import admin
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from profiles.presenters.formatting import bytesize
from tasks.lifecycle.reasons import held_words
from webprofile.templatetags.moments import local_and_utc_text
from workers.heartbeats import HeartbeatStatus, heartbeat_status
from workers.models import Runtime, Worker
from workers.releases import is_behind
from workers.selectors import labels_of
from workers.status import DeviceStatus, status_of

#: shapes repeat the meaning of the colours: a circle, a triangle, a square, a ring
_SHAPES = {
    HeartbeatStatus.ON_TIME: "●",
    HeartbeatStatus.LATE: "▲",
    HeartbeatStatus.LOST: "■",
    HeartbeatStatus.NEVER: "○",
}

#: CSS modifier of each status in which a device is not in service
_KINDS = {
    DeviceStatus.RETIRED: "off",
    DeviceStatus.DRAINED: "off",
    DeviceStatus.HELD: "held",
    DeviceStatus.SHUT_OUT: "off",
}


@admin.display(description=gettext_lazy("heartbeat"), ordering="last_heartbeat__last_seen_at")
def heartbeat(worker: Worker) -> SafeString | str:
    """Return a coloured shape, the heartbeat status, and the time since the last heartbeat."""
    if worker.retired_at:
        return "–"
    status = heartbeat_status(worker)
    at = worker.last_seen_at
    return format_html(
        '<span class="heartbeat heartbeat--{}"><span aria-hidden="true">{}</span> '
        '<span class="heartbeat__state">{}</span>{}</span>',
        status.value,
        _SHAPES[status],
        status.label,
        format_html(
            ' <time class="heartbeat__time" datetime="{}" title="{}">{}</time>',
            at.isoformat(),
            " · ".join(dict.fromkeys(local_and_utc_text(at))),
            ago(at),
        )
        if at
        else "",
    )


def ago(at: datetime.datetime) -> str:
    """Return the time since `at`, in the largest unit of which at least two have passed."""
    seconds = max(0, int((timezone.now() - at).total_seconds()))
    if seconds < 120:
        return _("%(n)s s ago") % {"n": seconds}
    if seconds < 2 * 3600:
        return _("%(n)s min ago") % {"n": seconds // 60}
    if seconds < 48 * 3600:
        return _("%(n)s h ago") % {"n": seconds // 3600}
    return _("%(n)s days ago") % {"n": seconds // 86400}


def state(worker: Worker) -> SafeString:
    """Return "in service", or the status of a device that is not, with the reason if it is held."""
    status = status_of(worker)
    kind = _KINDS.get(status, "on")
    word = status.label if status in _KINDS else _("in service")
    reason = held_words(worker) if status == DeviceStatus.HELD else ""
    note = format_html('<span class="cell__note">{}</span>', reason) if reason else ""
    return format_html('<span class="mark mark--{}">{}</span>{}', kind, word, note)


def both(first: str, second: str) -> SafeString | str:
    """Return two facts, one below the other, without those that are unknown."""
    facts = ((fact,) for fact in (first, second) if fact != "–")
    return format_html_join("", '<div class="cell__fact">{}</div>', facts) or "–"


def access(worker: Worker) -> str:
    return _("public") if worker.is_public else _("private")


def scripts(worker: Worker) -> str:
    """Return whether users may run programs on a device, and otherwise what is missing."""
    if worker.takes_scripts:
        return _("users can run scripts, in a sandbox")
    if worker.allows_scripts:
        return _(
            "allowed on this device, but not by the agent: set allow = true under [scripts] in "
            "agent.toml, which a running agent applies automatically. A working sandbox is "
            "required; “agent doctor” on the device lists what is missing"
        )
    if worker.offers_scripts:
        return _(
            "not allowed by an administrator, although the configuration of the agent allows them"
        )
    return _("no")


def address(worker: Worker) -> SafeString | str:
    facts = worker.facts
    if not facts.get("ip") and not facts.get("hostname"):
        return "–"
    return format_html(
        '{}<span class="cell__note">{}</span>', facts.get("ip") or "–", facts.get("hostname", "")
    )


def platform(worker: Worker) -> SafeString | str:
    facts = worker.facts
    if not facts.get("platform"):
        return "–"
    return format_html(
        '{}<span class="cell__note">{}</span>', facts["platform"], facts.get("machine", "")
    )


@admin.display(description=gettext_lazy("MegEngine"))
def versions(worker: Worker) -> SafeString | str:
    """Return the MegEngine versions; those that cannot be used are struck out, with a reason."""
    parts = [
        (
            "version version--broken" if runtime.problem else "version",
            runtime.problem_text,
            runtime.version,
            format_html(' <span class="visually-hidden">{}</span>', _("(cannot be used)"))
            if runtime.problem
            else "",
        )
        for runtime in worker.runtimes.all()
    ]
    return format_html_join(" ", '<span class="{}" title="{}">{}{}</span>', parts) or "–"


@admin.display(description=gettext_lazy("agent"), ordering="agent_version")
def agent(worker: Worker) -> SafeString | str:
    if not worker.agent_version:
        return "–"
    if not is_behind(worker.agent_version):
        return worker.agent_version
    note = format_html(
        '<span class="cell__note">{}</span>',
        _("different from the version that this site provides"),
    )
    return format_html("{}{}", worker.agent_version, note)


def labels(worker: Worker) -> SafeString | str:
    pairs = labels_of(worker).items()
    return format_html_join(" ", '<span class="label">{}: {}</span>', pairs) or "–"


def pools(worker: Worker) -> SafeString | str:
    links = (
        (reverse("admin:workers_pool_change", args=[pool.pk]), pool.name)
        for pool in worker.pools.all()
    )
    return format_html_join(", ", '<a href="{}">{}</a>', links) or "–"


@admin.display(description=gettext_lazy("running"))
def current(worker: Any) -> SafeString | str:
    """Return links to the tasks that a device runs, with their owners.

    worker: a row of `WorkerAdmin.get_queryset`
    """
    links = (
        (
            reverse("tasks:detail", args=[attempt.task_id]),
            attempt.task_id,
            attempt.task.owner.email,
        )
        for attempt in worker.live_attempts
    )
    line = '<a href="{}">#{}</a><span class="cell__note">{}</span>'
    return format_html_join("", line, links) or "–"


def peak_performance(runtime: Runtime) -> str:
    """Return the measured peak performance: GFLOP/s by dtype, and GB/s of copies."""
    return "; ".join(map(_peaks_of_device, runtime.roofs)) or "–"


def _peaks_of_device(roofs: dict[str, Any]) -> str:
    peaks = [f"{name} {flops / 1e9:.4g}" for name, flops in roofs["peak_flops"].items()]
    return f"{roofs['device']}: {', '.join(peaks)} GFLOP/s, {roofs['copy_bytes_s'] / 1e9:.4g} GB/s"


def _cores(count: int | None) -> str:
    if not count:
        return ""
    return ngettext("%(n)s core", "%(n)s cores", count) % {"n": count}


def hardware(worker: Worker) -> str:
    """Return CPU, cores, memory and GPUs in one line."""
    facts = worker.facts
    size = facts.get("memory_bytes")
    parts = [
        facts.get("cpu_model", ""),
        _cores(facts.get("cores")),
        bytesize(size) if size else "",
        *(gpu.get("name", "") for gpu in facts.get("gpus", ())),
    ]
    return " · ".join(filter(None, parts)) or "–"
