"""Addresses in few classes: what metrics are told by, and what of a path may stand in a log."""

import re

#: the first part of a path; all others are "other"
_CLASSES = {
    "": "pages", "tasks": "tasks", "workers": "workers", "profiles": "profiles",
    "netron": "viewer", "perfetto": "viewer", "docs": "pages", "agent": "agent_files",
    "accounts": "accounts", "i18n": "pages", "admin": "admin", "static": "static",
    "favicon.ico": "static", "healthz": "probes", "readyz": "probes", "metrics": "probes",
}  # fmt: skip
_SOCKETS = {"agent": "agent", "tasks": "browser"}
#: asked every few seconds by machines: their answers say nothing new to who reads a log
QUIET = frozenset({"probes", "static", "heartbeats"})
#: keys of mails that let somebody in stand in the paths of these pages
_KEY = re.compile(r"(?<=/)[^/]{20,}")


def route_class(path: str) -> str:
    """One of some twenty words for the address of a request."""
    if path.startswith("/api/"):
        if path == "/api/agent/heartbeat/":
            return "heartbeats"
        return "api_agent" if path.startswith("/api/agent/") else "api"
    return _CLASSES.get(path.split("/", 2)[1], "other") if path.startswith("/") else "other"


def socket_kind(path: str) -> str:
    """`agent`, `browser` or `other`."""
    parts = path.split("/", 3)
    return _SOCKETS.get(parts[2], "other") if parts[1:2] == ["ws"] and len(parts) > 2 else "other"


def loggable(path: str) -> str:
    """A path without keys, and of bounded length; the query never belongs into a log."""
    if path.startswith("/accounts/"):
        path = _KEY.sub("*", path)
    return path[:200]
