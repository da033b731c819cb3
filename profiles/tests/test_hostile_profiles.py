"""Damaged and hostile profiles: refused with a reason, or shown on every page."""

import warnings

import pytest
from django.utils import translation
from django.utils.html import escape

from profiles.actors import build_opened
from profiles.tests import hostile
from profiles.tests.hostile_cases import EMPTY, REFUSED, WORST, all_cases
from profiles.tests.imports import confirm_upload, make_import, make_upload
from profiles.tests.pages import make_result, whole_page
from profiles.tests.response_checks import more_profile_urls, profile_urls, response_faults
from testdata import good_profile
from webprofile.errors import DomainError
from webprofile.messages.errors import word
from webprofile.storage import storage as object_store

pytestmark = pytest.mark.django_db

CASES = all_cases()
ACCEPTED = [name for name in CASES if name not in REFUSED]


def split_into_groups(names, size):
    """Divide cases into groups; a test for each would mostly set up its database and bucket."""
    return [names[at : at + size] for at in range(0, len(names), size)]


def faults_at(client, address):
    """Return what is wrong with the response of an address; warnings are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        response = client.get(address)
    problems = response_faults(response)
    if response.status_code == 200:
        return problems
    return [f"status {response.status_code}", *problems]


@pytest.mark.parametrize("names", split_into_groups(list(REFUSED), 35))
def test_damaged_files_are_refused_with_the_cause_in_both_languages(client, alice, names):
    uploads = {name: make_import(alice, CASES[name], name=name) for name in names}
    problems = {name: upload.problem for name, upload in uploads.items()}
    assert problems == {name: REFUSED[name] for name in names}
    assert {upload.state for upload in uploads.values()} == {"failed"}
    assert all(upload.problem_detail for upload in uploads.values())
    for upload in {upload.problem: upload for upload in uploads.values()}.values():
        check_messages(client, upload)


def check_messages(client, upload):
    """Check that the page names the problem in both languages."""
    messages = []
    for language in ("en", "zh-hans"):
        with translation.override(language):
            error = DomainError(f"opened_{upload.problem}", name=f"\u2068{upload.name}\u2069")
            sentence = word(error)
        page = client.get(f"/profiles/opened/{upload.pk}/", headers={"Accept-Language": language})
        assert response_faults(page) == []
        assert escape(sentence) in page.text
        messages.append(sentence)
    assert messages[0] != messages[1]


@pytest.mark.exhaustive
@pytest.mark.parametrize("names", split_into_groups(ACCEPTED, 12))
def test_damaged_profiles_that_are_accepted_have_every_page(client, alice, names):
    good = make_import(alice, good_profile("two_inputs")).profile
    faults = {}
    for name in names:
        upload = make_import(alice, CASES[name], name=name)
        assert (upload.state, upload.problem) == ("ready", ""), (name, upload.problem_detail)
        profile = upload.profile
        for address in profile_urls(profile, f"/profiles/{profile.pk}/", good):
            problems = faults_at(client, address)
            if problems and not (name in EMPTY and "/operators/0/" in address):
                faults[name, address] = problems
    assert faults == {}


@pytest.mark.exhaustive
@pytest.mark.parametrize("names", split_into_groups(WORST, 3))
def test_the_worst_profiles_have_every_order_filter_and_view(client, alice, names):
    other = make_result(good_profile("two_inputs"), owner=alice)
    # all before the pages, which take so long on a busy machine that the device becomes offline
    profiles = {name: make_result(CASES[name], owner=alice) for name in names}
    faults = {}
    for name, profile in profiles.items():
        page = f"/tasks/{profile.attempt.task_id}/"
        for address in more_profile_urls(profile, page, other):
            if problems := faults_at(client, address):
                faults[name, address] = problems
    assert faults == {}


def test_an_upload_of_several_gigabytes_is_refused_before_it_is_sent(client, alice):
    announced = {"name": "p.json", "size_bytes": 5 << 30, "md5": "0" * 32, "head": "e30="}
    response = client.post(
        "/api/v1/profiles/opened/", {"files": [announced]}, content_type="application/json"
    )
    assert response.status_code == 422
    assert "MiB" in response.json()["detail"]


def test_a_file_larger_than_announced_is_refused(alice, settings):
    settings.PROFILE_SIZE_LIMIT_BYTES = 20_000
    upload = make_upload(alice, hostile.chain_profile(10))
    confirm_upload(upload)
    object_store.write(upload.files.get().object_key, hostile.chain_profile(500))
    build_opened(upload.pk)
    upload.refresh_from_db()
    assert (upload.state, upload.problem) == ("failed", "too_large")


@pytest.mark.exhaustive
def test_a_profile_over_the_memory_limit_does_not_affect_the_next_one(alice, settings):
    settings.PROFILE_PARSE_MEMORY_BYTES = 200 << 20
    upload = make_import(alice, hostile.chain_profile(60_000))
    assert (upload.state, upload.problem) == ("failed", "too_heavy")
    assert "200 MiB" in upload.problem_detail
    assert make_import(alice, good_profile("two_inputs")).state == "ready"


def test_a_damaged_pass_is_omitted_and_named(client, alice):
    valid = good_profile("two_inputs")
    other = CASES["nodes that disagree"]
    profile = make_result(valid, CASES["NaN"], CASES["cut in half"], other, owner=alice)
    task = f"/tasks/{profile.attempt.task_id}/"
    assert "profile-3.json" in whole_page(client, task)
    peer = make_result(valid, owner=alice)
    faults = {address: faults_at(client, address) for address in profile_urls(profile, task, peer)}
    assert {address: problems for address, problems in faults.items() if problems} == {}


def test_exports_of_operators_with_thousands_of_tensors_are_limited(client, alice, monkeypatch):
    monkeypatch.setattr("profiles.analysis.text.MOST_LINES", 100_000)
    wide = [[1]] * 10_000
    data = hostile.damage(hostile.set_footprints(in_shapes=wide, out_shapes=wide))
    root = f"/profiles/{make_import(alice, data).profile.pk}/export"
    response = client.get(f"{root}/text/")
    assert response.status_code == 422
    assert "at most 100,000 are printed" in response.text
    assert len(client.get(f"{root}/report/").content) < 1_000_000
