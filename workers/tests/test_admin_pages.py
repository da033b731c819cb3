"""The admin pages of devices and pools."""

import datetime
import re

import pytest
from django.contrib.admin import site
from django.utils import timezone, translation

from accounts.models import AuditEntry
from agent.protocol.notes import Note
from tasks.tests.make import (
    FACTS,
    RUNTIMES,
    just_before_writing,
    make_attempt,
    make_user,
    make_waiting_task,
    make_worker,
    set_last_heartbeat,
)
from webprofile.tests.admin_messages import messages_in
from workers.models import Grant, HealthCheck, Pool, Worker
from workers.services import introduce_worker
from workers.tests.make import run_admin_action
from workers.tokens import check_token, redeem_code

pytestmark = [pytest.mark.django_db, pytest.mark.database]

FORM = {"name": "box", "slots": "1", "labels": ""}
LIST = "/admin/workers/worker/"


@pytest.fixture
def root(client, root):
    client.force_login(root)
    return root


def code_in(page: str) -> str:
    match = re.search(r"--code (mge_[\w-]+)", page)
    assert match, page
    return match[1]


def change_url(worker: Worker) -> str:
    return f"{LIST}{worker.pk}/change/"


def act(client, worker: Worker, name: str, **data: str) -> str:
    """Run an action on the page of the device; return the next page."""
    return run_admin_action(client, worker, name, **data).text


def test_a_new_device_shows_its_enrolment_code_once(client, root):
    form = FORM | {"name": "jetson", "is_public": "on"}
    answer = client.post(f"{LIST}add/", form, follow=True)
    assert "no-store" in answer.headers["Cache-Control"]
    worker, token = redeem_code(code_in(answer.text))
    assert (worker.name, worker.is_public) == ("jetson", True)
    assert check_token(token) == worker
    for url in (f"{LIST}enrolled/", LIST, change_url(worker)):
        assert "mge_" not in client.get(url).text


def test_several_devices_are_enrolled_each_with_its_command(client, root):
    workers = [make_worker("box"), make_worker("board")]
    data = {
        "action": "enrol",
        "confirm": "yes",
        "_selected_action": [worker.pk for worker in workers],
    }
    page = client.post(LIST, data, follow=True).text
    codes = set(re.findall(r"mge_[\w-]+", page))
    assert {redeem_code(code)[0].name for code in codes} == {"box", "board"}
    assert "curl -fsS" in page


def test_revocation_needs_confirmation_and_a_new_code_enrols_again(client, root):
    worker = make_worker("box")
    _, token = redeem_code(code_in(act(client, worker, "enrol", confirm="yes")))
    assert "Disconnects the agent immediately" in act(client, worker, "revoke")
    assert check_token(token) == worker
    act(client, worker, "revoke", confirm="yes")
    with pytest.raises(Exception, match="token_revoked"):
        check_token(token)
    redeem_code(code_in(act(client, worker, "enrol", confirm="yes")))


def test_draining_several_devices_reports_those_already_drained(client, root):
    box, board = make_worker("box"), make_worker("board", is_enabled=False)
    data = {"action": "drain", "_selected_action": [box.pk, board.pk]}
    page = client.post(LIST, data, follow=True).text
    assert messages_in(page) == [
        "box is drained: it gets no new tasks; running tasks continue.",
        "board was already drained.",
    ]
    assert not Worker.objects.filter(is_enabled=True).exists()


def test_retirement_needs_confirmation_and_removes_the_device_from_lists(client, root):
    worker = make_worker("box")
    assert "cannot be undone" in act(client, worker, "retire")
    worker.refresh_from_db()
    assert worker.retired_at is None
    page = act(client, worker, "retire", confirm="yes")
    assert messages_in(page) == [f"box.retired-{worker.pk} has been retired."]
    assert 'name="_save"' not in page
    for url in (LIST, "/workers/", "/api/v1/workers/", "/tasks/new/"):
        assert "box.retired" not in client.get(url).text
    assert "box.retired" in client.get(f"{LIST}?state=retired").text
    answer = client.post(change_url(worker), FORM)
    assert answer.status_code == 403


