"""Browser tests of the executed graph: Netron in its frame, shared selection, no requests out."""

import json
from urllib.parse import parse_qs, urlsplit

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from profiles.tests.graph_edits import profile_of
from profiles.tests.make import to_json
from profiles.tests.pages import make_result
from tasks.models import TaskFile
from tasks.tests.make import make_user
from testdata import DATA, good_profile
from webprofile.storage import storage as object_store
from webprofile.tests.browser.conftest import PageObject, block_urls, resize, set_colour_scheme
from webprofile.tests.browser.pages import LIST_REQUESTS, allow

pytestmark = [pytest.mark.exhaustive, pytest.mark.browser, pytest.mark.django_db(transaction=True)]


class GraphPage(PageObject):
    """A page with the graph of executed operators."""

    def __init__(self, browser, address: str, profile) -> None:
        super().__init__(browser, address)
        self.profile = profile

    def open(self, path: str) -> None:
        self.browser.get(self.address + path)
        self.wait_for("drawn")

    def open_alone(self, query: str = "") -> None:
        self.open(f"/profiles/{self.profile.pk}/graph/page/{query}")

    def wait_for(self, state: str) -> None:
        part = "const g = document.querySelector('#graph'); "
        script = part + "return g.hasAttribute('aria-busy') ? '' : g.dataset.state"
        self.until(lambda: self.js(script) == state, f"it {state}")

    def inside(self) -> None:
        self.browser.switch_to.frame(self.find(".graph__frame"))

    def outside(self) -> None:
        self.browser.switch_to.default_content()

    def title_of(self, node: str):
        """Return the coloured title of a node. Only inside the frame."""
        script = "return document.getElementById(arguments[0])"
        box = self.until(lambda: self.js(script, f"node-name-{node}"), "the node")
        self.js("arguments[0].scrollIntoView({block: 'center'})", box)
        return box.find_element(By.CSS_SELECTOR, ".node-item-type")

    def panel(self) -> str:
        return self.find("#sidebar").text

    @property
    def selected(self) -> str:
        return parse_qs(urlsplit(self.browser.current_url).query).get("op", [""])[0]

    @property
    def scope(self) -> str:
        return parse_qs(urlsplit(self.browser.current_url).query).get("scope", [""])[0]

    @property
    def status(self) -> str:
        return self.find("[data-graph=status]").text

    def requests(self) -> list[str]:
        """Return what the frame requested and what its policy blocked. Only inside the frame."""
        return self.browser.execute_async_script(LIST_REQUESTS)


@pytest.fixture
def make_graph_page(browser, storage, live_server, settings, log_in):
    """Function that makes a result of a profile and logs in its owner."""
    allow(settings, "connect-src", "'self'", settings.S3_PUBLIC_ENDPOINT_URL)

    def make_page(profile: bytes, model: str = "") -> GraphPage:
        owner = make_user("alice")
        result = make_result(profile, owner=owner)
        if model:
            content = (DATA / "models" / f"{model}.mge").read_bytes()
            file = result.attempt.task.files.get(kind="model")
            object_store.write(file.object_key, content)
            TaskFile.objects.filter(pk=file.pk).update(size_bytes=len(content))
        log_in(owner)
        return GraphPage(browser, live_server.url, result)

    return make_page


def test_drawn_graph_neither_takes_the_focus_nor_scrolls_the_page(make_graph_page):
    graph = make_graph_page(good_profile("resnet18"))
    graph.open(f"/tasks/{graph.profile.attempt.task_id}/graph/")
    script = "return [document.activeElement.tagName, document.querySelector('.view').scrollTop]"
    assert graph.js(script) == ["BODY", 0]


def test_colours_of_times_that_read_the_same_share_one_entry_of_the_legend(make_graph_page):
    profile = profile_of("two_inputs")
    for intervals in profile["profiler"]["device"].values():
        for interval in intervals.values():
            interval.update(start=0.0, kern=0.0, end=2e-6)
    graph = make_graph_page(to_json(profile))
    graph.open_alone()
    entries = graph.all("[data-graph=legend] li")
    assert [entry.text for entry in entries] == ["0 µs", "< 1 µs", "1 µs", "2 µs"]
    swatches = graph.all("[data-graph=legend] .graph__swatch")
    assert len({each.value_of_css_property("background-color") for each in swatches}) == 10


