"""The viewers are isolated: their own origin, no telemetry, no cookies, no other connections."""

import gzip
import re

import pytest

from profiles.tests.pages import policy_of
from profiles.viewer_packages import (
    perfetto_address,
    perfetto_files,
    viewer_address,
    viewer_files,
    viewer_page,
)
from webprofile.checks import check_settings

MAIN, SECOND = "https://profile.example.org", "https://viewer.example.net"
NETRON, PERFETTO = FOLDERS = viewer_address(), perfetto_address().partition("#")[0]


@pytest.fixture
def second_origin(settings):
    settings.SITE_URL, settings.NETRON_ORIGIN = MAIN, SECOND
    settings.ALLOWED_HOSTS = ["profile.example.org", "viewer.example.net"]


def test_the_served_page_has_no_version_date_or_policy_of_netron(client):
    page = client.get(viewer_address()).text
    for tag in ('name="version"', 'name="date"', 'http-equiv="Content-Security-Policy"'):
        assert tag in (viewer_files()["index.js"].parent / "index.html").read_text()
        assert tag not in page
    assert "javascript:" not in page
    assert page.index("bridge.js") < page.index('src="index.js"')
    style = client.get(f"{viewer_address()}grapher.css").text
    assert style.index(".node-item-type path") < style.index(".node-item-type-heat9 path")


def test_the_patch_of_megengine_js_changes_one_line_and_adds_the_times_of_nodes(client):
    original = viewer_files()["megengine.js"].read_text()
    served = client.get(f"{viewer_address()}megengine.js").text
    before, added, after = served.partition("\nconst NodeWithoutTime = megengine.Node;\n")
    assert added
    assert "timeOfNode" in after
    lines = zip(original.splitlines(), before.splitlines(), strict=True)
    changed_lines = [new for old, new in lines if new != old]
    assert len(changed_lines) == 1
    assert "allOprAndTensor.get(op.outputs[0]) === op" in changed_lines[0]


def test_colours_of_both_themes_are_literal_values(client):
    style = client.get(f"{viewer_address()}grapher.css").text
    light, dark = style.rsplit("@media (prefers-color-scheme: dark)", 1)
    assert ".node-item-type-heat9 path { fill: #861515; }" in light
    assert ".node-item-type-heat9 path { fill: #ffc861; }" in dark
    assert ".node-item-type-delta8 text { fill: #1b1208; }" in dark
    assert "var(" not in light + dark


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_policy_isolates_the_viewer_in_its_own_folder(client, folder):
    response = client.get(folder)
    policy = policy_of(response)
    assert policy["sandbox"] == "allow-scripts"
    assert policy["default-src"] == "'none'"
    assert policy["connect-src"] == f"http://testserver{folder}"
    assert policy["frame-ancestors"] == "http://testserver"
    assert response["X-Frame-Options"] == "SAMEORIGIN"
    assert response.cookies == {}


def test_the_policy_of_netron_allows_only_its_own_scripts(client):
    response = client.get(viewer_address())
    assert policy_of(response)["script-src"] == f"http://testserver{viewer_address()}"
    assert "unsafe-inline" not in response["Content-Security-Policy"]


def test_the_policy_has_a_hash_for_every_style():
    page = viewer_page()
    assert page.styles.count("sha256-") == 1
    styles = set(re.findall(r' style="([^"]*)"', page.text))
    assert page.style_attributes.count("sha256-") == len(styles)


@pytest.mark.parametrize(
    ("folder", "files", "name", "kind"),
    [
        (NETRON, viewer_files, "python.js", "text/javascript"),
        (PERFETTO, perfetto_files, "frontend_bundle.js", "text/javascript"),
        (PERFETTO, perfetto_files, "trace_processor.wasm", "application/wasm"),
        (PERFETTO, perfetto_files, "perfetto.css", "text/css"),
        (PERFETTO, perfetto_files, "bridge.js", "text/javascript"),
    ],
)
def test_files_are_immutable_and_compressed(client, folder, files, name, kind):
    address = folder + name
    response = client.get(address, headers={"Accept-Encoding": "gzip, br"})
    assert response["Content-Encoding"] == "gzip"
    assert "immutable" in response["Cache-Control"]
    assert response["Access-Control-Allow-Origin"] == "*"
    assert response["Content-Type"] == kind
    plain = client.get(address)
    assert "Content-Encoding" not in plain
    content = files()[name].read_bytes()
    assert gzip.decompress(response.content) == plain.content == content


