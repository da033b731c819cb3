"""Share links: what readers see, when links end, and what they do not permit."""

import re
from collections import Counter
from datetime import timedelta
from functools import partial

import pytest
import structlog
from django.core.cache import cache
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from accounts.models import AuditEntry
from profiles import sharing
from profiles.imports.uploads import delete_import
from profiles.models import Profile, Share
from profiles.retention.deletion import delete_task
from profiles.retention.policy import retention_sweep
from profiles.sharing import create_share, revoke_share
from profiles.tests.imports import make_import
from profiles.tests.make import (
    SLOWER,
    finish_in_pairs,
    make_pairing,
    make_script_profile,
    put_files,
)
from profiles.tests.pages import make_result
from profiles.tests.response_checks import response_faults
from tasks.models import LogChunk, Task, TaskFile
from tasks.tests.make import data_file, make_user, make_waiting_task, model_file
from testdata import DATA, good_profile
from webprofile.errors import DomainError
from webprofile.observability.requests import loggable, route_class
from webprofile.observability.tests.parts import json_lines
from webprofile.storage import storage
from workers.models import LastHeartbeat

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("module_data")]

ALL = tuple(Share.Part.values)
KINDS = ("measured", "import", "script", "comparison")
#: values of links of a shared page that leave it: pages without a login, and the site's files
_OUTSIDE = ("/s/", "/static/", "/netron/", "/perfetto/", "/docs/options/", "#", "?", "data:")


@pytest.fixture(scope="module")
def hidden(owner) -> list[int]:
    """Tasks of the owner that are not shared."""
    hidden = [make_result(good_profile("tiny"), owner=owner).attempt.task_id for _ in range(3)]
    Task.objects.filter(pk__in=hidden).update(title="unsharedtask")
    return hidden


@pytest.fixture(scope="module")
def results(owner, script_files) -> dict[str, list[int]]:
    """The profiles of a result of each kind."""
    measured, *compared = (make_result(good_profile("tiny"), owner=owner) for _ in range(3))
    for profile in (measured, compared[0]):
        store_model(profile)
    imported = make_import(owner, good_profile("tiny"), name="imported").profile
    script = make_script_profile(script_files, owner)
    kinds = dict(zip(KINDS, ([measured], [imported], [script], compared), strict=True))
    return {kind: [profile.pk for profile in profiles] for kind, profiles in kinds.items()}


@pytest.fixture
def alice(client, owner):
    client.force_login(owner)
    # a device whose tests take long becomes offline
    LastHeartbeat.objects.update(last_seen_at=timezone.now())
    return owner


@pytest.fixture
def reader() -> Client:
    return Client()


def share(owner, kind, *ids, parts=(), days=30):
    """Create a link; return the address of its page."""
    _, token = create_share(owner, kind=kind, ids=ids, parts=parts, days=days)
    return f"/s/{token}/"


def store_model(profile):
    """Store the model of the profile's task, and return its file."""
    model = profile.attempt.task.files.get(kind="model")
    storage.write(model.object_key, (DATA / "models" / "tiny.mge").read_bytes())
    TaskFile.objects.filter(pk=model.pk).update(stored_at=timezone.now())
    return model


def share_of(kind, owner, results, parts=()):
    """Create a link to the result of this kind; return the address and the first profile."""
    profile = Profile.objects.get(pk=results[kind][0])
    if kind in ("import", "comparison"):
        return share(owner, kind, *results[kind]), profile
    return share(owner, "task", profile.attempt.task_id, parts=parts), profile