def test_an_impossible_action_shows_an_error(client, root):
    worker = make_worker("box")
    act(client, worker, "retire", confirm="yes")
    assert messages_in(act(client, worker, "drain")) == [
        f"box.retired-{worker.pk} has been retired. Choose another device; an "
        "administrator can register a new one."
    ]


@pytest.mark.parametrize("name", ["no-such", "delete_selected"])
def test_an_unknown_action_is_not_found(client, root, name):
    worker = make_worker("box")
    assert client.post(f"{LIST}{worker.pk}/act/{name}/").status_code == 404
    assert client.post(f"{LIST}999/act/drain/").status_code == 404
    assert client.get(f"{LIST}{worker.pk}/act/drain/").status_code == 405


def test_a_change_by_the_form_is_audited_with_old_and_new_values(client, root):
    worker, pool = make_worker("box"), Pool.objects.create(name="arm")
    form = {"name": "board", "slots": "2", "labels": "chip = Kirin 990\nbuild=nightly"}
    client.post(change_url(worker), form | {"pools": [pool.pk]})
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor) == ("worker.change", root)
    assert entry.before == {"name": "box", "slots": 1, "labels": {}, "pools": []}
    labels = {"chip": "Kirin 990", "build": "nightly"}
    assert entry.after == {"name": "board", "slots": 2, "labels": labels, "pools": ["arm"]}
    page = client.get(change_url(worker)).text
    assert "name: box → board" in page
    client.post(change_url(worker), form | {"pools": [pool.pk]})
    assert AuditEntry.objects.count() == 1


@pytest.mark.parametrize(
    "labels",
    [
        "chip", "= x", "a =", "a b = c", "a = 1\na = 2", "a = " + "x" * 101, "x" * 101 + " = c",
        "é€ = 1", "a = x\u200by", "\n".join(f"l{n} = x" for n in range(33)),
    ],
)  # fmt: skip
def test_invalid_labels_are_rejected_and_shown_again(client, root, labels):
    worker = make_worker("box")
    page = client.post(change_url(worker), FORM | {"labels": labels}).text
    assert "errorlist" in page
    worker.refresh_from_db()
    assert worker.labels == {}


@pytest.mark.parametrize(
    "change",
    [{"slots": "0"}, {"slots": "17"}, {"name": "two words"}, {"name": "taken"}, {"pools": [99]}],
)
def test_an_invalid_change_has_no_effect(client, root, change):
    make_worker("taken")
    worker = make_worker("box")
    before = Worker.objects.values().get(pk=worker.pk)
    assert "errorlist" in client.post(change_url(worker), FORM | change).text
    assert Worker.objects.values().get(pk=worker.pk) == before
    assert not AuditEntry.objects.exists()


def test_a_stale_form_does_not_change_a_retired_device(client, root):
    worker = make_worker("box")
    retired = {"retired_at": timezone.now(), "is_enabled": False, "is_public": False}
    with just_before_writing("workers_worker", lambda: Worker.objects.update(**retired)):
        client.post(change_url(worker), FORM | {"slots": "2"})
    assert Worker.objects.filter(pk=worker.pk, slots=2, **retired).exists()


def test_grants_are_added_by_e_mail_and_removed_by_selection(client, root):
    worker, bob = make_worker("box", is_public=False), make_user("bob")
    carol = make_user("carol")
    url = f"{LIST}{worker.pk}/users/"
    emails = "BOB@example.com, carol@example.com\nnobody@example.com"
    page = client.post(url, {"emails": emails}).text
    assert "nobody@example.com. Nothing was changed." in page
    assert "BOB@example.com, carol@example.com" in page  # the input is kept
    assert not Grant.objects.exists()
    client.post(url, {"emails": "bob@example.com carol@example.com"})
    assert set(Grant.objects.values_list("user", flat=True)) == {bob.pk, carol.pk}
    client.post(url, {"remove": [carol.pk, "x"]})
    assert Grant.objects.get().user == bob
    assert client.post(url, {"emails": ""}).status_code == 200