def test_click_in_the_graph_selects_the_operator_and_shows_its_figures(make_graph_page):
    graph = make_graph_page(good_profile("resnet18"))
    graph.open(f"/tasks/{graph.profile.attempt.task_id}/graph/")
    graph.inside()
    title = graph.title_of("[493] conv(data,conv1.weight)[493]")
    assert "node-item-type-heat9" in title.get_attribute("class")
    shape = title.find_element(By.TAG_NAME, "path")
    assert shape.value_of_css_property("fill") == "rgb(134, 21, 21)"
    title.click()
    graph.until(lambda: "1.95 ms" in graph.panel(), "no panel")
    assert "59.0 MFLOP" in graph.panel()
    graph.find("#sidebar-closebutton").click()
    graph.outside()
    graph.until(lambda: graph.selected == "98", "nothing selected")
    graph.find(".tabs [data-view=operators]").click()
    row = "[data-row='98'][aria-selected=true]"
    graph.until(lambda: graph.all(row), "no row marked")
    graph.all(".grid__body [data-row]")[1].click()
    graph.find(".tabs [data-view=graph]").click()
    graph.inside()
    marked = ".graph-node.select:not([id^='node-name-[493] '])"
    graph.until(lambda: graph.all(marked), "not marked")
    graph.outside()
    assert graph.console_errors() == []


def test_panel_is_below_the_graph_on_a_phone_and_closes(make_graph_page):
    graph = make_graph_page(good_profile("resnet18"))
    resize(graph.browser, (400, 900), mobile=True)
    graph.open_alone("?op=98")
    graph.inside()
    graph.until(lambda: "1.95 ms" in graph.panel(), "no panel")
    room, panel = graph.find("#target").rect, graph.find("#sidebar").rect
    assert room["width"] == panel["width"] > 300
    assert room["height"] == pytest.approx(panel["y"], abs=2)
    chosen = graph.title_of("[493] conv(data,conv1.weight)[493]").rect
    assert 0 <= chosen["y"] < panel["y"]
    graph.find("#sidebar-closebutton").click()
    graph.until(lambda: not graph.find("#sidebar").is_displayed(), "not closed")
    assert graph.find("#target").rect["height"] > 1.9 * room["height"]


def test_blocks_of_a_deep_graph_open_and_close(make_graph_page):
    graph = make_graph_page(good_profile("deep_loop"))
    graph.open_alone()
    assert "5316 operators in 72 nodes" in graph.status
    graph.inside()
    title = graph.title_of("block :74-147")
    title.click()
    graph.until(lambda: "slowest" in graph.browser.page_source, "no panel")
    ActionChains(graph.browser).double_click(title).perform()
    graph.outside()
    graph.until(lambda: graph.scope == ":74-147", "not opened")
    graph.wait_for("drawn")
    graph.find(".graph__crumb a").click()
    graph.until(lambda: graph.scope == "", "not back")
    # without a mouse, the same blocks are in a list
    Select(graph.find("[data-graph=blocks]")).select_by_value(":148-221")
    graph.inside()
    marked = "[id='node-name-block :148-221'].select"
    graph.until(lambda: graph.all(marked), "not marked")
    graph.outside()
    graph.find("[data-graph=enter]").click()
    graph.until(lambda: graph.scope == ":148-221", "not opened from the list")
    graph.open_alone("?op=5000")
    graph.until(lambda: graph.scope != "", "the block of the selected operator was not opened")


def test_hostile_names_in_the_graph_are_text(make_graph_page):
    profile = json.loads(good_profile("hostile_names"))
    odd = "<img src=x onerror=alert(1)>\n\u202efdp.\u202c🦊 עברית"
    operator = profile["graph_exec"]["operator"]["18"]
    operator["name"], operator["type"] = odd, "<b>bold</b>"
    profile["profiler"]["opr_footprint"]["18"]["param"] = {"<i>pad</i>": "</script><b>"}
    graph = make_graph_page(json.dumps(profile).encode())
    graph.open_alone()
    graph.inside()
    visible = "[18] <img src=x onerror=alert(1)>\\u000a\\u202efdp.\\u202c🦊 עברית"
    title = graph.title_of(visible)
    assert title.text == "<b>bold</b>"
    title.click()
    graph.until(lambda: "</script><b>" in graph.panel(), "no panel")
    assert graph.all("img, b b, i") == []
    assert graph.console_errors() == []


def test_uploaded_model_opens_without_external_requests(make_graph_page, megengine_python):
    graph = make_graph_page(good_profile("resnet18"), model="resnet18")
    graph.open_alone()
    graph.find("[name=graph-source][value=model]").click()
    graph.until(lambda: "The uploaded file" in graph.status, "the model was not drawn")
    graph.inside()
    # each operator once, even a BatchNorm with its four outputs
    titles = graph.all(".graph-node .node-item-type")
    kinds = [title.get_attribute("textContent") for title in titles]
    assert sum("BatchNorm" in kind for kind in kinds) == 20
    assert len(titles) == 77
    # an opaque origin, without cookies and storage of this site
    assert graph.js("return self.origin") == "null"
    urls = graph.requests()
    assert any("python.js" in url for url in urls)
    assert [url for url in urls if not url.startswith((graph.address, "blob:null/"))] == []
    assert not any("onnx" in url for url in urls)
    graph.js("new Image().src = 'http://127.0.0.1:1/out.png'")
    assert "blocked: img-src http://127.0.0.1:1/out.png" in graph.requests()
    graph.outside()
    graph.find("[name=graph-source][value=executed]").click()
    graph.until(lambda: "79 operators" in graph.status, "not back")
    assert graph.console_errors() == []