def pages_of(client, address):
    """Return the responses that the page and its views link to, two of each route."""
    counts = Counter()
    first = client.get(address)
    assert first.status_code == 200, first.text
    responses = {address: first}
    waiting = [(address, first)]
    while waiting:
        page, response = waiting.pop()
        assert response_faults(response) == []
        found = re.findall(r'(?:href|src|action|data-[a-z]+)="([^"]*)"', response.text)
        for url in (url.replace("&amp;", "&").partition("#")[0] for url in found):
            url = f"{page.partition('?')[0]}{url}" if url.startswith("?") else url
            url = f"{url}0/" if url.endswith("/operators/") and "charts" not in url else url
            route = re.sub(r"\d+|\?.*", "", url)
            if not url.startswith("/s/") or url in responses or counts[route] == 2:
                continue
            counts[route] += 1
            answer = client.get(url)
            responses[url] = answer
            if answer.get("Content-Type", "").startswith("text/html") and answer.status_code == 200:
                waiting.append((url, answer))
    return responses


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parts", [(), ALL], ids=["default", "everything"])
def test_a_page_and_all_that_it_fetches_is_readable_without_a_login(
    reader, alice, results, hidden, kind, parts
):
    address, _ = share_of(kind, alice, results, parts)
    responses = pages_of(reader, address)
    assert len(responses) > 3
    for url, response in responses.items():
        assert response.status_code in (200, 302), (url, response.status_code)
        if response.status_code == 302:
            assert "X-Amz-Expires=60&" in response["Location"]
            continue
        text = response.getvalue().decode(errors="replace")
        text += "".join(f"{name}: {value}\n" for name, value in response.items())
        assert "alice@" not in text
        assert "unsharedtask" not in text
        for task in hidden:
            assert f"/tasks/{task}" not in text
            assert f"#{task}<" not in text
        assert "csrf" not in text.lower()
        outside = re.findall(r'\b(?:href|src|action)="([^"]*)"', text)
        assert [link for link in outside if not link.startswith(_OUTSIDE)] == []
        assert dict(response.cookies) == {}
        assert response["Cache-Control"] == "no-store"
        assert response["X-Robots-Tag"] == "noindex, nofollow"
        assert response["Referrer-Policy"] == "no-referrer"
        if "image.svg" not in url:
            assert "frame-ancestors 'none'" in response["Content-Security-Policy"]


def test_a_comparison_shows_no_arguments_and_no_names_of_files(reader, alice, script_files):
    profiles = [make_script_profile(script_files, alice) for _ in range(2)]
    TaskFile.objects.update(md5="0123456789abcdef")
    page = reader.get(share(alice, "comparison", *(profile.pk for profile in profiles))).text
    assert 'id="runs"' in page
    assert "--steps" not in page
    assert "0123456789abcdef" not in page


@pytest.mark.parametrize("parts", [(), ALL], ids=["figures", "all"])
def test_a_paired_comparison_shows_names_of_files_and_inputs_only_if_they_were_chosen(
    reader, alice, parts
):
    files = [model_file(), data_file(name="secret.npy"), data_file(name="other.npy", arm=1)]
    task = make_waiting_task(alice, pairing=make_pairing(), files=files)
    finish_in_pairs(task, SLOWER)
    put_files(task)
    address = share(alice, "task", task.pk, parts=parts)
    texts = "".join(page.text for page in pages_of(reader, address).values())
    assert "B is 10.0 % slower than A" in texts
    assert ("secret.npy" in texts, "other.npy" in texts) == (bool(parts), bool(parts))
    assert alice.email not in texts


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_the_same_for_its_owner_for_other_users_and_for_nobody(
    client, reader, alice, results, kind
):
    address, _ = share_of(kind, alice, results)
    bob, root = Client(), Client()
    bob.force_login(make_user("bob"))
    root.force_login(make_user("root", is_staff=True))
    texts = {person.get(address).text for person in (reader, client, bob, root)}
    assert len(texts) == 1
    assert "Log out" not in texts.pop()
    # with credentials of a script
    assert client.get(address, headers={"Authorization": "Bearer nonsense"}).status_code == 200


def test_a_page_is_in_the_language_that_the_reader_chose_on_the_site(reader, alice, results):
    address, _ = share_of("measured", alice, results)
    reader.cookies["django_language"] = "zh-hans"
    assert "算子" in reader.get(address).text


