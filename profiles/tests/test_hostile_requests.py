"""Requests with invalid parameters, and requests that are repeated, late or concurrent."""

import pytest

from profiles.actors import build_opened
from profiles.imports import processing
from profiles.imports.uploads import delete_import
from profiles.ingest.loading import profile_data
from profiles.ingest.rebuild import rebuild_derived
from profiles.models import Profile, ProfileUpload
from profiles.tests.imports import confirm_upload, make_import, make_upload
from profiles.tests.pages import make_result
from profiles.tests.passes import another_pass
from profiles.tests.response_checks import CHARTS, response_faults
from testdata import good_profile

pytestmark = pytest.mark.django_db

HUGE = str(2**70)
#: patterns that are slow, or take gigabytes, in an engine that backtracks or expands
EXPENSIVE_PATTERNS = (
    "(a%2B)%2B$", "(((a{1000}){1000}){1000})", "(.*)*(.*)*(.*)*x", "(?:a?){500}a{500}",
    "x" * 10_000,
    "(" * 5_000, "[", "\\1", "(?P<a", "(?=a)", "%00", "\\p{L}{999}", "🏴" * 400, "(?i)" * 300,
)  # fmt: skip
INVALID_QUERIES = (
    "op=99999", f"op={HUGE}", "op=-1", "op=text", "op=٣", "op=%00", "op=1e3", "op=0x1",
    "around=99999", "around=", "around=-1", f"around={HUGE}", "around=x",
    "pass=99", "pass=-1", "pass=x", f"pass={HUGE}", "offset=-1", f"offset={HUGE}", "offset=x",
    "offset=999999999", "type=unknown", "type=%00", "type=" + "x" * 5_000,
    "&".join(["type=a"] * 900),
    "min=5s&max=1s", "min=nan", "min=-1", "max=inf", "max=1e999", "min=1e-999", "min=%00",
    "cols=nothing", "cols=op,op,time,%00", "col=%F0%9F%98%80", "order=nothing", "order=__class__",
    "agg=nothing", "agg=sum&over=x&order=p10", "side=left", "end=neither", "dtype=Float99",
    "dtype=%22", f"rows={HUGE}", "rows=-5", "rows=1.5", "page=0", f"page={HUGE}", "page=x",
    "up=yes", "%FF=%FF", "=", "name=%FF%FE", "scope=%00", f"scope={'a.' * 9_000}", "colour=plaid",
    "from=nan&to=nan", "from=1e308&to=-1e308", "from=-1e308&to=1e308", "from=0&to=1e-300",
    "from=x", "device=%00", "device=" + "g" * 9_000,
)  # fmt: skip
INVALID_COMPARISONS = (
    f"row={HUGE}", "row=99999", "row=-1", "at=99999", f"at={HUGE}", "with=99", "graph=99",
    "graph=-1", "min=nan", "min=inf", "min=-5", f"page={HUGE}", "page=-1", "sort=%00", "by=x",
    "status=x", "q=%00", "side=x", "op=99999", "op=x", "scope=%00", f"op={HUGE}",
    "q=" + "(" * 9_000,
)  # fmt: skip


@pytest.fixture
def profile(alice) -> Profile:
    data = good_profile("two_inputs")
    return make_result(data, another_pass(data, 1), owner=alice)


def faults_of(client, addresses):
    """Return the faults of responses by address; exceptions pass, and 4xx must have a body."""
    faults = {}
    for address in addresses:
        response = client.get(address)
        problems = response_faults(response)
        if response.status_code not in (200, 302, 400, 404, 413, 422) or not response.content:
            problems = [f"status {response.status_code}", *problems]
        if problems:
            faults[address] = problems
    return faults


@pytest.mark.exhaustive
def test_the_page_and_the_table_answer_invalid_queries(client, profile):
    page = f"/tasks/{profile.attempt.task_id}/"
    addresses = [f"{page}?{query}" for query in INVALID_QUERIES]
    assert faults_of(client, addresses) == {}


@pytest.mark.exhaustive
def test_charts_graph_and_exports_answer_invalid_queries(client, profile):
    root = f"/profiles/{profile.pk}"
    names = [f"/api/v1{root}/graph/netron/", f"{root}/export/csv/"]
    names += [f"/api/v1{root}/charts/{chart}/" for chart in ("timeline", "memory")]
    addresses = [f"{name}?{query}" for name in names for query in INVALID_QUERIES]
    assert faults_of(client, addresses) == {}