def test_unreadable_model_is_explained_and_the_graph_stays(make_graph_page):
    graph = make_graph_page(good_profile("resnet18"), model="tiny_fbs1")
    graph.open_alone()
    graph.find("[name=graph-source][value=model]").click()
    graph.until(lambda: "FBS_V2" in graph.status, "no reason given")
    assert graph.find("[name=graph-source][value=executed]").is_selected()
    graph.inside()
    assert len(graph.all(".graph-node")) == 79


def test_keyboard_enters_and_leaves_the_frame(make_graph_page):
    graph = make_graph_page(good_profile("tiny"))
    graph.open_alone()
    graph.js("document.querySelector('.graph__frame').focus()")
    graph.inside()
    graph.find("#target").send_keys(Keys.ESCAPE)
    graph.outside()
    focused = "return document.activeElement.name"
    graph.until(lambda: graph.js(focused) == "graph-source", "Escape did not lead out")


def test_graph_is_drawn_on_a_second_origin(make_graph_page, settings, live_server):
    settings.SITE_URL = live_server.url
    settings.NETRON_ORIGIN = live_server.url.replace("localhost", "127.0.0.1")
    allow(settings, "frame-src", settings.NETRON_ORIGIN)
    graph = make_graph_page(good_profile("resnet18"))
    graph.open_alone("?op=98")
    assert graph.find(".graph__frame").get_attribute("src").startswith(settings.NETRON_ORIGIN)
    graph.inside()
    graph.until(lambda: "1.95 ms" in graph.panel(), "not selected over there")
    assert graph.all("[id='node-name-[493] conv(data,conv1.weight)[493]'].select")
    assert graph.console_errors() == []


def test_graph_that_fails_to_load_can_be_retried(make_graph_page):
    graph = make_graph_page(good_profile("tiny"))
    block_urls(graph.browser, "*/graph/netron/*")
    graph.browser.get(f"{graph.address}/profiles/{graph.profile.pk}/graph/page/")
    graph.wait_for("failed")
    assert "could not be loaded" in graph.status
    block_urls(graph.browser)
    graph.find("[data-graph=start]").click()
    graph.wait_for("drawn")


def test_colours_follow_the_theme_while_the_graph_is_open(make_graph_page):
    graph = make_graph_page(good_profile("resnet18"))
    set_colour_scheme(graph.browser, "light")
    graph.open_alone()

    def colours() -> tuple[str, str]:
        """Return the colours of the page and of the slowest operator."""
        graph.inside()
        title = graph.find(".node-item-type-heat9 path")
        found = tuple(
            element.value_of_css_property(name)
            for element, name in ((graph.find("#target"), "background-color"), (title, "fill"))
        )
        graph.outside()
        return found

    light = colours()
    assert light[1] == "rgb(134, 21, 21)"
    # the user's choice comes before that of the system
    graph.js("document.documentElement.dataset.theme = 'dark'")
    graph.until(lambda: colours()[1] == "rgb(255, 200, 97)", "a dark graph")
    dark = colours()
    graph.js("delete document.documentElement.dataset.theme")
    graph.until(lambda: colours() == light, "a light graph")
    set_colour_scheme(graph.browser, "dark")
    graph.until(lambda: colours() == dark, "a dark graph")


def test_nodes_of_the_uploaded_model_have_their_times(make_graph_page):
    graph = make_graph_page(good_profile("tiny"), model="tiny")
    graph.open_alone()
    graph.find("[name=graph-source][value=model]").click()
    graph.until(lambda: "time and colour of that operator" in graph.status, graph.status)
    graph.inside()
    title = graph.find(".node-item-type-heat9")
    title.click()
    graph.until(lambda: "µs" in graph.panel(), "the time")
    graph.outside()
    graph.until(lambda: graph.selected != "", "nothing selected in the table")
    assert graph.console_errors() == []


def test_model_without_a_matching_name_says_so(make_graph_page):
    graph = make_graph_page(good_profile("lstm"), model="tiny")
    graph.open_alone()
    graph.find("[name=graph-source][value=model]").click()
    graph.until(lambda: "there are no times" in graph.status, "no reason")
    graph.inside()
    assert graph.all("[class*=node-item-type-heat]") == []
    assert graph.all(".graph-node")
