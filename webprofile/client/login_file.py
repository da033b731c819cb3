"""Site and access token of the client, from environment variables or a private file."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from webprofile.client.errors import UsageError

#: for CI, instead of a login
SITE_VARIABLE = "WEBPROFILE_SITE"
TOKEN_VARIABLE = "WEBPROFILE_TOKEN"


@dataclass(frozen=True)
class Login:
    """A site's address, without a slash at its end, and the token for it."""

    site: str
    token: str
    email: str = ""


def login_path(environment: Mapping[str, str]) -> Path:
    """Return the path of the login file in the user's configuration folder (XDG Base Directory)."""
    home = environment.get("XDG_CONFIG_HOME", "")
    folder = Path(home) if home.startswith("/") else Path.home() / ".config"
    return folder / "webprofile" / "login.json"


def login_read(environment: Mapping[str, str]) -> Login:
    """Read the login; environment variables override the file.

    Raises UsageError if there is neither.
    """
    stored = _stored(login_path(environment))
    site = environment.get(SITE_VARIABLE, "") or stored.get("site", "")
    token = environment.get(TOKEN_VARIABLE, "")
    if not token and site.rstrip("/") == stored.get("site", ""):
        # the stored token is only for the stored site
        token = stored.get("token", "")
    if not site or not token:
        raise UsageError(
            f"Not logged in. Run webprofile login, or set {SITE_VARIABLE} and {TOKEN_VARIABLE}."
        )
    return Login(site_checked(site), token_checked(token), stored.get("email", ""))


def login_write(login: Login, environment: Mapping[str, str]) -> Path:
    """Store a login in a file that is created with mode 0600; return its path."""
    path = login_path(environment)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(login), file)
    part.replace(path)
    return path


def login_forget(environment: Mapping[str, str]) -> None:
    login_path(environment).unlink(missing_ok=True)


def site_checked(site: str) -> str:
    """Return a site's address without a slash at its end; raise UsageError if it is invalid."""
    site = site.strip().rstrip("/")
    scheme, _, rest = site.partition("://")
    try:
        has_host = bool(urlsplit(site).hostname) and urlsplit(site).port != 0
    except ValueError:  # no number as port, or an open bracket
        has_host = False
    if scheme not in {"http", "https"} or not has_host or any(c in rest for c in " @?#/"):
        raise UsageError(f"“{site}” is not the URL of a site, such as https://profile.example.com")
    return site


def token_checked(token: str) -> str:
    """Return a token without surrounding spaces and line breaks; raise UsageError if it is none."""
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable():
        raise UsageError("This is not an access token.")
    return token


def is_open_to_listeners(site: str) -> bool:
    """Return whether requests to the site cross a network without encryption."""
    host = urlsplit(site).hostname or ""
    return site.startswith("http://") and host not in {"localhost", "127.0.0.1", "::1"}


def _stored(path: Path) -> dict[str, str]:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    return stored if isinstance(stored, dict) else {}