@pytest.mark.database
def test_numbers_that_are_too_large_return_404(client, profile):
    root = f"/profiles/{profile.pk}"
    for number in ("0", "99", HUGE, "2147483648", "9223372036854775808"):
        addresses = [f"{root}/export/original/{number}/", f"/tasks/{number}0/result/"]
        addresses += [f"{root}/operators/{number}/"] if number != "0" else []
        paths = ("", "operators/", "graph/", "export/csv/")
        addresses += [f"/profiles/{number}0/{path}" for path in paths]
        addresses += [f"/api/v1/profiles/{number}0/charts/{kind}/" for kind in CHARTS]
        addresses += [f"/profiles/opened/{number}0/{path}" for path in ("", "status/", "files/1/")]
        for address in addresses:
            assert client.get(address).status_code == 404, address


@pytest.mark.exhaustive
def test_expensive_patterns_are_answered(client, profile):
    page, root = f"/tasks/{profile.attempt.task_id}/", f"/profiles/{profile.pk}"
    compared = make_result(good_profile("tiny"), owner=profile.attempt.task.owner)
    pair = f"p={profile.pk}&p={compared.pk}"
    for pattern in EXPENSIVE_PATTERNS:
        addresses = [f"{page}?name={pattern}", f"/profiles/compare/?{pair}&q={pattern}"]
        assert faults_of(client, addresses) == {}
        assert client.get(f"{root}/export/csv/?name={pattern}").status_code in (200, 422)


@pytest.mark.database
def test_a_comparison_of_invalid_numbers_is_refused(client, profile):
    for number in (HUGE, "-1", "1e3", "%00", "²", "9" * 5_000):
        pair = f"p={profile.pk}&p={number}"
        assert client.get(f"/profiles/compare/?{pair}").status_code == 404, number
        for path in ("", "export/csv/", "export/json/", "graph/"):
            response = client.get(f"/api/v1/profiles/compare/{path}?{pair}")
            assert response.status_code == 400, (path, number)
    many = "&".join(f"p={n}" for n in range(2_000))
    assert client.get(f"/profiles/compare/?{many}").status_code in (400, 404)


def test_a_comparison_answers_invalid_queries(client, profile):
    other = make_result(good_profile("tiny"), owner=profile.attempt.task.owner)
    pair = f"p={profile.pk}&p={other.pk}"
    api = "/api/v1/profiles/compare/"
    paths = ("/profiles/compare/", f"{api}export/csv/", f"{api}export/json/", f"{api}graph/")
    addresses = [f"{path}?{pair}&{more}" for path in paths for more in INVALID_COMPARISONS]
    assert faults_of(client, addresses) == {}


@pytest.mark.database
def test_a_second_submission_and_a_second_build_change_nothing(client, alice):
    upload = make_upload(alice, good_profile("tiny"))
    address = f"/api/v1/profiles/opened/{upload.pk}/"
    answers = [client.post(f"{address}submit/", content_type="application/json") for _ in range(2)]
    assert answers[0].json()["state"] == "processing"
    assert answers[1].status_code in (200, 409)
    for _ in range(2):
        build_opened(upload.pk)
    assert Profile.objects.filter(upload=upload).count() == 1
    late = client.post(f"{address}submit/", content_type="application/json")
    assert late.status_code in (200, 409)
    assert client.post(f"{address}retry/").status_code in (200, 409)
    upload.refresh_from_db()
    assert upload.state == ProfileUpload.State.READY


@pytest.mark.database
def test_an_import_deleted_while_it_is_read_stays_deleted(client, alice, monkeypatch):
    upload = make_upload(alice, good_profile("tiny"))
    confirm_upload(upload)

    derive = processing.derive

    def derive_and_delete(*arguments):
        derived = derive(*arguments)
        delete_import(ProfileUpload.objects.get(pk=upload.pk))
        return derived

    monkeypatch.setattr(processing, "derive", derive_and_delete)
    build_opened(upload.pk)
    assert not Profile.objects.exists()
    assert client.get(f"/profiles/opened/{upload.pk}/").status_code == 404
    build_opened(upload.pk)


@pytest.mark.database
def test_a_rebuild_keeps_every_page_available(client, alice):
    profile = make_import(alice, good_profile("tiny")).profile
    before = client.get(f"/api/v1/profiles/{profile.pk}/charts/types/").json()
    held = profile_data(profile)
    rebuild_derived(profile)
    profile.refresh_from_db()
    assert profile_data(profile) is not held
    assert client.get(f"/api/v1/profiles/{profile.pk}/charts/types/").json() == before
    Profile.objects.filter(pk=profile.pk).update(derived_version=0)
    for path in ("", "operators/", "operators/0/"):
        response = client.get(f"/profiles/{profile.pk}/{path}")
        assert response.status_code in (200, 503)
        assert response.content
    for path in ("charts/types/", "graph/netron/"):
        response = client.get(f"/api/v1/profiles/{profile.pk}/{path}")
        assert response.status_code in (200, 409)