@pytest.mark.parametrize(
    ("silent_s", "word"),
    [(0, "on time"), (20, "late"), (3600, "lost"), (None, "never connected")],
)
def test_a_lost_device_is_marked_by_text_and_shape(client, root, silent_s, word):
    worker = make_worker("box")
    at = None if silent_s is None else timezone.now() - datetime.timedelta(seconds=silent_s)
    set_last_heartbeat(at)
    shapes = {"on time": "●", "late": "▲", "lost": "■", "never connected": "○"}
    for url in (LIST, change_url(worker), "/admin/"):
        page = client.get(url).text
        assert word in page
        assert shapes[word] in page
    beat = word.split()[0].replace("on", "on_time")
    assert "box" in client.get(f"{LIST}?beat={beat}").text
    other = "lost" if beat != "lost" else "late"
    assert f"/{worker.pk}/change/" not in client.get(f"{LIST}?beat={other}").text


def test_the_number_of_queries_of_the_list_does_not_depend_on_devices(
    client, root, django_assert_max_num_queries
):
    pool = Pool.objects.create(name="arm")

    def count_queries(devices: int) -> int:
        for _ in range(devices):
            worker = make_worker()
            HealthCheck.objects.create(
                worker=worker,
                runtime_version="1.13.0",
                cause=HealthCheck.Cause.SCHEDULE,
                result=HealthCheck.Result.FAILED,
                reason="crashed",
            )
            pool.workers.add(worker)
            make_attempt(make_waiting_task(worker=worker))
            make_waiting_task(worker=worker)
        Worker.objects.update(held_at=timezone.now())
        with django_assert_max_num_queries(20) as captured:
            page = client.get(LIST).text
        assert page.count("action-select") >= Worker.objects.count()
        return len(captured)

    assert count_queries(2) == count_queries(10)


def test_the_list_shows_running_and_waiting_tasks(client, root):
    worker = make_worker("box")
    running = make_attempt(make_waiting_task(make_user("bob"), worker))
    make_waiting_task(running.task.owner, worker)
    page = client.get(LIST).text
    assert f">#{running.task_id}</a>" in page
    assert "bob@example.com" in page
    assert 'class="field-queue">1<' in page


@pytest.mark.parametrize("term", ["box", "host-7f3a", "arm"])
def test_a_device_is_found_by_name_host_and_pool(client, root, term):
    worker = make_worker("box")
    make_worker("other")
    introduce_worker(worker, facts=FACTS, agent_version="1", runtimes=RUNTIMES)
    Pool.objects.create(name="arm").workers.add(worker)
    page = client.get(f"{LIST}?q={term}").text
    assert "1 device" in page
    assert ">box</a>" in page


def test_changes_of_a_pool_are_audited_with_its_devices(client, root):
    worker = make_worker("box")
    client.post("/admin/workers/pool/add/", {"name": "arm", "workers": [worker.pk]})
    pool = Pool.objects.get()
    client.post(f"/admin/workers/pool/{pool.pk}/change/", {"name": "arm", "workers": []})
    data = {"action": "delete_selected", "_selected_action": [pool.pk], "post": "yes"}
    client.post("/admin/workers/pool/", data)
    assert not Pool.objects.exists()
    deleted, changed, created = AuditEntry.objects.all()
    assert created.after == {"name": "arm", "workers": ["box"]}
    assert (changed.before, changed.after) == ({"workers": ["box"]}, {"workers": []})
    assert (deleted.action, deleted.before["name"]) == ("pool.delete", "arm")


def test_before_a_pool_is_deleted_only_the_pool_is_listed(client, root):
    pool = Pool.objects.create(name="arm")
    pool.workers.add(make_worker("phone"))
    page = client.get(f"/admin/workers/pool/{pool.pk}/delete/").text
    assert "Pools: 1" in page
    assert "relationship" not in page


