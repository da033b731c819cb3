"""Checks of the site from outside: address, WebSockets, static files and the agent's files."""

import secrets
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.contrib.staticfiles.storage import staticfiles_storage
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import connect

from agent.protocol.messages import CloseCode
from webprofile.operations.healthcheck.finding import (
    Finding,
    broken,
    good,
    patience_s,
    reason,
    warning,
)
from webprofile.operations.healthcheck.web import Answer, ask
from webprofile.site_mark import HEADER, is_mark
from workers import releases

ADDRESS_STEP = "Start the web server, or correct SITE_URL."
SOCKETS_STEP = "Start the web server, or correct SITE_URL; see the proxy's log."
AGENT_STEP = "Run `make agent-bundle`, or correct AGENT_FOLDER."
_SOCKETS_STEP = "The proxy must forward /ws/ over HTTP/1.1 with the headers Upgrade and Connection."


def address() -> Finding:
    """Check that SITE_URL leads to a server with the same SECRET_KEY."""
    question = secrets.token_hex(8)
    answer = ask("GET", f"{settings.SITE_URL}/healthz?mark={question}")
    if answer.status == 200 and is_mark(question, answer.headers.get(HEADER, "")):
        return good(f"{settings.SITE_URL} leads to this site.")
    return _other_address(answer)


def sockets() -> Finding:
    """Open the agent's WebSocket with an unknown token and expect the close code 4401."""
    url = "ws" + settings.SITE_URL.removeprefix("http") + "/ws/agent/"
    headers = {"Authorization": "Bearer doctor"}
    try:
        with connect(
            url, additional_headers=headers, open_timeout=patience_s(), proxy=None
        ) as socket:
            socket.recv(timeout=patience_s())
    except ConnectionClosed as error:
        if error.rcvd is not None and error.rcvd.code == CloseCode.UNKNOWN_TOKEN:
            return good("WebSockets work.")
        return broken(f"A WebSocket opens, but is closed: {reason(error)}", SOCKETS_STEP)
    except InvalidHandshake as error:
        text = f"{settings.SITE_URL} does not accept WebSockets: {reason(error)}"
        return broken(f"{text}. Devices cannot connect.", _SOCKETS_STEP)
    return broken("A WebSocket opens, but another site answers.", SOCKETS_STEP)


def static_files() -> Finding:
    """Check that every static file of this code was collected in its current version."""
    if not hasattr(staticfiles_storage, "hashed_files"):
        return good("Files are served from their sources.")
    step = "Run `manage.py collectstatic`, then restart the site."
    if not staticfiles_storage.hashed_files:
        return broken(f"No files are collected in {settings.STATIC_ROOT}: pages fail.", step)
    names = [(name, files) for finder in get_finders() for name, files in finder.list([])]
    missing = [name for name, _ in names if name not in staticfiles_storage.hashed_files]
    root = Path(settings.STATIC_ROOT)
    old = [
        name
        for name, files in names
        if name not in missing and (root / name).stat().st_size != files.size(name)
    ]
    if missing:
        return broken(f"Not collected: {_some(missing)}. Pages that use them fail.", step)
    if old:
        return broken(f"From another release: {_some(old)}.", step)
    return good(f"All {len(names)} files are collected.")


def _some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def agent_files() -> Finding:
    """Check that the site serves an agent that devices can install."""
    release = releases.served_release()
    folder = releases.release_folder()
    files = release.files if release else ()
    for path in (folder / releases.MANIFEST, *(folder / file.name for file in files)):
        if problem := _unreadable(path):
            step = "Give the system user of the site read permission."
            return broken(f"{path}: {problem}.", step)
    if release is None:
        return broken(f"There is no agent in {folder}: devices cannot install it.", AGENT_STEP)
    for file in files:
        path = folder / file.name
        if not path.is_file() or path.stat().st_size != file.size_bytes:
            return broken(f"{path} is missing or damaged.", AGENT_STEP)
    kinds = len(release.files)
    devices = "kinds of devices" if kinds > 1 else "kind of device"
    return good(f"Devices can install version {release.version}, for {kinds} {devices}.")


def _unreadable(path: Path) -> str:
    """Return why an existing file cannot be read; empty if it can be read or does not exist."""
    try:
        path.open("rb").close()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _other_address(answer: Answer) -> Finding:
    url = f"{settings.SITE_URL}/healthz"
    if answer.status == 200 and answer.headers.get(HEADER):
        text = f"{url} belongs to a site with another SECRET_KEY."
        return broken(text, "Give all servers of the site the same SECRET_KEY.")
    if answer.status in {301, 302, 307, 308}:
        target = answer.headers.get("Location", "")
        if target.split("?")[0] == url:
            step = "The proxy must set X-Forwarded-Proto: https."
            return broken(f"{url} redirects to itself.", step)
        return broken(f"{url} redirects to {target}.", "Set SITE_URL to that address.")
    if answer.status == 400:
        text = f"{url} returned 400: the server does not accept this host name."
        step = "Add the host to ALLOWED_HOSTS; the proxy must not change the header Host."
        return broken(text, step)
    if answer.status == 200:
        return warning(f"{url} answers, but not as expected of this release.", ADDRESS_STEP)
    return broken(f"{url} returned {answer.status}.", "See the logs of web server and proxy.")
