"""Damaged and hostile profiles: refused with a reason, or shown on every page."""

import warnings

import pytest
from django.utils import translation
from django.utils.html import escape

from profiles.actors import build_opened
from profiles.tests import hostile
from profiles.tests.hostile_cases import EMPTY, REFUSED, WORST, all_cases
from profiles.tests.imports import confirm_upload, make_import, make_upload
from profiles.tests.pages import make_result
from profiles.tests.response_checks import more_profile_urls, profile_urls, response_faults
from testdata import good_profile
from webprofile.errors import DomainError
from webprofile.messages.errors import word
from webprofile.storage import storage as object_store

pytestmark = pytest.mark.django_db

CASES = all_cases()
OPENED = [name for name in CASES if name not in REFUSED]


def in_groups(names, size):
    """Divide cases into groups; a test for each would mostly set up its database and bucket."""
    return [names[at : at + size] for at in range(0, len(names), size)]


def faults_at(client, address):
    """Return what is wrong with the response of an address; warnings are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        response = client.get(address)
    problems = response_faults(response)
    return (
        problems if response.status_code == 200 else [f"status {response.status_code}", *problems]
    )


@pytest.mark.parametrize("names", in_groups(list(REFUSED), 35))
def test_what_is_no_profile_is_refused_with_its_cause_and_what_to_do(client, alice, names):
    uploads = {name: make_import(alice, CASES[name], name=name) for name in names}
    assert {name: upload.problem for name, upload in uploads.items()} == {
        n: REFUSED[n] for n in names
    }
    assert {upload.state for upload in uploads.values()} == {"failed"}
    assert all(upload.problem_detail for upload in uploads.values())
    for upload in {upload.problem: upload for upload in uploads.values()}.values():
        check_words(client, upload)


def check_words(client, upload):
    """Check that the page names the problem in both languages."""
    pages = []
    for language in ("en", "zh-hans"):
        with translation.override(language):
            sentence = word(
                DomainError(f"opened_{upload.problem}", name=f"\u2068{upload.name}\u2069")
            )
        page = client.get(f"/profiles/opened/{upload.pk}/", headers={"Accept-Language": language})
        assert response_faults(page) == []
        assert escape(sentence) in page.content.decode()
        pages.append(sentence)
    assert pages[0] != pages[1]


@pytest.mark.exhaustive
@pytest.mark.parametrize("names", in_groups(OPENED, 12))
def test_what_can_be_opened_has_every_page(client, alice, names):
    good = make_import(alice, good_profile("two_inputs")).profile
    wrong = {}
    for name in names:
        upload = make_import(alice, CASES[name], name=name)
        assert (upload.state, upload.problem) == ("ready", ""), (name, upload.problem_detail)
        profile = upload.profile
        for address in profile_urls(profile, f"/profiles/{profile.pk}/", good):
            problems = faults_at(client, address)
            if problems and not (name in EMPTY and "/operators/0/" in address):
                wrong[name, address] = problems
    assert wrong == {}


@pytest.mark.parametrize("names", in_groups(WORST, 3))
def test_the_worst_have_every_order_filter_and_view(client, alice, names):
    other = make_result(good_profile("two_inputs"), owner=alice)
    wrong = {}
    for name in names:
        profile = make_result(CASES[name], owner=alice)
        page = f"/tasks/{profile.attempt.task_id}/result/"
        for address in more_profile_urls(profile, page, other):
            if problems := faults_at(client, address):
                wrong[name, address] = problems
    assert wrong == {}


def test_several_gigabytes_are_refused_before_a_byte_is_read(client, alice):
    announced = {"name": "p.json", "size_bytes": 5 << 30, "md5": "0" * 32, "head": "e30="}
    response = client.post(
        "/api/v1/profiles/opened/", {"files": [announced]}, content_type="application/json"
    )
    assert response.status_code == 422
    assert "MiB" in response.json()["detail"]


def test_what_grew_after_it_was_announced_is_refused_by_its_size(client, alice, settings):
    settings.PROFILE_SIZE_LIMIT_BYTES = 20_000
    upload = make_upload(alice, hostile.chain(10))
    confirm_upload(upload)
    object_store.write(upload.files.get().object_key, hostile.chain(500))
    build_opened(upload.pk)
    upload.refresh_from_db()
    assert (upload.state, upload.problem) == ("failed", "too_large")


@pytest.mark.exhaustive
def test_a_million_operators_stop_at_the_limits_and_the_site_goes_on(client, alice, settings):
    settings.PROFILE_PARSE_MEMORY_BYTES = 200 << 20
    upload = make_import(alice, hostile.chain(60_000))
    assert (upload.state, upload.problem) == ("failed", "too_heavy")
    assert "200 MiB" in upload.problem_detail
    assert make_import(alice, good_profile("two_inputs")).state == "ready"


def test_a_hostile_pass_is_left_out_and_named_beside_the_good_ones(client, alice):
    good = good_profile("two_inputs")
    other = CASES["nodes that disagree"]
    profile = make_result(good, CASES["NaN"], CASES["cut in half"], other, owner=alice)
    page = client.get(f"/tasks/{profile.attempt.task_id}/result/")
    assert response_faults(page) == []
    assert "profile-3.json" in page.content.decode()
    peer = make_result(good, owner=alice)
    task = f"/tasks/{profile.attempt.task_id}/result/"
    wrong = {address: faults_at(client, address) for address in profile_urls(profile, task, peer)}
    assert {address: problems for address, problems in wrong.items() if problems} == {}


def test_operators_with_thousands_of_tensors_do_not_make_endless_files(client, alice, monkeypatch):
    monkeypatch.setattr("profiles.analysis.text.MOST_LINES", 100_000)
    wide = [[1]] * 10_000
    data = hostile.damaged(hostile.footprints(in_shapes=wide, out_shapes=wide))
    root = f"/profiles/{make_import(alice, data).profile.pk}/export"
    response = client.get(f"{root}/text/")
    assert response.status_code == 422
    assert "at most 100,000 are printed" in response.content.decode()
    assert len(client.get(f"{root}/report/").content) < 1_000_000
