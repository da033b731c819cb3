"""What administrators do with devices and users, and that others cannot."""

import datetime
import re

import pytest
from django.utils import timezone

from accounts.models import User
from tasks.tests.make import FACTS, RUNTIMES, make_user, make_worker
from workers.models import Grant, Worker
from workers.services import worker_introduce
from workers.tokens import code_redeem, token_check

pytestmark = pytest.mark.django_db

INLINES = {
    f"{prefix}-{field}": "0"
    for prefix in ("runtimes", "grants")
    for field in ("TOTAL_FORMS", "INITIAL_FORMS", "MIN_NUM_FORMS", "MAX_NUM_FORMS")
}


@pytest.fixture
def admin(client):
    user = User.objects.create_superuser("root@example.com", "correct horse battery")
    client.force_login(user)
    return user


def code_in(page: str) -> str:
    found = re.search(r"--code (mge_[\w-]+)", page)
    assert found, page
    return found[1]


def test_a_new_device_shows_its_enrolment_code_once(client, admin):
    form = {"name": "jetson", "is_public": "on", "is_enabled": "on", "slots": "1"} | INLINES
    page = client.post("/admin/workers/worker/add/", form, follow=True).content.decode()
    worker, token = code_redeem(code_in(page))
    assert worker.name == "jetson"
    assert token_check(token) == worker
    assert "--code" not in client.get("/admin/workers/worker/").content.decode()


def test_revoking_a_device_shuts_it_out_and_a_new_code_lets_it_in_again(client, admin):
    worker = make_worker("box")
    data = {"action": "issue_codes", "_selected_action": [worker.pk]}
    page = client.post("/admin/workers/worker/", data, follow=True).content.decode()
    _, token = code_redeem(code_in(page))
    client.post("/admin/workers/worker/", data | {"action": "revoke_tokens"})
    with pytest.raises(Exception, match="token_revoked"):
        token_check(token)


def test_a_devices_own_page_issues_codes_and_revokes(client, admin):
    worker = make_worker("box")
    url = f"/admin/workers/worker/{worker.pk}/change/"
    form = {"name": "box", "is_public": "on", "is_enabled": "on", "slots": "1"} | INLINES
    form |= {"runtimes-TOTAL_FORMS": "1", "runtimes-INITIAL_FORMS": "1"}
    form |= {"runtimes-0-id": worker.runtimes.get().pk, "runtimes-0-worker": worker.pk}
    buttons = client.get(url).content.decode()
    assert 'name="_issue_code"' in buttons
    assert 'name="_revoke"' in buttons
    page = client.post(url, form | {"_issue_code": "1"}, follow=True).content.decode()
    _, token = code_redeem(code_in(page))
    client.post(url, form | {"_revoke": "1"}, follow=True)
    with pytest.raises(Exception, match="token_revoked"):
        token_check(token)


def test_a_new_device_is_private_unless_the_administrator_says_otherwise(client, admin):
    page = client.get("/admin/workers/worker/add/").content.decode()
    (box,) = re.findall(r"<input[^>]*name=\"is_public\"[^>]*>", page)
    assert "checked" not in box


def test_the_devices_page_shows_its_hardware(client, admin):
    worker = make_worker("box")
    worker_introduce(worker, facts=FACTS, agent_version="0.1.0", runtimes=RUNTIMES)
    page = client.get(f"/admin/workers/worker/{worker.pk}/change/").content.decode()
    for text in (FACTS.hostname, "1.0 GiB", "1.13.0", "0.1.0"):
        assert text in page


def test_an_administrator_adds_a_user_by_e_mail_and_resets_a_password(client, admin):
    password = "another long passphrase"
    form = {
        "email": "new@example.com",
        "usable_password": "true",
        "password1": password,
        "password2": password,
    }
    client.post("/admin/accounts/user/add/", form)
    user = User.objects.get(email="new@example.com")
    assert user.check_password(password)
    change = {"password1": password + "2", "password2": password + "2", "usable_password": "true"}
    client.post(f"/admin/accounts/user/{user.pk}/password/", change)
    user.refresh_from_db()
    assert user.check_password(password + "2")


def test_the_administration_asks_for_the_same_login_as_the_site(client):
    client.force_login(make_user("carol"))
    refused = client.get("/admin/", follow=True)
    assert refused.status_code == 403
    assert "administrators" in refused.content.decode()
    client.logout()
    answer = client.get("/admin/", follow=True)
    assert answer.redirect_chain[-1][0].startswith("/accounts/login/")


def test_a_private_device_is_on_the_page_of_those_granted_only(client):
    worker = make_worker("secret-board", is_public=False)
    bob, carol = make_user("bob"), make_user("carol")
    Grant.objects.create(worker=worker, user=bob)
    for user, sees in ((bob, True), (carol, False)):
        client.force_login(user)
        for path in ("/workers/", "/workers/rows/", "/workers/list.json", "/tasks/new/"):
            assert ("secret-board" in client.get(path).content.decode()) is sees


def test_a_device_without_a_usable_version_says_why(client):
    worker = make_worker("box")
    worker.runtimes.update(problem="No Python 3.6 to 3.10 was found")
    client.force_login(make_user())
    assert "No Python 3.6 to 3.10 was found" in client.get("/workers/").content.decode()


def test_where_a_device_stands_in_the_network_is_for_administrators(client):
    worker = make_worker("box")
    worker_introduce(worker, facts=FACTS, agent_version="1", runtimes=RUNTIMES)
    client.force_login(make_user())
    for path in ("/workers/", "/workers/list.json"):
        assert FACTS.hostname not in client.get(path).content.decode()
    client.force_login(make_user("root", is_staff=True))
    assert client.get("/workers/list.json").json()["workers"][0]["facts"]["hostname"]


def test_a_device_that_was_not_seen_for_a_while_is_offline(client):
    worker = make_worker("box")
    client.force_login(make_user())
    (shown,) = client.get("/workers/list.json").json()["workers"]
    assert shown["online"]
    Worker.objects.filter(pk=worker.pk).update(
        last_seen_at=timezone.now() - datetime.timedelta(seconds=60)
    )
    (shown,) = client.get("/workers/list.json").json()["workers"]
    assert not shown["online"]
