"""Tests of `webprofile login` and `logout`: the stored token, refused logins, revocation."""

import json
import os
import pty
import stat
import sys

import pytest
from allauth.mfa.totp.internal import auth as totp

from accounts.models import AccessToken
from accounts.tests.make import totp_code
from accounts.tokens.access import issue_token
from agent.tests.http_sites import HttpSite, serving
from tasks.tests.make import make_user
from webprofile.client.errors import UsageError
from webprofile.client.login_file import is_open_to_listeners, site_checked

PASSWORD = "correct horse battery"


@pytest.fixture
def login_file(anonymous):
    return anonymous.home / "config" / "webprofile" / "login.json"


def test_token_from_standard_input_is_stored_for_its_user_only(
    live_server, alice, anonymous, login_file
):
    _, secret = issue_token(alice, name="mine", scopes=["read"], days=1)
    arguments = ("login", live_server.url + "/", "--token-stdin")
    result = anonymous.run_process(*arguments, stdin=secret + "\n")
    assert "alice@example.com" in result.stderr
    assert secret not in result.stdout + result.stderr
    assert stat.S_IMODE(login_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(login_file.parent.stat().st_mode) == 0o700
    assert json.loads(login_file.read_text())["token"] == secret
    assert "x86-1" in anonymous.run("workers").stdout


def test_login_by_password_creates_a_token_that_logout_revokes(
    live_server, alice, anonymous, login_file
):
    anonymous.run("login", live_server.url, "--email", alice.email, stdin=PASSWORD + "\n")
    token = AccessToken.objects.get()
    assert token.name.startswith("webprofile on ")
    assert token.scopes == ["read", "write"]
    assert PASSWORD not in login_file.read_text()
    anonymous.run("logout")
    token.refresh_from_db()
    assert token.revoked_at is not None
    assert not login_file.exists()
    assert "Not logged in" in anonymous.run("logout", code=1).stderr
    anonymous.run("workers", code=2)


@pytest.mark.parametrize(
    ("arguments", "typed", "code"),
    [
        (("--token-stdin",), "mwp_" + "x" * 40, 3),
        (("--token-stdin",), "", 2),
        (("--token-stdin",), "na\u00efve", 2),
        (("--email", "alice@example.com"), "wrong\n", 3),
        (("--email", "nobody@example.com"), PASSWORD, 3),
        (("--email", "alice@example.com", "--days", "99999"), PASSWORD, 2),
    ],
)
def test_refused_login_stores_nothing(
    live_server, alice, anonymous, login_file, arguments, typed, code
):
    anonymous.run("login", live_server.url, *arguments, stdin=typed, code=code)
    assert not login_file.exists()
    assert not AccessToken.objects.exists()


@pytest.mark.parametrize(
    "site",
    [
        "", "example.com", "ftp://x", "http://a b", "http://u@h", "https://", "http://h/path",
        "https://h:80a0", "https://:80", "http://[::1",
    ],
)  # fmt: skip
def test_invalid_site_address_is_refused(site):
    with pytest.raises(UsageError):
        site_checked(site)


def test_invalid_token_is_reported_with_a_suggested_fix(live_server, alice, anonymous):
    anonymous.environment |= {"WEBPROFILE_SITE": live_server.url, "WEBPROFILE_TOKEN": "mwp_x"}
    stderr = anonymous.run("list", code=3).stderr
    assert (stderr.count("\n"), "webprofile login" in stderr) == (2, True)


def test_response_404_asks_whether_the_address_is_the_site(live_server, proxy, alice, anonymous):
    anonymous.environment |= {"WEBPROFILE_SITE": proxy.address, "WEBPROFILE_TOKEN": "mwp_x"}
    proxy.plan = lambda method, path: "404"
    assert "Check the URL of the site." in anonymous.run("list", code=1).stderr


class PageSite(HttpSite):
    """A site that answers every request with a page, as captive portals do."""

    def reply(self, path: str, authorization: str, body: bytes) -> tuple[int, bytes]:
        return 200, b"<!DOCTYPE html>"


def test_a_server_that_answers_with_pages_is_no_site(anonymous):
    other = PageSite()
    with serving(other.http):
        login = ("login", other.url, "--token-stdin")
        assert "Check the URL of the site." in anonymous.run(*login, stdin="mwp_x", code=1).stderr


def test_a_token_with_a_line_break_is_used_without_it(live_server, alice, anonymous):
    _, secret = issue_token(alice, name="mine", scopes=["read"], days=1)
    anonymous.environment |= {"WEBPROFILE_SITE": live_server.url, "WEBPROFILE_TOKEN": f"{secret}\n"}
    anonymous.run("list")
    anonymous.environment["WEBPROFILE_TOKEN"] = f"{secret}\nx"
    stderr = anonymous.run("list", code=2).stderr
    assert ("not an access token" in stderr, secret in stderr) == (True, False)


def test_logout_removes_an_invalid_token(live_server, alice, anonymous, login_file):
    _, secret = issue_token(alice, name="mine", scopes=["read", "write"], days=1)
    anonymous.run("login", live_server.url, "--token-stdin", stdin=secret)
    AccessToken.objects.all().delete()
    anonymous.run("list", code=3)
    anonymous.run("logout")
    assert not login_file.exists()


def test_stored_token_is_sent_only_to_its_site(live_server, alice, anonymous, login_file):
    _, secret = issue_token(alice, name="mine", scopes=["read"], days=1)
    anonymous.run("login", live_server.url, "--token-stdin", stdin=secret)
    anonymous.environment["WEBPROFILE_SITE"] = "http://127.0.0.1:9"
    assert "Not logged in" in anonymous.run("list", code=2).stderr


def test_login_without_a_terminal_refuses_a_second_factor(
    live_server, alice, anonymous, login_file
):
    totp.TOTP.activate(make_user("bob"), totp.generate_totp_secret())
    result = anonymous.run(
        "login", live_server.url, "--email", "bob@example.com", stdin=PASSWORD + "\n", code=2
    )
    assert "--token-stdin" in result.stderr
    assert not login_file.exists()


def test_login_at_a_terminal_asks_for_password_and_code(live_server, alice, anonymous, login_file):
    secret = totp.generate_totp_secret()
    totp.TOTP.activate(make_user("bob"), secret)
    output, status = at_terminal(
        anonymous,
        ("login", live_server.url, "--email", "bob@example.com"),
        {"Password: ": PASSWORD, "authenticator app: ": totp_code(secret)},
    )
    assert status == 0, output
    assert PASSWORD not in output
    assert stat.S_IMODE(login_file.stat().st_mode) == 0o600
    assert AccessToken.objects.get().user.email == "bob@example.com"


def test_wrong_code_stores_nothing(live_server, alice, anonymous, login_file):
    totp.TOTP.activate(make_user("bob"), totp.generate_totp_secret())
    output, status = at_terminal(
        anonymous,
        ("login", live_server.url, "--email", "bob@example.com"),
        {"Password: ": PASSWORD, "authenticator app: ": "000000x"},
    )
    assert (status, login_file.exists(), "Traceback" in output) == (3, False, False)


def at_terminal(client, arguments: tuple[str, ...], answers: dict[str, str]) -> tuple[str, int]:
    """Run the client at a terminal and type the answers; return its output and exit code."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(client.home)
        command = [sys.executable, "-m", "webprofile.client", *arguments]
        os.execve(sys.executable, command, client.environment)
    output = ""
    remaining = dict(answers)
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # the other end is closed
            break
        output += piece.decode()
        if question := next((prompt for prompt in remaining if output.endswith(prompt)), None):
            os.write(terminal, remaining.pop(question).encode() + b"\n")
    os.close(terminal)
    return output, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize(
    ("site", "is_open"),
    [("http://example.com", True), ("https://example.com", False), ("http://127.0.0.1:8", False)],
)
def test_site_without_encryption_is_detected(site, is_open):
    assert is_open_to_listeners(site) is is_open


def test_damaged_login_file_is_reported_without_traceback(anonymous, login_file):
    login_file.parent.mkdir(parents=True)
    login_file.write_text("{")
    stderr = anonymous.run("list", code=2).stderr
    assert "cannot be read" in stderr
    assert "Traceback" not in stderr
