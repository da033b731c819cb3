"""User preferences: language and time zone (`templates/base.html` applies the theme)."""

import zoneinfo
from functools import cache
from urllib.parse import unquote
from zoneinfo import ZoneInfo

from django.conf import settings
from django.utils import translation

from accounts.models import User

#: cookie with the browser's time zone
COOKIE = "tz"
#: regions of the tz database that are not offered
_ODD_REGIONS = {"Etc", "SystemV", "US", "posix", "right"}


@cache
def time_zones() -> tuple[str, ...]:
    """Return the names of the time zones that are offered, sorted, with UTC first."""
    names = (name for name in zoneinfo.available_timezones() if "/" in name)
    return ("UTC", *sorted(name for name in names if name.split("/")[0] not in _ODD_REGIONS))


def find_zone(name: str) -> ZoneInfo | None:
    """Return the time zone with this name; None if there is none. The name is untrusted."""
    return ZoneInfo(name) if name in _zone_names() else None


def user_time_zone(user: User | None, cookie: str = "") -> ZoneInfo | None:
    """Return the user's time zone, or else the browser's; None if neither is known.

    cookie: value of the cookie `COOKIE`, possibly percent-encoded
    """
    chosen = find_zone(user.time_zone) if user else None
    return chosen or find_zone(unquote(cookie))


def activate_language(user: User) -> str | None:
    """Activate the user's language in this thread; return it, or None if none is set."""
    if user.language not in dict(settings.LANGUAGES):
        return None
    translation.activate(user.language)
    return user.language


@cache
def _zone_names() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())
