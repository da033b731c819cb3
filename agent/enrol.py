"""`agent enrol`: exchange a one-time code for the device's token, and write the configuration."""

import json
import socket
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import httpx2
from pydantic import BaseModel, ValidationError

from agent.config import RuntimeEntry, distinct_runtimes, server_address
from agent.runtimes.config_file import replace_file

_NEXT = {
    "code_used": "each code can be used only once: an administrator can create a new one on the "
    "device's page",
    "code_expired": "an administrator can create a new one on the device's page",
    "code_unknown": "check the code for typing errors, or create a new one on the device's page",
}


class EnrolError(RuntimeError):
    """Enrolment failed; the text contains the cause and the next step."""


class Enrolled(NamedTuple):
    """The worker's name, and whether an existing configuration was kept."""

    worker: str
    is_kept: bool


class _EnrolResponse(BaseModel):
    worker: str
    token: str


class _ErrorResponse(BaseModel):
    error: str
    message: str


def enrol_device(
    server: str,
    code: str,
    config: Path,
    *,
    spool: str,
    runtimes: Sequence[RuntimeEntry],
    force: bool,
    update: bool,
) -> Enrolled:
    """Enrol the device. Raises EnrolError, ConfigError.

    `config` is the file to write, with the keys `spool` and `update`. With `force`, an existing
    file for this server is kept with the settings of the device's owner, and gets the new token;
    any other file is replaced. The code can be used once, so everything else is checked before it
    is sent to the server.
    """
    server = server_address(server)
    distinct_runtimes(config, runtimes)
    kept = _token_file_of(config, server)
    token_file = kept or config.with_suffix(".token")
    draft = token_file.with_name(f"{token_file.name}.new")
    for path in (config, token_file):
        if path.exists() and not force:
            raise EnrolError(f"{path} exists: use --force to replace it")
    try:
        config.parent.mkdir(parents=True, exist_ok=True)
        # check that the folder is writable before the code is used; keep the old token until then
        replace_file(draft, b"", mode=0o600)
        response = _redeem(server, code)
        replace_file(token_file, f"{response.token}\n".encode(), mode=0o600)
        if kept is None:
            content = _to_toml(server, token_file.name, spool, runtimes, update=update)
            replace_file(config.resolve(), content.encode(), mode=0o600)
    except OSError as exc:
        raise EnrolError(f"{exc.filename or config}: {exc.strerror}") from exc
    finally:
        draft.unlink(missing_ok=True)
    return Enrolled(response.worker, is_kept=kept is not None)


def _token_file_of(config: Path, server: str) -> Path | None:
    """Return the path of the token file in an existing configuration for this server."""
    try:
        known = tomllib.loads(config.read_text(encoding="utf-8"))
        if server_address(str(known.get("server"))) != server:
            return None
    except (OSError, ValueError):
        return None  # there is none, or no agent could read it
    name = known.get("token_file")
    return config.resolve().parent / name if name and isinstance(name, str) else None


def _redeem(server: str, code: str) -> _EnrolResponse:
    try:
        response = httpx2.post(
            f"{server}/api/agent/enrol/",
            json={"code": code.strip(), "hostname": socket.gethostname()},
            timeout=30,
        )
    except httpx2.HTTPError as exc:
        raise EnrolError(unreachable(server, exc)) from exc
    if response.is_success:
        try:
            return _EnrolResponse.model_validate_json(response.content)
        except ValidationError as exc:
            raise EnrolError(not_ours(server, response.status_code)) from exc
    raise EnrolError(explain_refusal(server, response))


def explain_refusal(server: str, response: httpx2.Response) -> str:
    """Return the cause and the next step, with the server's message if it is our server."""
    try:
        error = _ErrorResponse.model_validate_json(response.content)
    except ValidationError:
        return not_ours(server, response.status_code)
    step = _NEXT.get(error.error, "")
    return f"the server refused the request: {error.message}" + (f" ({step})" if step else "")


def unreachable(server: str, error: Exception) -> str:
    """Return the message for a server that does not respond."""
    return f"{server} cannot be reached ({error}): check the URL, the network and any proxy"


def not_ours(server: str, status: int) -> str:
    """Return the message for an answer that is not from MegEngine Web Profile."""
    if status >= 500:  # of a proxy
        return f"{server} answered {status}: it may be restarting, try again in a minute"
    return f"{server} answered {status}, but is not MegEngine Web Profile: check the URL"


def _to_toml(
    server: str, token_file: str, spool: str, runtimes: Sequence[RuntimeEntry], *, update: bool
) -> str:
    # JSON's strings are valid in TOML
    lines = [
        f"server = {json.dumps(server)}",
        f"token_file = {json.dumps(token_file)}",
        f"spool = {json.dumps(spool)}",
    ]
    if update:
        lines.append("update = true")
    for entry in runtimes:
        lines += ["", "[[runtime]]"]
        lines += [f"{key} = {json.dumps(str(value))}" for key, value in entry if value]
    return "\n".join(lines) + "\n"
