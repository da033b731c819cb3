"""No log contains a secret after a task that uses all of them, at level DEBUG."""

import re
import sqlite3

import httpx2
import pytest

from webprofile.tests.end_to_end.runs import send, submit_form, watch

pytestmark = [pytest.mark.exhaustive, pytest.mark.megengine, pytest.mark.embedded]
#: signature of a presigned URL
SIGNATURE = re.compile(r"X-Amz-Signature=([0-9a-f]{16})")


def call_api(visitor, method, path, body=None, token=""):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    response = httpx2.request(
        method, f"{visitor.address}/api/v1/{path}", json=body, headers=headers, trust_env=False
    )
    return response.json() if response.content else {}


def use_secrets(site, visitor, testdata):
    """Use every kind of secret; return the secrets by name."""
    secrets = {
        "password": site.account["password"],
        "session": visitor._client.cookies["sessionid"],
    }
    model = testdata / "models" / "two_inputs.mge"
    folder = testdata / "inputs" / "two_inputs"
    data = {"data": folder / "data.npy", "mask": folder / "mask.npy"}
    task = send(visitor, model, data)
    assert watch(visitor, task)[0][-1] == "succeeded"
    location = visitor._client.get(f"/tasks/{task}/artifacts/log.txt").headers["Location"]
    secrets["presigned"] = SIGNATURE.search(location)[1]

    credentials = {"email": site.account["email"], "password": site.account["password"]}
    pair = call_api(visitor, "POST", "auth/token/", credentials)
    secrets |= {"access": pair["access"], "refresh": pair["refresh"]}
    renewed = call_api(visitor, "POST", "auth/token/refresh/", {"refresh": pair["refresh"]})
    secrets["renewed"] = renewed["access"]
    body = {"name": "x", "scopes": ["read"], "days": 1}
    created = call_api(visitor, "POST", "access-tokens/", body, renewed["access"])
    secrets["access token"] = created["secret"]
    call_api(visitor, "GET", "tasks/", token=created["secret"])
    hook = {"url": "https://127.0.0.1/secret-path", "events": ["task.finished"]}
    created = call_api(visitor, "POST", "me/webhooks/", hook, renewed["access"])
    secrets["webhook secret"] = created["secret"]
    call_api(visitor, "POST", f"me/webhooks/{created['id']}/deliveries/", token=renewed["access"])

    submit_form(visitor, "/accounts/reauthenticate/", password=site.account["password"])
    page = visitor.get("/accounts/2fa/totp/activate/").text
    if seed := re.search(r'value="([A-Z2-7]{32})"', page):
        secrets["seed of codes"] = seed[1]
    submit_form(visitor, "/accounts/2fa/totp/activate/", code="000000")
    submit_form(
        visitor, "/accounts/login/", login="alice@example.com", password="a wrong password 1"
    )
    secrets["wrong password"] = "a wrong password 1"
    code = re.search(r"mge_[\w-]+", site.manage("workers", "enrol", "this-machine"))
    if code:
        secrets["enrolment code"] = code[0]
    # an invalid token
    secrets["broken"] = "mwp_" + "brokenbroken" * 3 + "brok"
    call_api(visitor, "GET", "tasks/", token=secrets["broken"])
    return secrets


def stored_secrets(site):
    """Return the secrets that the site stores in files."""
    secrets = {}
    for path in site.home.rglob("*"):
        if path.is_file() and path.stat().st_size < 100_000 and "secret" in path.name:
            for number, secret in enumerate(re.findall(r"[A-Za-z0-9_-]{24,}", path.read_text())):
                secrets[f"{path.name} {number}"] = secret
    for path in site.home.rglob("*"):
        is_small = path.is_file() and path.stat().st_size < 10_000 and path.suffix != ".log"
        if is_small and (token := re.search(r"mgw_[\w-]{30,}", path.read_text(errors="replace"))):
            secrets["token of the agent"] = token[0]
    return secrets


def test_no_log_contains_a_secret(site, testdata):
    with site.login() as visitor:
        secrets = use_secrets(site, visitor, testdata) | stored_secrets(site)
    assert "token of the agent" in secrets
    logs = {"terminal": site.text}
    for path in site.home.rglob("*.log"):
        logs[str(path.relative_to(site.home))] = path.read_text(errors="replace")
    assert "task_state_changed" in "".join(logs.values())
    leaks = [(name, log) for name, secret in secrets.items() for log in logs if secret in logs[log]]
    # the first start prints the passwords
    leaks = [leak for leak in leaks if leak[0] != "password"]
    assert leaks == []
    for log, text in logs.items():
        assert not SIGNATURE.search(text), log
    with sqlite3.connect(next(site.home.rglob("db.sqlite3"))) as rows:
        dump = "\n".join(rows.iterdump())
    plain = {"access token", "webhook secret", "token of the agent", "enrolment code", "password"}
    assert [name for name in plain & secrets.keys() if secrets[name] in dump] == []
