"""Pages about oneself in a real browser: passwords while typed, security keys, colours, zones."""

import pytest
from allauth.mfa.models import Authenticator
from django.core.cache import cache
from selenium.webdriver.common.by import By
from selenium.webdriver.common.virtual_authenticator import VirtualAuthenticatorOptions
from selenium.webdriver.support.wait import WebDriverWait

from tasks.tests.make import make_user

pytestmark = [pytest.mark.exhaustive, pytest.mark.browser, pytest.mark.django_db(transaction=True)]

GOOD = "correct horse battery"


def wait_for(browser, css):
    return WebDriverWait(browser, 10).until(lambda b: b.find_element(By.CSS_SELECTOR, css))


def type_into(browser, **texts):
    for name, text in texts.items():
        field = browser.find_element(By.NAME, name)
        field.clear()
        field.send_keys(text)


def send(browser):
    page = browser.find_element(By.TAG_NAME, "html")
    browser.find_element(By.CSS_SELECTOR, "main form .button--primary").click()
    WebDriverWait(browser, 10).until(lambda b: b.find_element(By.TAG_NAME, "html") != page)


def login(browser, live_server):
    browser.get(f"{live_server.url}/accounts/login/")
    type_into(browser, login="alice@example.com", password=GOOD)
    send(browser)


def complaints(browser):
    """What the browser held against a page: a broken script, or one that the policy forbids."""
    severe = [e for e in browser.get_log("browser") if e["level"] == "SEVERE"]
    return [e for e in severe if "/ws/" not in e["message"]]  # this server speaks HTTP alone


@pytest.fixture(autouse=True)
def _fresh_limits():
    cache.clear()


def test_a_password_is_judged_while_it_is_typed_as_by_the_server(browser, live_server):
    browser.get(f"{live_server.url}/accounts/signup/")
    type_into(browser, email="new@example.com", password1="short", password2="shor")
    problem = wait_for(browser, ".password-check__problem")
    assert "at least 10 characters" in problem.text
    again = browser.find_element(By.NAME, "password2")
    assert again.get_property("validationMessage") == "The two passwords differ."
    type_into(browser, password1="new@example.com")
    WebDriverWait(browser, 10).until(
        lambda b: "too similar" in b.find_element(By.CSS_SELECTOR, ".password-check").text
    )
    type_into(browser, password1=GOOD, password2=GOOD)
    assert "good" in wait_for(browser, ".password-check__good").text
    send(browser)
    assert browser.current_url == f"{live_server.url}/tasks/"
    assert complaints(browser) == []


def test_a_security_key_is_added_and_asked_for(browser, live_server):
    make_user()
    options = VirtualAuthenticatorOptions(has_user_verification=True, is_user_verified=True)
    browser.add_virtual_authenticator(options)
    login(browser, live_server)
    browser.get(f"{live_server.url}/accounts/2fa/webauthn/add/")
    type_into(browser, password=GOOD)
    send(browser)
    wait_for(browser, "#mfa_webauthn_add").click()
    wait_for(browser, "#recovery_codes")
    assert Authenticator.objects.filter(type="webauthn").count() == 1

    browser.delete_cookie("sessionid")
    login(browser, live_server)
    wait_for(browser, "#mfa_webauthn_authenticate").click()
    WebDriverWait(browser, 10).until(lambda b: b.current_url == f"{live_server.url}/tasks/")
    assert complaints(browser) == []


def test_a_key_that_does_not_answer_is_told(browser, live_server):
    make_user()
    options = VirtualAuthenticatorOptions(is_user_consenting=False)
    browser.add_virtual_authenticator(options)
    login(browser, live_server)
    browser.get(f"{live_server.url}/accounts/2fa/webauthn/add/")
    type_into(browser, password=GOOD)
    send(browser)
    button = wait_for(browser, "#mfa_webauthn_add")
    browser.execute_script("navigator.credentials.create = () => Promise.reject(new Error('no'))")
    button.click()
    problem = browser.find_element(By.ID, "webauthn-problem")
    WebDriverWait(browser, 10).until(lambda b: "did not answer" in problem.text)
    assert not Authenticator.objects.exists()


@pytest.mark.parametrize("system", ["light", "dark"])
def test_chosen_colours_win_over_the_systems(browser, live_server, system):
    user = make_user()
    feature = {"name": "prefers-color-scheme", "value": system}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    login(browser, live_server)
    paper = "return getComputedStyle(document.body).backgroundColor"
    seen = {}
    for theme in ("", "light", "dark"):
        type(user).objects.update(theme=theme)
        browser.get(f"{live_server.url}/accounts/profile/")
        seen[theme] = browser.execute_script(paper)
    assert seen["light"] != seen["dark"]
    assert seen[""] == seen[system]


def test_a_browser_tells_its_zone_and_a_chosen_one_wins(browser, live_server):
    user = make_user()
    type(user).objects.update(date_joined="2026-11-20T22:30:00Z")
    browser.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Shanghai"})
    login(browser, live_server)
    browser.get(f"{live_server.url}/accounts/profile/")
    joined = browser.find_element(By.CSS_SELECTOR, ".facts time")
    assert joined.text == "2026-11-21"
    assert browser.get_cookie("tz")["value"] == "Asia%2FShanghai"
    type(user).objects.update(time_zone="America/New_York")
    browser.refresh()
    assert browser.find_element(By.CSS_SELECTOR, ".facts time").text == "2026-11-20"


def test_a_new_token_is_copied_by_a_button(browser, live_server):
    make_user()
    grant = {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    grant["browserContextId"] = browser.context_id
    browser.execute_cdp_cmd("Browser.grantPermissions", grant)
    login(browser, live_server)
    browser.get(f"{live_server.url}/accounts/tokens/")
    type_into(browser, name="ci")
    send(browser)
    secret = browser.find_element(By.ID, "secret").get_property("value")
    button = browser.find_element(By.CSS_SELECTOR, "[data-copy]")
    button.click()
    WebDriverWait(browser, 10).until(lambda b: button.text == "Copied")
    assert browser.execute_script("return navigator.clipboard.readText()") == secret
    assert complaints(browser) == []