def test_devices_are_not_deleted(client, root):
    worker = make_worker("box")
    assert client.post(f"{LIST}{worker.pk}/delete/", {"post": "yes"}).status_code == 403
    data = {"action": "delete_selected", "_selected_action": [worker.pk], "post": "yes"}
    client.post(LIST, data)
    assert Worker.objects.filter(pk=worker.pk).exists()


def test_staff_status_alone_opens_the_admin_site(client):
    client.force_login(make_user("root", is_staff=True))
    for path in ("", "workers/worker/", "accounts/user/", "accounts/auditentry/", "workers/pool/"):
        assert client.get(f"/admin/{path}").status_code == 200


def test_a_new_device_is_private_by_default(client, root):
    page = client.get("/admin/workers/worker/add/").text
    (box,) = re.findall(r"<input[^>]*name=\"is_public\"[^>]*>", page)
    assert "checked" not in box


def test_the_devices_page_shows_its_hardware(client, root):
    worker = make_worker("box")
    introduce_worker(worker, facts=FACTS, agent_version="0.1.0", runtimes=RUNTIMES)
    page = client.get(f"/admin/workers/worker/{worker.pk}/change/").text
    for text in (FACTS.hostname, "1.0 GiB", "1.13.0", "0.1.0"):
        assert text in page


def test_the_devices_page_shows_why_a_health_check_failed(client, root):
    worker = make_worker("box")
    notes = [Note.of("disk_full").model_dump(mode="json")]
    HealthCheck.objects.create(
        worker=worker, cause="asked", result="failed", reason="agent_error", notes=notes
    )
    page = client.get(f"/admin/workers/worker/{worker.pk}/change/").text
    assert "The disk of this device is full." in page


@pytest.mark.parametrize(("cores", "text"), [(1, "1 core ·"), (8, "8 cores ·")])
def test_the_number_of_cores_has_a_singular_form(client, root, cores, text):
    worker = make_worker("box", facts={"cores": cores, "memory_bytes": 2**30})
    assert text in client.get(change_url(worker)).text


def test_breadcrumbs_of_a_device_have_no_duplicates(client, root):
    worker = make_worker("box")
    for url, path in ((LIST, "Home › Devices"), (change_url(worker), "Home › Devices › box")):
        _, _, rest = client.get(url).text.partition('class="breadcrumbs">')
        crumbs = re.sub(r"<[^>]*>", "", rest.partition("</div>")[0])
        assert " ".join(crumbs.replace("&rsaquo;", "›").split()) == path


def test_a_device_page_says_that_there_is_no_pool(client, root):
    worker = make_worker("box")
    assert "No pools yet." in client.get(change_url(worker)).text
    Pool.objects.create(name="arm")
    assert "No pools yet." not in client.get(change_url(worker)).text


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_no_app_is_named_like_one_of_its_models(language):
    with translation.override(language):
        for model in site._registry:
            part = model._meta.app_config.verbose_name
            assert str(part).lower() != str(model._meta.verbose_name_plural).lower()


def test_the_history_has_the_name_of_its_row_as_title(client, root):
    pool = Pool.objects.create(name="arm")
    client.post(f"/admin/workers/pool/{pool.pk}/change/", {"name": "arm-64", "workers": []})
    page = client.get(f"/admin/workers/pool/{pool.pk}/history/", follow=True).text
    assert "<h1>History of arm-64</h1>" in page
    assert "<h1>Audit log</h1>" in client.get("/admin/accounts/auditentry/").text


def test_the_admin_site_uses_the_login_of_the_site(client):
    client.force_login(make_user("carol"))
    refused = client.get("/admin/", follow=True)
    assert refused.status_code == 403
    assert "administrators" in refused.text
    client.logout()
    answer = client.get("/admin/", follow=True)
    assert answer.redirect_chain[-1][0].startswith("/accounts/login/")
