"""Template filters for sessions: the browser's name and the client's address."""

import re

from django import template
from django.utils.translation import gettext

from accounts.sessions import NO_ADDRESS

register = template.Library()

#: tokens of User-Agent headers with names of browsers; the first match counts, because most
#: browsers also name those that they descend from
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
    """Return browser and system of a User-Agent header, such as "Firefox 140 · Linux".

    For an unknown browser, return the first 60 characters of the header.
    """
    for token, name in _BROWSERS:
        if match := re.search(rf"{token}[A-Za-z]{{0,40}}/(\d{{1,9}})", user_agent):
            system = next((text for part, text in _SYSTEMS if part in user_agent), "")
            return " · ".join(filter(None, [f"{name} {match[1]}", system]))
    return user_agent[:60] or "–"


@register.filter
def place(address: str) -> str:
    """Return the IP address of a session, or a text if it is unknown."""
    return gettext("unknown") if address == NO_ADDRESS else address
