"""User-facing messages about the queue: why a task waits, and for how long."""

import datetime
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext, ngettext, pgettext
from django.utils.translation import gettext_lazy as _

from tasks.scheduling.eligibility import RULES
from tasks.scheduling.queue_status import Cause, Hint, QueueFacts, RunningNow, Wait

#: causes that persist until a person intervenes or the device comes back
STUCK = {*(rule.code for rule in RULES), "no_match", "no_fit", "matches_away"}
#: messages by code of the cause; `%(since)s` and `%(until)s` are formatted times
CAUSES: dict[str, Any] = {
    "offline": _("%(worker)s has been offline since %(since)s."),
    "never_online": _("%(worker)s has never been online."),
    "shut_out": _(
        "The token of %(worker)s was revoked at %(since)s. Enrol the device again so that it "
        "accepts tasks."
    ),
    "drained": _("%(worker)s accepts no new tasks: an administrator took it out of service."),
    "held": _("%(worker)s has been quarantined since %(since)s: %(reason)s"),
    "retired": _("%(worker)s has been retired."),
    "not_allowed": _("You no longer have access to %(worker)s."),
    "owner_not_allowed": _("The task’s owner no longer has access to %(worker)s."),
    "version_gone": _("MegEngine %(version)s is no longer installed on %(worker)s."),
    "version_broken": _("MegEngine %(version)s cannot be used on %(worker)s: %(problem)s"),
    "scripts_not_allowed": _("Users are not allowed to run scripts on %(worker)s."),
    "scripts_not_offered": _(
        "The agent on %(worker)s does not run scripts: its owner does not allow them, or it has "
        "no working sandbox."
    ),
    "script_needs_wheel": _(
        "MegEngine %(version)s on %(worker)s is a compiled load_and_run, which runs no scripts."
    ),
    "no_match": _(
        "None of the devices that the task’s owner can use meets all requirements of the task."
    ),
    "no_fit": _("None of the matching devices supports everything that the task requests."),
    "matches_away": _("No matching device accepts tasks at the moment: %(devices)s."),
    "paused": _("The last attempt failed due to an infrastructure error. Retrying at %(until)s."),
    "busy": _("%(worker)s is busy; this task is next."),
    "next": _("%(worker)s is idle. The task will start immediately."),
}


def cause_words(cause: Cause) -> str:
    """Return one sentence that explains why the task has not started."""
    if cause.code == "behind":
        text = ngettext(
            "%(before)s task is ahead of this one on %(worker)s.",
            "%(before)s tasks are ahead of this one on %(worker)s.",
            cause.data["before"],
        )
        return text % cause.data
    code = cause.code
    if code == "offline" and not cause.data["since"]:
        code = "never_online"
    elif code == "not_allowed" and not cause.data["is_own"]:
        code = "owner_not_allowed"
    return str(CAUSES[code]) % {name: _format(value) for name, value in cause.data.items()}


def hint_words(hint: Hint) -> str:
    """Return one sentence about a similar device that would start the task sooner."""
    data = {"worker": hint.worker.name, "value": hint.value}
    if hint.same == "chip":
        if hint.is_free:
            return gettext("%(worker)s with the same chip (%(value)s) is idle.") % data
        return gettext("%(worker)s with the same chip (%(value)s) has a shorter queue.") % data
    if hint.is_free:
        return gettext("%(worker)s with the same processor (%(value)s) is idle.") % data
    return gettext("%(worker)s with the same processor (%(value)s) has a shorter queue.") % data


def wait_words(wait: Wait | None) -> str:
    """Return a sentence with the expected time until the start; empty if it is unknown."""
    if wait is None:
        return ""
    if wait.p90_s < 1:
        return gettext("It starts immediately.")
    text = gettext("Expected start: in about %(p50)s; with 90 %% probability within %(p90)s.")
    return text % {"p50": rough(wait.p50_s), "p90": rough(wait.p90_s)}


def rough(seconds: float) -> str:
    """Format a rough duration: `40 s`, `3 min`, `2.5 h`, `4 d`."""
    if seconds < 90:
        return pgettext("duration", "%(n)s s") % {"n": max(1, round(seconds))}
    if seconds < 90 * 60:
        return pgettext("duration", "%(n)s min") % {"n": round(seconds / 60)}
    if seconds < 36 * 3600:
        return pgettext("duration", "%(n)s h") % {"n": f"{seconds / 3600:.1f}".removesuffix(".0")}
    return pgettext("duration", "%(n)s d") % {"n": f"{seconds / 86400:.1f}".removesuffix(".0")}


def running_words(running: RunningNow) -> str:
    """Return a short description of what occupies a slot, without time and task number."""
    if running.is_check:
        return gettext("a health check")
    return gettext("your task") if running.is_own else gettext("task of another user")


def queue_rows(facts: QueueFacts | None) -> dict[str, Any] | None:
    """Return the template context for the queue on a task's page and in the form."""
    if facts is None:
        return None
    is_stuck = bool({cause.code for cause in facts.causes} & STUCK)
    return {
        "position": facts.position,
        "is_stuck": is_stuck,
        "causes": [(cause.code, cause_words(cause)) for cause in facts.causes],
        "wait": wait_words(facts.wait),
        "wait_note": _wait_note(facts, is_stuck=is_stuck),
        "running": [(running_words(run), run.task_id, run.since) for run in facts.running],
        "hints": [(hint.worker, hint_words(hint)) for hint in facts.hints],
    }


def _wait_note(facts: QueueFacts, *, is_stuck: bool) -> str:
    """Return a sentence about the basis of the expected time, or why there is none."""
    if facts.wait is not None:
        return ngettext(
            "Based on the last %(n)s run on this device.",
            "Based on the last %(n)s runs on this device.",
            facts.wait.runs,
        ) % {"n": facts.wait.runs}
    if facts.causes[0].code == "next":
        return ""
    if is_stuck:
        return gettext("The start time is unknown until this is resolved.")
    return gettext("There is not enough history on this device for an estimate.")


def _format(value: Any) -> Any:
    """Format a datetime in the current time zone, with the date unless it is today."""
    if not isinstance(value, datetime.datetime):
        return value
    at = timezone.localtime(value)
    form = "%H:%M" if at.date() == timezone.localdate() else "%Y-%m-%d %H:%M"
    return f"{at:{form}} {at.tzname()}"