def test_a_link_shows_log_inputs_and_model_only_if_they_were_chosen(reader, alice):
    profile = make_result(good_profile("tiny"), owner=alice)
    attempt, task = profile.attempt, profile.attempt.task
    attempt.command = "load_and_run --secretflag"
    attempt.save()
    Profile.objects.update(warnings=["a warning with a path"])
    LogChunk.objects.create(attempt=attempt, seq=99, offset=0, size=11, text="logged line")
    model = store_model(profile)
    address = share(alice, "task", task.pk)
    text = reader.get(f"{address}details/").text + reader.get(address).text
    assert "secretflag" not in text
    assert "a warning with a path" not in text
    for path in ("files/", "model/", f"files/{model.pk}/"):
        assert reader.get(f"{address}{path}").status_code == 404
    assert "Uploaded model" not in reader.get(f"{address}graph/").text

    address = share(alice, "task", task.pk, parts=["log"])
    assert "logged line" in reader.get(f"{address}files/").text
    assert "secretflag" in reader.get(f"{address}details/").text
    assert reader.get(f"{address}model/").status_code == 404

    address = share(alice, "task", task.pk, parts=["model"])
    page = reader.get(f"{address}files/").text
    assert "logged line" not in page
    assert model.name in page
    assert "X-Amz-Expires=60&" in reader.get(f"{address}files/{model.pk}/")["Location"]
    assert 'id="model-graph"' in reader.get(f"{address}model/").text
    assert "Uploaded model" in reader.get(f"{address}graph/").text


def test_a_link_of_one_result_opens_no_other(reader, alice, results):
    address, profile = share_of("measured", alice, results)
    other = make_result(good_profile("tiny"), owner=alice)
    model = other.attempt.task.files.get(kind="model")
    for path in (
        f"files/{model.pk}/", "data/raw/1/", "export/original/1/", "trace/", "export/csv/",
        "data/compare/graph/", "data/compare/timelines/", "shares/", "tasks/", f"{other.pk}/",
        "status/", "../../tasks/",
        "%2e%2e/%2e%2e/tasks/", "..%2f..%2ftasks%2f", "operators/99999/",
    ):  # fmt: skip
        assert reader.get(f"{address}{path}").status_code in (404, 409), path
    # numbers in the query choose nothing
    chart = f"{address}data/charts/types/"
    assert reader.get(f"{chart}?profile_id={other.pk}").status_code == 200
    compared, _ = share_of("comparison", alice, results)
    page = reader.get(f"{compared}?p={other.pk}&p={other.pk}")
    assert page.status_code == 200
    assert f"p={other.pk}&" not in page.text
    assert profile.pk


def test_the_reader_of_a_comparison_gets_its_timelines(reader, alice, results):
    address, _ = share_of("comparison", alice, results)
    page = reader.get(address).text
    url = re.search(r'data-chart="timelines" data-url="([^"]+)"', page)[1].replace("&amp;", "&")
    assert url.startswith(f"{address}data/compare/timelines/")
    assert {lane["letter"] for lane in reader.get(url).json()["lanes"]} == {"A", "B"}


def test_the_token_opens_nothing_outside_of_its_own_address(reader, alice, results):
    address, profile = share_of("measured", alice, results)
    token = address.split("/")[2]
    reader.cookies["sessionid"] = token
    task = profile.attempt.task_id
    for path in (
        f"/tasks/{task}/", f"/profiles/{profile.pk}/", "/tasks/", f"/profiles/{profile.pk}/trace/",
        f"/tasks/{task}/?token={token}", f"/tasks/{task}/files/1/", f"/profiles/shares/?t={token}",
    ):  # fmt: skip
        response = reader.get(path, headers={"Authorization": f"Bearer {token}"})
        assert response.status_code == 302, path
        assert "login" in response["Location"]
    response = reader.get(
        f"/api/v1/profiles/{profile.pk}/", headers={"Authorization": f"Bearer {token}"}
    )
    assert response.status_code == 401


def test_a_link_can_only_be_read(reader, client, alice, results):
    address, _ = share_of("measured", alice, results)
    for method in ("post", "put", "patch", "delete", "options", "trace"):
        for person in (reader, client):
            response = getattr(person, method)(address)
            assert response.status_code == 405, method
            assert response["Cache-Control"] == "no-store"
            assert not response.cookies
    assert reader.head(address).status_code == 200


def ended(address, reader):
    """Whether the page and the data of a link that was valid are gone now."""
    page = reader.get(address)
    data = reader.get(f"{address}data/charts/types/", headers={"Accept": "application/json"})
    assert page.status_code == data.status_code
    if page.status_code != 410:
        return False
    assert 'id="share-ended"' in page.text
    assert response_faults(page) == []
    assert data.json()["code"] == "share_ended"
    assert page["Cache-Control"] == "no-store"
    return True


