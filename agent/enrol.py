"""`agent enrol`: exchange a one-time code for the device's token, and write the configuration."""

import json
import socket
from collections.abc import Sequence
from pathlib import Path

import httpx2
from pydantic import BaseModel, ValidationError

from agent.config import RuntimeEntry, server_address
from agent.runtimes.config_file import replace_file

_NEXT = {
    "code_used": "a code works once: an administrator makes a new one on the device's page",
    "code_expired": "an administrator makes a new one on the device's page",
    "code_unknown": "check the code for a typing mistake, or make a new one on the device's page",
}


class EnrolError(RuntimeError):
    """Enrolment failed; the text names the cause and the next step."""


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
) -> str:
    """Enrol the device; return the worker's name. Raises EnrolError, ConfigError.

    `config` is the file to write, with the keys `spool` and `update`; `force` replaces an existing
    one. The code can be used once, so everything else is checked before it is sent to the server.
    """
    server = server_address(server)
    token_file, draft = config.with_suffix(".token"), config.with_suffix(".token.new")
    for path in (config, token_file):
        if path.exists() and not force:
            raise EnrolError(f"{path} exists: use --force to replace it")
    try:
        config.parent.mkdir(parents=True, exist_ok=True)
        # check that the folder is writable before the code is used; keep the old token until then
        replace_file(draft, b"", mode=0o600)
        response = _redeem(server, code)
        replace_file(token_file, f"{response.token}\n".encode(), mode=0o600)
        content = _to_toml(server, token_file.name, spool, runtimes, update=update)
        replace_file(config.resolve(), content.encode(), mode=0o600)
    except OSError as exc:
        raise EnrolError(f"{exc.filename or config}: {exc.strerror}") from exc
    finally:
        draft.unlink(missing_ok=True)
    return response.worker


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
    """Return the reason and the next step, with the message of the server if it is ours."""
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
    """Return the message for a server that is not MegEngine Web Profile."""
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
