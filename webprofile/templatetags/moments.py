"""Moments in the reader's time."""

import datetime as dt

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

register = template.Library()


@register.simple_tag
def moment(
    at: dt.datetime | None, precision: str = "minutes", ago: bool = False
) -> SafeString | str:
    """A <time> in the reader's zone, with UTC as tooltip; where the zone is unknown, UTC.

    `js/format.js` turns the latter into the browser's time.
    precision: days, minutes or seconds; ago: while it is recent, `js/ago.js` says how long ago
    """
    if at is None:
        return ""
    form = {"days": "%Y-%m-%d", "minutes": "%Y-%m-%d %H:%M", "seconds": "%Y-%m-%d %H:%M:%S"}
    utc = f"{at.astimezone(dt.UTC):{form[precision]}} UTC"
    mark = mark_safe(" data-ago") if ago else ""
    if timezone.get_current_timezone_name() == "UTC":
        return format_html('<time datetime="{}"{}>{}</time>', at.isoformat(), mark, utc)
    local = f"{timezone.localtime(at):{form[precision]}}"
    form_html = '<time datetime="{}"{} title="{}">{}</time>'
    return format_html(form_html, at.isoformat(), mark, utc, local)