@pytest.mark.parametrize(
    "address",
    [
        *(NETRON + name for name in ("server.py", "__init__.py", "nothing.js", "..%2fserver.py")),
        *(PERFETTO + name for name in ("index.html", "../index.html", "..%2fservice_worker.js")),
        *(PERFETTO + name for name in ("assets/catapult_trace_viewer.html", "assets/")),
        f"{PERFETTO}nothing.js",
    ],
)
def test_other_files_return_404(client, address):
    assert client.get(address).status_code == 404


@pytest.mark.parametrize("tag", ["x", "a;connect-src%20*", "9.3.3", "1.1.1"])
@pytest.mark.parametrize("viewer", ["netron", "perfetto"])
def test_an_unknown_version_returns_404(client, viewer, tag):
    assert client.get(f"/{viewer}/{tag}/").status_code == 404


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_second_origin_serves_only_the_viewers(client, second_origin, folder):
    environ = {"HTTP_HOST": "viewer.example.net", "wsgi.url_scheme": "https"}
    response = client.get(folder, **environ)
    assert f"frame-ancestors {MAIN}" in response["Content-Security-Policy"]
    assert f"script-src {SECOND}{folder}" in response["Content-Security-Policy"]
    assert "X-Frame-Options" not in response
    for other in ("/accounts/login/", "/tasks/", "/healthz", "/static/js/site.js", "/admin/"):
        assert client.get(other, **environ).status_code == 404


@pytest.mark.parametrize("folder", FOLDERS)
def test_with_a_second_origin_the_main_origin_serves_no_viewer(client, second_origin, folder):
    assert (viewer_address(), perfetto_address().partition("#")) == (
        f"{SECOND}{NETRON}",
        (f"{SECOND}{PERFETTO}", "#", "!/viewer?mode=embedded"),
    )
    main = {"HTTP_HOST": "profile.example.org"}
    assert client.get(folder, **main).status_code == 404
    assert client.get("/healthz", **main).status_code == 200


@pytest.mark.parametrize(
    ("origin", "ids"),
    [
        ("", []),
        (SECOND, []),
        ("viewer.example.net", ["webprofile.E003"]),
        (f"{SECOND}/netron", ["webprofile.E003"]),
        ("ftp://viewer.example.net", ["webprofile.E003"]),
        (f"{MAIN}:8443", ["webprofile.E004"]),
        ("http://viewer.example.net", ["webprofile.E005"]),
    ],
)
def test_an_invalid_second_origin_is_reported(settings, origin, ids):
    settings.SITE_URL, settings.NETRON_ORIGIN = MAIN, origin
    assert [message.id for message in check_settings()] == ids


def test_saved_pictures_have_light_colours(client):
    """Netron saves pictures with rules outside of media queries."""
    style = client.get(f"{viewer_address()}grapher.css").text
    light = style.rpartition("@media (prefers-color-scheme: dark)")[0]
    assert ".node-item-type-heat9 path { fill: #861515; }" in light


@pytest.mark.parametrize("name", ["tokens", "heat"])
def test_each_colour_of_the_palette_is_defined_once_for_both_themes(settings, name):
    text = (settings.BASE_DIR / "static" / "css" / f"{name}.css").read_text()
    palette = re.findall(r"(--[\w-]+):[^;]*light-dark\(", text)
    colours = re.findall(r"(--[\w-]+):[^;]*(?:#|rgb\()", text)
    assert palette == colours
    assert len(set(palette)) == len(palette) > 20
    assert "prefers-color-scheme" not in text
