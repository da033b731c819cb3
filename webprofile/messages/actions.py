"""The reader's words for grants, and for several rows by their names."""

from collections.abc import Sequence

from django.utils.translation import gettext, ngettext

MOST_NAMES = 10


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
