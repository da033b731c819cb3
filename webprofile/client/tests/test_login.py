"""Tests of `webprofile login` and `logout`: the stored token, refused logins, revocation."""

import json
import os
import pty
import stat
import sys

import pytest
from allauth.mfa.totp.internal import auth as totp

from accounts.models import AccessToken
from accounts.tokens.access import issue_token
from tasks.tests.make import make_user
from webprofile.client.errors import UsageError
from webprofile.client.login_file import is_open_to_listeners, site_checked

PASSWORD = "correct horse battery"


@pytest.fixture
def kept(stranger):
    return stranger.home / "config" / "webprofile" / "login.json"


def test_a_token_from_standard_input_is_kept_for_its_user_alone(live_server, alice, stranger, kept):
    _, secret = issue_token(alice, name="mine", scopes=["read"], days=1)
    done = stranger.run("login", live_server.url + "/", "--token-stdin", stdin=secret + "\n")
    assert "alice@example.com" in done.stderr
    assert secret not in done.stdout + done.stderr
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert json.loads(kept.read_text())["token"] == secret
    assert "x86-1" in stranger.run("workers").stdout


def test_with_a_password_a_token_of_its_own_is_made_and_revoked_at_the_end(
    live_server, alice, stranger, kept
):
    stranger.run("login", live_server.url, "--email", alice.email, stdin=PASSWORD + "\n")
    token = AccessToken.objects.get()
    assert token.name.startswith("webprofile on ")
    assert token.scopes == ["read", "write"]
    assert PASSWORD not in kept.read_text()
    stranger.run("logout")
    token.refresh_from_db()
    assert token.revoked_at is not None
    assert not kept.exists()
    assert "Not logged in" in stranger.run("logout", code=1).stderr
    stranger.run("workers", code=2)


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
def test_who_is_refused_keeps_nothing(live_server, alice, stranger, kept, arguments, typed, code):
    stranger.run("login", live_server.url, *arguments, stdin=typed, code=code)
    assert not kept.exists()
    assert not AccessToken.objects.exists()


@pytest.mark.parametrize(
    "site",
    ["", "example.com", "ftp://x", "http://a b", "http://u@h", "https://", "http://h/path"],
)
def test_what_is_no_site_is_told(site):
    with pytest.raises(UsageError):
        site_checked(site)


def test_a_token_that_is_none_is_told_with_what_to_do(live_server, alice, stranger):
    stranger.environment |= {"WEBPROFILE_SITE": live_server.url, "WEBPROFILE_TOKEN": "mwp_x"}
    stderr = stranger.run("list", code=3).stderr
    assert (stderr.count("\n"), "webprofile login" in stderr) == (2, True)


def test_a_page_that_is_no_such_site_is_told(live_server, proxy, alice, stranger):
    stranger.environment |= {"WEBPROFILE_SITE": proxy.address, "WEBPROFILE_TOKEN": "mwp_x"}
    proxy.plan = lambda method, path: "404"
    assert "is it the site?" in stranger.run("list", code=1).stderr


def test_a_token_that_ended_can_still_be_forgotten(live_server, alice, stranger, kept):
    _, secret = issue_token(alice, name="mine", scopes=["read", "write"], days=1)
    stranger.run("login", live_server.url, "--token-stdin", stdin=secret)
    AccessToken.objects.all().delete()
    stranger.run("list", code=3)
    stranger.run("logout")
    assert not kept.exists()


def test_a_kept_token_is_sent_to_no_other_site(live_server, alice, stranger, kept):
    _, secret = issue_token(alice, name="mine", scopes=["read"], days=1)
    stranger.run("login", live_server.url, "--token-stdin", stdin=secret)
    stranger.environment["WEBPROFILE_SITE"] = "http://127.0.0.1:9"
    assert "Not logged in" in stranger.run("list", code=2).stderr


def test_a_second_factor_is_asked_for(live_server, alice, stranger, kept):
    totp.TOTP.activate(make_user("bob"), totp.generate_totp_secret())
    process = stranger.run(
        "login", live_server.url, "--email", "bob@example.com", stdin=PASSWORD + "\n", code=2
    )
    assert "--token-stdin" in process.stderr  # nobody can type a code into a pipe
    assert not kept.exists()


def test_at_a_terminal_password_and_code_are_asked_for_and_the_password_is_not_shown(
    live_server, alice, stranger, kept
):
    secret = totp.generate_totp_secret()
    totp.TOTP.activate(make_user("bob"), secret)
    code = totp.hotp_value(secret, next(totp.yield_hotp_counters_from_time()))
    shown, status = at_terminal(
        stranger,
        ("login", live_server.url, "--email", "bob@example.com"),
        {"Password: ": PASSWORD, "authenticator app: ": totp.format_hotp_value(code)},
    )
    assert status == 0, shown
    assert PASSWORD not in shown
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert AccessToken.objects.get().user.email == "bob@example.com"


def test_a_wrong_code_keeps_nothing(live_server, alice, stranger, kept):
    totp.TOTP.activate(make_user("bob"), totp.generate_totp_secret())
    shown, status = at_terminal(
        stranger,
        ("login", live_server.url, "--email", "bob@example.com"),
        {"Password: ": PASSWORD, "authenticator app: ": "000000x"},
    )
    assert (status, kept.exists(), "Traceback" in shown) == (3, False, False)


def at_terminal(client, arguments: tuple[str, ...], answers: dict[str, str]) -> tuple[str, int]:
    """What a person at a terminal sees, and the exit code; each question gets its answer."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(client.home)
        command = [sys.executable, "-m", "webprofile.client", *arguments]
        os.execve(sys.executable, command, client.environment)
    shown = ""
    left = dict(answers)
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # the other end is closed
            break
        shown += piece.decode()
        if question := next((prompt for prompt in left if shown.endswith(prompt)), None):
            os.write(terminal, left.pop(question).encode() + b"\n")
    os.close(terminal)
    return shown, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize(
    ("site", "is_open"),
    [("http://example.com", True), ("https://example.com", False), ("http://127.0.0.1:8", False)],
)
def test_a_site_without_encryption_is_warned_of(site, is_open):
    assert is_open_to_listeners(site) is is_open


def test_a_damaged_file_is_told_and_no_traceback(stranger, kept):
    kept.parent.mkdir(parents=True)
    kept.write_text("{")
    stderr = stranger.run("list", code=2).stderr
    assert "cannot be read" in stderr
    assert "Traceback" not in stderr
