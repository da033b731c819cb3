"""The reader's words for what administrators did: what is so now, of one row or of several."""

from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext, ngettext, ngettext_lazy

MOST_NAMES = 10

#: by noun and act, when something changed
DONE: dict[str, Any] = {
    "worker.drain": ngettext_lazy(
        "%(names)s is drained: it gets no new tasks, and what runs there goes on.",
        "%(names)s are drained: they get no new tasks, and what runs there goes on.",
        "count",
    ),
    "worker.resume": ngettext_lazy(
        "%(names)s gets tasks again.", "%(names)s get tasks again.", "count"
    ),
    "worker.health_check": ngettext_lazy(
        "Health check asked for: %(names)s. It runs when the device is free.",
        "Health checks asked for: %(names)s. Each runs when its device is free.",
        "count",
    ),
    "worker.publish": ngettext_lazy(
        "%(names)s is public: every user may choose it.",
        "%(names)s are public: every user may choose them.",
        "count",
    ),
    "worker.hide": ngettext_lazy(
        "%(names)s is private: only those may choose it to whom it is granted.",
        "%(names)s are private: only those may choose them to whom they are granted.",
        "count",
    ),
    "worker.allow_scripts": ngettext_lazy(
        "%(names)s may run scripts, as soon as its agent's configuration allows them too.",
        "%(names)s may run scripts, as soon as their agents' configurations allow them too.",
        "count",
    ),
    "worker.forbid_scripts": ngettext_lazy(
        "%(names)s starts no more scripts.", "%(names)s start no more scripts.", "count"
    ),
    "worker.revoke": ngettext_lazy(
        "The agent of %(names)s is shut out until it is enrolled again.",
        "The agents of %(names)s are shut out until they are enrolled again.",
        "count",
    ),
    "worker.retire": ngettext_lazy(
        "%(names)s is out of service for good.", "%(names)s are out of service for good.", "count"
    ),
    "user.promote": ngettext_lazy(
        "%(names)s is an administrator now.", "%(names)s are administrators now.", "count"
    ),
    "user.demote": ngettext_lazy(
        "%(names)s is no administrator any more.",
        "%(names)s are no administrators any more.",
        "count",
    ),
    "user.end_sessions": ngettext_lazy(
        "%(names)s is logged out. The session that you use now stays.",
        "%(names)s are logged out. The session that you use now stays.",
        "count",
    ),
    "user.remove_second_factor": ngettext_lazy(
        "%(names)s logs in by the password alone now.",
        "%(names)s log in by the password alone now.",
        "count",
    ),
    "user.deactivate": ngettext_lazy("%(names)s is shut out.", "%(names)s are shut out.", "count"),
    "user.reactivate": ngettext_lazy(
        "%(names)s may log in again.", "%(names)s may log in again.", "count"
    ),
}
#: when it was so before
UNCHANGED: dict[str, Any] = {
    "worker.drain": ngettext_lazy(
        "%(names)s was drained before.", "%(names)s were drained before.", "count"
    ),
    "worker.resume": ngettext_lazy(
        "%(names)s was in service before.", "%(names)s were in service before.", "count"
    ),
    "worker.publish": ngettext_lazy(
        "%(names)s was public before.", "%(names)s were public before.", "count"
    ),
    "worker.hide": ngettext_lazy(
        "%(names)s was private before.", "%(names)s were private before.", "count"
    ),
    "worker.allow_scripts": ngettext_lazy(
        "%(names)s was allowed to run scripts before.",
        "%(names)s were allowed to run scripts before.",
        "count",
    ),
    "worker.forbid_scripts": ngettext_lazy(
        "%(names)s was not allowed to run scripts.",
        "%(names)s were not allowed to run scripts.",
        "count",
    ),
    "worker.revoke": ngettext_lazy(
        "The agent of %(names)s was shut out before.",
        "The agents of %(names)s were shut out before.",
        "count",
    ),
    "worker.retire": ngettext_lazy(
        "%(names)s was retired before.", "%(names)s were retired before.", "count"
    ),
    "user.promote": ngettext_lazy(
        "%(names)s was an administrator before.", "%(names)s were administrators before.", "count"
    ),
    "user.demote": ngettext_lazy(
        "%(names)s was no administrator.", "%(names)s were no administrators.", "count"
    ),
    "user.end_sessions": ngettext_lazy(
        "There was no session of %(names)s to end.",
        "There were no sessions of %(names)s to end.",
        "count",
    ),
    "user.deactivate": ngettext_lazy(
        "%(names)s was shut out before.", "%(names)s were shut out before.", "count"
    ),
    "user.reactivate": ngettext_lazy(
        "%(names)s was not shut out.", "%(names)s were not shut out.", "count"
    ),
}


def act_words(act: str, names: Sequence[str], *, changed: bool) -> str:
    """What is so now; act: such as `worker.drain`."""
    texts = DONE if changed else UNCHANGED
    return str(texts[act] % {"count": len(names), "names": listed(names)})


def grant_words(count: int, *, adds: bool) -> str:
    """How many grants, each of one device to one user, are new or gone."""
    if count == 0:
        return gettext("Nothing to change: it was so before.")
    if adds:
        text = ngettext("%(count)s permission given.", "%(count)s permissions given.", count)
    else:
        text = ngettext("%(count)s permission taken.", "%(count)s permissions taken.", count)
    return text % {"count": count}


def listed(names: Sequence[str]) -> str:
    """The first ten by name, the rest as a number."""
    shown, more = names[:MOST_NAMES], len(names) - MOST_NAMES
    text = ", ".join(shown)
    if more > 0:
        text += " " + ngettext("and %(count)d more", "and %(count)d more", more) % {"count": more}
    return text
