"""User-facing texts for grants and for lists of names."""

from collections.abc import Sequence

from django.utils.translation import gettext, ngettext

MOST_NAMES = 10


def grant_words(count: int, *, adds: bool) -> str:
    """Return a message with the number of grants that were added or removed.

    A grant gives one device to one user.
    """
    if count == 0:
        return gettext("Nothing to change: it was so before.")
    if adds:
        text = ngettext("%(count)s permission given.", "%(count)s permissions given.", count)
    else:
        text = ngettext("%(count)s permission taken.", "%(count)s permissions taken.", count)
    return text % {"count": count}


def listed(names: Sequence[str]) -> str:
    """Return the first ten names and the number of the others."""
    shown, more = names[:MOST_NAMES], len(names) - MOST_NAMES
    text = ", ".join(shown)
    if more > 0:
        text += " " + ngettext("and %(count)d more", "and %(count)d more", more) % {"count": more}
    return text
