"""Browser tests of the operators of a paired comparison: list, table, timeline, graph."""

import json

import numpy as np
import pytest

from agent.protocol.pairs import ArmOperators, OperatorTimes
from profiles.tests.make import SLOWER, make_paired_task
from profiles.tests.passes import another_pass
from tasks.tests.make import make_user
from testdata import good_profile
from webprofile.tests.browser.conftest import DESK, PHONE, PageObject, resize, violations

pytestmark = [pytest.mark.exhaustive, pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def recorded_arms() -> dict[str, bytes]:
    """Return the files of two arms with a recorded profile; B's slowest operator is slower."""
    profile = good_profile("resnet18")
    device = json.loads(profile)["profiler"]["device"]
    us = {
        key: 1e6 * max(node["end"] - node["start"] for node in nodes.values())
        for key, nodes in device.items()
    }
    slowest = max(us, key=us.__getitem__)
    scatter, arms = np.random.default_rng(3), []
    for changes in ({}, {slowest: 1.25 * us[slowest]}):
        times = np.array([*(us | changes).values()])
        rows = scatter.normal(times, 0.01 * times, (20, len(times))).round(2)
        arms.append(ArmOperators(ids=tuple(us), us=tuple(map(tuple, rows.tolist()))))
    times_of_all = OperatorTimes(pairs=tuple(range(20)), arms=tuple(arms))
    return {
        "profile.json": profile,
        "profile-b.json": another_pass(profile, 1),
        "paired_operators.json": times_of_all.model_dump_json().encode(),
    }


@pytest.fixture
def page(browser, storage, live_server, log_in):
    owner = make_user("alice")
    task = make_paired_task(SLOWER, owner=owner, operators=recorded_arms())
    log_in(owner)
    return PageObject(browser, f"{live_server.url}/tasks/{task.pk}/")


def test_the_operator_that_made_an_arm_slower_is_coloured_everywhere(page, browser, axe):
    for size in (PHONE, DESK):
        resize(browser, size)
        browser.get(page.address)
        page.click("#explained-B summary")
        assert not page.is_too_wide()
        assert violations(browser, axe) == []
    named = page.find("#explained-B .paired__named li")
    row = int(named.find_element("css selector", "a").get_attribute("href").partition("?op=")[2])
    browser.get(f"{page.address}operators/?op={row}")
    cell = f"#operator-table [data-row='{row}'] [data-column=diff].grid__cell--slower"
    page.until(lambda: page.all(cell), "the difference of the operator")
    browser.get(f"{page.address}graph/")
    page.until(
        lambda: page.js("return document.querySelector('#graph').dataset.state") == "drawn",
        "the graph",
    )
    assert page.js("return document.querySelector('[data-graph=colour]').value") == "device:change"
    assert page.all("[data-graph=legend] [style*='--delta-']")
