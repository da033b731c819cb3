"""Browser tests of the recommendations, which select operators of the whole page."""

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from profiles.tests.pages import make_result
from testdata import good_profile

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_operator_of_a_recommendation_is_selected_without_a_reload(
    browser, live_server, storage, log_in
):
    profile = make_result(good_profile("resnet18"))
    log_in(profile.attempt.task.owner)
    browser.get(f"{live_server.url}/tasks/{profile.attempt.task_id}/result/")
    browser.execute_script("window.unchanged = true")

    link = browser.find_element(By.CSS_SELECTOR, "#advice-unfused_batch_norm [data-row='90']")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", link)
    wait = WebDriverWait(browser, 60, 0.02)
    # until its module is loaded, it is a plain link to the same selection
    wait.until(lambda _: browser.execute_script("return document.readyState") == "complete")
    link.click()

    wait.until(lambda _: browser.current_url.endswith("?op=90"))
    wait.until(lambda _: link.get_attribute("aria-current") == "true")
    assert browser.execute_script("return window.unchanged") is True
    panel = browser.find_element(By.CSS_SELECTOR, "#operator-panel")
    wait.until(lambda _: "batch_norm(conv1.Convolution" in panel.text)

    panel.find_element(By.CSS_SELECTOR, "[data-clear]").click()
    wait.until(lambda _: link.get_attribute("aria-current") is None)