def test_a_link_ends_when_it_is_revoked_or_expires(reader, alice, results, settings):
    address, _ = share_of("measured", alice, results)
    assert not ended(address, reader)
    shared = Share.objects.get()
    assert revoke_share(shared, by=alice)
    assert not revoke_share(shared, by=alice)
    assert ended(address, reader)

    address, _ = share_of("import", alice, results)
    shared = Share.objects.first()
    Share.objects.filter(pk=shared.pk).update(expires_at=timezone.now())
    assert ended(address, reader)

    # a lower limit of the site also ends links that exist
    address, _ = share_of("import", alice, results)
    Share.objects.update(created_at=timezone.now() - timedelta(days=9))
    assert not ended(address, reader)
    settings.SHARE_DAYS_LIMIT = 8
    assert ended(address, reader)


def test_links_that_a_lower_limit_of_the_site_ended_do_not_count(alice, settings, monkeypatch):
    monkeypatch.setattr(sharing, "SHARES_LIMIT", 1)
    task = make_result(good_profile("tiny"), owner=alice).attempt.task_id
    create = partial(create_share, alice, kind="task", ids=[task], parts=[])
    create()
    Share.objects.update(created_at=timezone.now() - timedelta(days=9))
    with pytest.raises(DomainError, match="share_limit"):
        create()
    settings.SHARE_DAYS_LIMIT = 8
    create()


def test_a_link_has_the_rights_that_its_creator_has_now(reader, alice, results):
    addresses = {kind: share_of(kind, alice, results) for kind in KINDS}
    assert all(reader.get(address).status_code == 200 for address, _ in addresses.values())
    alice.is_active = False
    alice.save()
    assert all(reader.get(address).status_code == 410 for address, _ in addresses.values())
    alice.is_active = True
    alice.save()
    assert all(reader.get(address).status_code == 200 for address, _ in addresses.values())
    # deleted results; a comparison ends with any of its results
    for kind in ("measured", "script", "comparison"):
        delete_task(addresses[kind][1].attempt.task, by=alice)
    delete_import(addresses["import"][1].upload, by=alice)
    assert all(reader.get(address).status_code == 410 for address, _ in addresses.values())


def test_a_result_that_belongs_to_somebody_else_now_is_gone(reader, alice, results):
    address, profile = share_of("measured", alice, results)
    Task.objects.filter(pk=profile.attempt.task_id).update(owner=make_user("bob"))
    assert ended(address, reader)


def test_an_unknown_token_is_not_found(reader, db):
    for token in ("mws_" + "A" * 43, "mws_", "x", "mws_" + "A" * 44, "mwp_" + "A" * 40, "%00"):
        for path in ("", "data/charts/types/", "operators/0/"):
            response = reader.get(f"/s/{token}/{path}")
            assert response.status_code == 404, token
            assert response["X-Robots-Tag"] == "noindex, nofollow"
            assert not response.cookies
            assert "Log in" not in response.text


