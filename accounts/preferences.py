"""What a user has chosen of how the site looks: language, time zone, colours."""

import zoneinfo
from functools import cache
from urllib.parse import unquote
from zoneinfo import ZoneInfo

from django.conf import settings
from django.utils import translation

from accounts.models import User

#: in which a browser tells its own zone
COOKIE = "tz"
#: regions of the tz database that no reader looks for
_ODD_REGIONS = {"Etc", "SystemV", "US", "posix", "right"}


@cache
def time_zones() -> tuple[str, ...]:
    """Names of places that this machine knows, in order; UTC first."""
    places = (name.split("/") for name in zoneinfo.available_timezones() if "/" in name)
    return ("UTC", *sorted("/".join(p) for p in places if p[0] not in _ODD_REGIONS))


def zone_named(name: str) -> ZoneInfo | None:
    """The zone of a name that came from outside, which may be any text."""
    return ZoneInfo(name) if name in _zone_names() else None


def zone_of(user: User | None, cookie: str = "") -> ZoneInfo | None:
    """The zone for a reader's dates: the chosen one, else the browser's; None if neither is known.

    cookie: what the browser says, perhaps percent-encoded
    """
    chosen = zone_named(user.time_zone) if user else None
    return chosen or zone_named(unquote(cookie))


def language_activate(user: User) -> str | None:
    """Speak the user's language in this thread; None if none was chosen."""
    if user.language not in dict(settings.LANGUAGES):
        return None
    translation.activate(user.language)
    return user.language


@cache
def _zone_names() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())
