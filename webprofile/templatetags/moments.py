"""Template tags for times and durations in the user's time zone."""

import datetime as dt

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

register = template.Library()


_FORMS = {"days": "%Y-%m-%d", "minutes": "%Y-%m-%d %H:%M", "seconds": "%Y-%m-%d %H:%M:%S"}


@register.simple_tag
def moment(
    at: dt.datetime | None, precision: str = "minutes", ago: bool = False
) -> SafeString | str:
    """Render a <time> element in the user's time zone, with UTC as tooltip.

    If the zone is unknown, the time is in UTC and `js/format.js` converts it in the browser.

    precision: days, minutes or seconds
    ago: whether `js/ago.js` shows a recent time as a relative one
    """
    if at is None:
        return ""
    local, utc = local_and_utc_text(at, precision)
    mark = mark_safe(" data-ago") if ago else ""
    if local == utc:
        return format_html('<time datetime="{}"{}>{}</time>', at.isoformat(), mark, utc)
    form_html = '<time datetime="{}"{} title="{}">{}</time>'
    return format_html(form_html, at.isoformat(), mark, utc, local)


@register.simple_tag
def elapsed(since: dt.datetime | None) -> SafeString | str:
    """Render the time since a moment (`24 s`, `3 min 12 s`, `1 h 5 min`); `js/ago.js` counts on."""
    if since is None:
        return ""
    now = timezone.now()
    words = long_duration((now - since).total_seconds())
    # from the server's clock, since the browser's clock may be wrong
    form_html = '<span data-since="{}" data-now="{}">{}</span>'
    return format_html(form_html, since.isoformat(), now.isoformat(), words)


@register.filter
def long_duration(value_s: float | None) -> str:
    """Format a duration in whole seconds: `24 s`, `3 min 12 s`, `1 h 5 min`; empty for None."""
    if value_s is None:
        return ""
    total = max(0, int(value_s))
    hours, minutes, seconds = total // 3600, total // 60 % 60, total % 60
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def local_and_utc_text(at: dt.datetime, precision: str = "seconds") -> tuple[str, str]:
    """Return the texts of a time in the user's zone and in UTC; UTC for both if it is unknown."""
    utc = f"{at.astimezone(dt.UTC):{_FORMS[precision]}} UTC"
    if timezone.get_current_timezone_name() == "UTC":
        return utc, utc
    return f"{timezone.localtime(at):{_FORMS[precision]}}", utc
