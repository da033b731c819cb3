"""Test that tests of browsers do not affect each other."""

import pytest

from webprofile.tests.machine import HEADLESS_SHELL

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

_LEAVE_MARK = """
    const stored = [localStorage.mark, sessionStorage.mark, /mark=/.test(document.cookie)];
    localStorage.mark = sessionStorage.mark = "1";
    document.cookie = "mark=1; path=/";
    return stored;
"""


def test_a_window_has_nothing_that_an_earlier_one_stored(chromium, live_server):
    for _ in range(2):
        with chromium(HEADLESS_SHELL).window(live_server.url) as window:
            window.get(f"{live_server.url}/accounts/login/")
            assert window.execute_script(_LEAVE_MARK) == [None, None, False]