def test_no_link_works_while_they_are_turned_off(reader, client, alice, settings):
    profile = make_result(good_profile("tiny"), owner=alice)
    task = profile.attempt.task_id
    address = share(alice, "task", task)
    assert 'id="share"' in client.get(f"/tasks/{task}/").text
    settings.SHARE_DAYS_LIMIT = 0
    assert reader.get(address).status_code == 404
    assert 'id="share"' not in client.get(f"/tasks/{task}/").text
    form = client.post(f"/profiles/shares/?task={task}", {"days": 1})
    assert (form.status_code, "turned off" in form.text) == (403, True)
    answer = client.post("/api/v1/shares/", {"task": task}, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (403, "share_off")


def test_requests_are_limited_by_link_and_by_address(reader, alice, settings):
    profile = make_result(good_profile("tiny"), owner=alice)
    address = share(alice, "task", profile.attempt.task_id)
    settings.API_RATES = {"share_link": "2/min", "share_address": "5/min"}
    assert [reader.get(address).status_code for _ in range(3)] == [200, 200, 429]
    refused = reader.get(address, headers={"Accept": "application/json"})
    assert refused.json()["code"] == "throttled"
    assert int(refused["Retry-After"]) <= 60
    # unknown tokens count for the address
    assert [reader.get("/s/unknown/").status_code for _ in range(2)] == [404, 429]
    cache.clear()
    assert reader.get(address).status_code == 200


def test_views_are_counted_and_the_first_is_recorded(reader, alice, results):
    address, _ = share_of("measured", alice, results)
    reader.head(address)
    assert Share.objects.get().views == 0
    for path in ("", "", "details/", "data/charts/types/"):
        assert reader.get(f"{address}{path}").status_code == 200
    shared = Share.objects.get()
    assert shared.views == 2
    revoke_share(shared, by=alice)
    actions = AuditEntry.objects.order_by("pk").values_list("action", "actor")
    assert list(actions) == [
        ("share.create", alice.pk),
        ("share.view", None),
        ("share.revoke", alice.pk),
    ]
    token = address.split("/")[2]
    stored = [*AuditEntry.objects.values_list(), *Share.objects.values_list()]
    assert token not in str(stored)


def test_no_log_contains_a_token(reader, alice, monkeypatch):
    profile = make_result(good_profile("tiny"), owner=alice)
    address = share(alice, "task", profile.attempt.task_id)
    token = address.split("/")[2]
    # an error in a view, which Django logs with the path
    monkeypatch.setattr("profiles.views.shares.open_share", lambda share: 1 / 0)
    reader.raise_request_exception = False
    with json_lines("DEBUG") as lines:
        assert reader.get(address).status_code == 500
        reader.get("/s/unknown/")
        reader.post(address)
        structlog.get_logger().error("event", path=address, nested={"url": [address]})
    logged = "".join(lines.texts)
    assert "Internal Server Error" in logged
    assert "mws_*" in logged
    assert token not in logged
    assert loggable(f"{address}details/") == "/s/*/details/"
    assert route_class(address) == "shares"


# -- pages of the creator ----


def test_the_owner_creates_copies_and_revokes_a_link(client, reader, alice):
    profile = make_result(good_profile("tiny"), owner=alice)
    task = profile.attempt.task_id
    (link,) = re.findall(r'id="share" href="([^"]+)"', client.get(f"/tasks/{task}/").text)
    page = client.get(link)
    assert response_faults(page) == []
    assert 'name="days" min="1" max="365" value="30"' in page.text
    made = client.post(link, {"days": 30, "parts": ["log"]})
    assert response_faults(made) == []
    (url,) = re.findall(r'value="(http://testserver/s/mws_[\w-]{43}/)"', made.text)
    assert reader.get(url).status_code == 200
    # shown once
    listing = client.get(reverse("profiles:shares"))
    token = url.split("/")[-2]
    assert token not in listing.text
    assert token[:10] in listing.text
    shared = Share.objects.get()
    assert shared.parts == ["log"]
    assert client.post(f"/profiles/shares/{shared.pk}/revoke/").status_code == 302
    assert reader.get(url).status_code == 410
    assert "revoked" in client.get(reverse("profiles:shares")).text


def test_the_lifetime_is_limited(client, alice):
    profile = make_result(good_profile("tiny"), owner=alice)
    for days in ("0", "366", "", "x", "-1"):
        response = client.post(f"/profiles/shares/?task={profile.attempt.task_id}", {"days": days})
        assert response.status_code == 422, days
        assert "1 to 365 days" in response.text
        assert not Share.objects.exists()


def test_the_usual_lifetime_is_within_the_limit_of_the_site(client, alice, settings):
    settings.SHARE_DAYS_LIMIT = 7
    task = make_result(good_profile("tiny"), owner=alice).attempt.task_id
    assert 'max="7" value="7"' in client.get(f"/profiles/shares/?task={task}").text
    made = client.post("/api/v1/shares/", {"task": task}, content_type="application/json")
    assert made.status_code == 201, made.json()
    shared = Share.objects.get()
    assert round((shared.expires_at - shared.created_at) / timedelta(days=1)) == 7


@pytest.mark.parametrize(("days", "is_made"), [(0, False), (3650, True), (3651, False)])
def test_form_and_api_accept_the_same_days(client, alice, settings, days, is_made):
    settings.SHARE_DAYS_LIMIT = 3650
    task = make_result(good_profile("tiny"), owner=alice).attempt.task_id
    posted = client.post(f"/profiles/shares/?task={task}", {"days": days})
    made = client.post(
        "/api/v1/shares/", {"task": task, "days": days}, content_type="application/json"
    )
    assert (posted.status_code, made.status_code) == ((200, 201) if is_made else (422, 422))


def test_only_the_owner_can_share_a_result(client, alice):
    mine = make_result(good_profile("tiny"), owner=alice)
    theirs = make_result(good_profile("tiny"), owner=make_user("bob"))
    task = theirs.attempt.task_id
    root = Client()
    root.force_login(make_user("root", is_staff=True))
    for person in (client, root):
        for query in (f"task={task}", f"p={mine.pk}&p={theirs.pk}", f"profile={theirs.pk}"):
            assert person.get(f"/profiles/shares/?{query}").status_code == 404
        body = {"profiles": [mine.pk, theirs.pk]}
        response = person.post("/api/v1/shares/", body, content_type="application/json")
        assert response.status_code == 404
    # an administrator sees the page of all results
    assert 'id="share"' not in root.get(f"/tasks/{task}/").text


def test_links_are_created_listed_and_revoked_by_the_api(client, reader, alice):
    profile = make_result(good_profile("tiny"), owner=alice)
    other = make_import(alice, good_profile("tiny"), name="imported").profile
    bodies = (
        {"task": profile.attempt.task_id, "parts": ["model"], "days": 3},
        {"profile": other.pk},
        {"profiles": [profile.pk, other.pk]},
    )
    for body in bodies:
        made = client.post("/api/v1/shares/", body, content_type="application/json")
        assert made.status_code == 201, made.json()
        assert reader.get(made.json()["url"]).status_code == 200
    rows = client.get("/api/v1/shares/").json()["results"]
    assert [row["kind"] for row in rows] == ["comparison", "import", "task"]
    assert all("url" not in row and row["views"] == 1 for row in rows)
    bob = Client()
    bob.force_login(make_user("bob"))
    assert bob.get("/api/v1/shares/").json()["results"] == []
    assert bob.delete(f"/api/v1/shares/{rows[0]['id']}/").status_code == 404
    for _ in range(2):
        assert client.delete(f"/api/v1/shares/{rows[0]['id']}/").status_code == 204
    assert reader.get(made.json()["url"]).status_code == 410


def test_the_api_refuses_an_unclear_request(client, alice):
    for body in ({}, {"task": 1, "profile": 1}, {"task": 1, "parts": ["all"]}):
        response = client.post("/api/v1/shares/", body, content_type="application/json")
        assert response.status_code == 422, body


def test_administrators_list_and_revoke_all_links(client, reader, alice):
    profile = make_result(good_profile("tiny"), owner=alice)
    address = share(alice, "task", profile.attempt.task_id)
    root = Client()
    root.force_login(make_user("root", is_staff=True, is_superuser=True))
    shared = Share.objects.get()
    address_of_list = reverse("admin:profiles_share_changelist")
    page = root.get(address_of_list)
    assert shared.prefix in page.text
    assert "alice@" in page.text
    root.post(address_of_list, {"action": "revoke", "_selected_action": [shared.pk]})
    assert reader.get(address).status_code == 410
    assert AuditEntry.objects.filter(action="share.revoke", actor__email="root@example.com")


def test_the_sweep_deletes_links_that_ended_long_ago(alice, reader, settings):
    settings.SHARE_KEPT_DAYS = 90
    task = make_result(good_profile("tiny"), owner=alice).attempt.task_id
    addresses = [share(alice, "task", task) for _ in range(5)]
    ages = [{"expires_at": 91}, {"revoked_at": 91}, {"expires_at": 89}, {"revoked_at": 89}, {}]
    now = timezone.now()
    for link, changes in zip(Share.objects.order_by("pk"), ages, strict=True):
        times = {field: now - timedelta(days=days) for field, days in changes.items()}
        Share.objects.filter(pk=link.pk).update(**times)
    retention_sweep()
    assert [reader.get(address).status_code for address in addresses] == [404, 404, 410, 410, 200]
    assert AuditEntry.objects.filter(action="share.create").count() == 5
