"""Rows of the permission table by route, and the list of all routes that it must contain."""

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any
from urllib.parse import quote

from django.urls import URLPattern, get_resolver

from webprofile.routing import websocket
from webprofile.tests.permission_page import PermissionRow, read_table

TABLE = read_table()
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
#: ids and names that do not exist
ABSENT = {int: 987654321, str: "no-such-thing"}
#: `<int:task_id>`, or a named group of a regular expression
_PART = re.compile(r"<(?:\w+:)?(\w+)>|\(\?P<(\w+)>(?:[^()\[\]]|\[[^]]*\])+\)")


@dataclass(frozen=True)
class Route:
    """A URL route or WebSocket route.

    name: its name with namespaces, or the pattern if it has no name
    is_page: not a resource of the API
    """

    name: str
    pattern: str
    methods: tuple[str, ...] = ()
    is_page: bool = False

    def __str__(self) -> str:
        return self.name

    def address(self, values: dict[str, Any], absent: AbstractSet[str] = frozenset()) -> str:
        """Return the path with a value for each parameter; those in `absent` do not exist."""

        def filled(part: "re.Match[str]") -> str:
            name = part[1] or part[2]
            value = _value_of(self.name, name, values)
            return quote(str(ABSENT[type(value)] if name in absent else value), safe="/")

        return _PART.sub(filled, self.pattern).replace("^.*$", "nothing").strip("^$")

    @property
    def parts(self) -> list[str]:
        """Return the names of the parameters in order."""
        return [part[1] or part[2] for part in _PART.finditer(self.pattern)]


@cache
def row_of(route: Route, method: str) -> PermissionRow | None:
    """Return the first row that names the route, or None."""
    return next((r for r in TABLE.rows if any(_matches(n, route, method) for n in r.names)), None)


def unused(routes: list[Route]) -> list[str]:
    """Return the names in the table that are the first match of no route."""
    names = [name for row in TABLE.rows for name in row.names]
    used = {
        next((name for name in names if _matches(name, route, method)), "")
        for route in routes
        for method in route.methods or ("",)
    }
    return [name for name in names if name not in used]


def web_routes() -> list[Route]:
    """Return all URL routes of the site."""
    return list(dict.fromkeys(_walk(get_resolver(), "/", ())))


def socket_routes() -> list[Route]:
    return [Route(pattern, pattern) for pattern in _sockets(websocket)]


def _matches(name: str, route: Route, method: str) -> bool:
    method_name, _, rest = name.rpartition(" ")
    return method_name in ("", method) and fnmatchcase(route.name, rest)


def _value_of(name: str, part: str, values: dict[str, Any]) -> Any:
    for key, value in values.items():
        pattern, dot, key_part = key.rpartition(".")
        if dot and key_part == part and fnmatchcase(name, pattern):
            return value
    return values[part]


def _walk(resolver: Any, prefix: str, spaces: tuple[str, ...]) -> Iterator[Route]:
    for entry in resolver.url_patterns:
        pattern = prefix + str(entry.pattern)
        if isinstance(entry, URLPattern):
            name = ":".join([*spaces, entry.name]) if entry.name else pattern
            view = entry.callback
            yield Route(
                name, pattern.replace("/^", "/"), _methods_of(view), not hasattr(view, "cls")
            )
        else:
            inner = (*spaces, entry.namespace) if entry.namespace else spaces
            yield from _walk(entry, pattern, inner)


def _methods_of(view: Any) -> tuple[str, ...]:
    """Return the methods of a view. Pages only get GET and POST (and HEAD)."""
    if actions := getattr(view, "actions", None):  # a view set
        return tuple(method for method in METHODS if method.lower() in actions)
    view_class = getattr(view, "cls", None)
    if view_class is None:
        return METHODS[:2]
    return tuple(method for method in METHODS if hasattr(view_class, method.lower())) or METHODS


def _sockets(router: Any) -> Iterator[str]:
    for route in _inside(router, "routes").routes:
        leaf = _inside(route.callback, "routes", "consumer_class")
        if hasattr(leaf, "consumer_class"):
            yield f"/{route.pattern}"
        else:
            yield from _sockets(leaf)


def _inside(wrapped: Any, *marks: str) -> Any:
    """Unwrap middlewares until an application has one of these attributes."""
    while not any(hasattr(wrapped, mark) for mark in marks):
        wrapped = getattr(wrapped, "application", None) or wrapped.inner
    return wrapped
