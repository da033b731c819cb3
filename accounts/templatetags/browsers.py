"""Browsers, and where they are, in a reader's words."""

import re

from django import template
from django.utils.translation import gettext

from accounts.sessions import NO_ADDRESS

register = template.Library()

#: the first that fits; most browsers also name those that they came from
_BROWSERS = (
    ("Edg", "Edge"),
    ("OPR", "Opera"),
    ("SamsungBrowser", "Samsung Internet"),
    ("MicroMessenger", "WeChat"),
    ("Firefox", "Firefox"),
    ("Chrome", "Chrome"),
    ("CriOS", "Chrome"),
    ("Version", "Safari"),
)
_SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


@register.filter
def browser(user_agent: str) -> str:
    """ "Firefox 140 · Linux" of a User-Agent; its first 60 characters if it names no browser."""
    for mark, name in _BROWSERS:
        if found := re.search(rf"{mark}[A-Za-z]*/(\d+)", user_agent):
            system = next((text for part, text in _SYSTEMS if part in user_agent), "")
            return " · ".join(filter(None, [f"{name} {found[1]}", system]))
    return user_agent[:60] or "–"


@register.filter
def place(address: str) -> str:
    """The address of a session, if it is known."""
    return gettext("not known") if address == NO_ADDRESS else address
