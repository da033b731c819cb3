"""Browser tests of the account pages: password check, security keys, colours, time zones."""

import pytest
from allauth.mfa.models import Authenticator
from django.core.cache import cache
from selenium.webdriver.common.virtual_authenticator import VirtualAuthenticatorOptions

from tasks.tests.make import make_user
from webprofile.tests.browser.conftest import PageObject, set_colour_scheme

pytestmark = [pytest.mark.exhaustive, pytest.mark.browser, pytest.mark.django_db(transaction=True)]

GOOD = "correct horse battery"


class Account(PageObject):
    """A page of the user's account."""

    def open(self, path):
        self.browser.get(f"{self.address}/accounts/{path}/")

    def see(self, css):
        return self.until(lambda: self.find(css), css)

    def type(self, **texts):
        for name, text in texts.items():
            field = self.find(f"[name={name}]")
            field.clear()
            field.send_keys(text)

    def send(self):
        page = self.find("html")
        self.find("main form .button--primary").click()
        self.until(lambda: self.find("html") != page, "another page")

    def log_in(self):
        self.open("login")
        self.type(login="alice@example.com", password=GOOD)
        self.send()

    def console_errors(self):
        # the live server has no WebSockets
        return [message for message in super().console_errors() if "/ws/" not in message]


@pytest.fixture
def account(browser, live_server):
    return Account(browser, live_server.url)


@pytest.fixture(autouse=True)
def _fresh_limits():
    cache.clear()


def test_password_is_checked_while_it_is_typed(account):
    account.open("signup")
    account.type(email="new@example.com", password1="short", password2="shor")
    assert "at least 10 characters" in account.see(".password-check__problem").text
    again = account.find("[name=password2]")
    assert again.get_property("validationMessage") == "The two passwords do not match."
    account.type(password1="new@example.com")
    account.until(lambda: "too similar" in account.find(".password-check").text, "the judgement")
    account.type(password1=GOOD, password2=GOOD)
    assert "strong" in account.see(".password-check__good").text
    account.send()
    assert account.path == "/tasks/"
    assert account.console_errors() == []


def test_security_key_is_added_and_required_at_login(account, browser):
    make_user()
    options = VirtualAuthenticatorOptions(has_user_verification=True, is_user_verified=True)
    browser.add_virtual_authenticator(options)
    account.log_in()
    account.open("2fa/webauthn/add")
    account.type(password=GOOD)
    account.send()
    account.see("#mfa_webauthn_add").click()
    account.see("#recovery_codes")
    assert Authenticator.objects.filter(type="webauthn").count() == 1

    browser.delete_cookie("sessionid")
    account.log_in()
    account.see("#mfa_webauthn_authenticate").click()
    account.until(lambda: account.path == "/tasks/", "the list")
    assert account.console_errors() == []


def test_unresponsive_security_key_is_reported(account, browser):
    make_user()
    browser.add_virtual_authenticator(VirtualAuthenticatorOptions(is_user_consenting=False))
    account.log_in()
    account.open("2fa/webauthn/add")
    account.type(password=GOOD)
    account.send()
    button = account.see("#mfa_webauthn_add")
    account.js("navigator.credentials.create = () => Promise.reject(new Error('no'))")
    button.click()
    account.until(
        lambda: "did not respond" in account.find("#webauthn-problem").text, "the problem"
    )
    assert not Authenticator.objects.exists()


@pytest.mark.parametrize("system", ["light", "dark"])
def test_chosen_theme_overrides_the_system(account, browser, log_in, system):
    user = make_user()
    set_colour_scheme(browser, system)
    log_in(user)
    colours = {}
    for theme in ("", "light", "dark"):
        type(user).objects.update(theme=theme)
        account.open("profile")
        colours[theme] = account.js("return getComputedStyle(document.body).backgroundColor")
    assert colours["light"] != colours["dark"]
    assert colours[""] == colours[system]


def test_chosen_time_zone_overrides_that_of_the_browser(account, browser, log_in):
    user = make_user()
    type(user).objects.update(date_joined="2026-11-20T22:30:00Z")
    browser.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Shanghai"})
    log_in(user)
    account.open("tokens")  # a first page sends the zone to the server
    account.open("profile")
    assert account.find(".facts time").text == "2026-11-21"
    assert browser.get_cookie("tz")["value"] == "Asia%2FShanghai"
    type(user).objects.update(time_zone="America/New_York")
    browser.refresh()
    assert account.find(".facts time").text == "2026-11-20"


def test_button_copies_a_new_token(account, browser, log_in):
    log_in(make_user())
    grant = {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    grant["browserContextId"] = browser.context_id
    browser.execute_cdp_cmd("Browser.grantPermissions", grant)
    account.open("tokens")
    account.type(name="ci")
    account.send()
    secret = account.find("#secret").get_property("value")
    button = account.find("[data-copy]")
    button.click()
    account.until(lambda: button.text == "Copied", "that it was copied")
    assert account.js("return navigator.clipboard.readText()") == secret
    assert account.console_errors() == []
