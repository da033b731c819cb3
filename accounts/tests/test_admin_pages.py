"""The admin pages of users and of the audit log."""

import re
from datetime import timedelta

import pytest
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib import admin as django_admin
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from accounts import services
from accounts.audit import record_audit_entry
from accounts.models import AuditEntry, User
from accounts.selectors import with_sessions
from accounts.sessions import end_sessions
from accounts.tests.make import NEW_PASSWORD, log_in, reauthenticated_client
from tasks.tests.make import just_before_writing, make_user, make_worker
from webprofile.admin.entries import ACTIONS
from workers.grants import add_grants
from workers.models import Grant

pytestmark = [pytest.mark.django_db, pytest.mark.database]

USERS = "/admin/accounts/user/"
LOG = "/admin/accounts/auditentry/"


@pytest.fixture
def root(client):
    user = make_user("root", is_staff=True, is_superuser=True)
    client.force_login(user)
    return user


def page(client, url: str, **data) -> str:
    return (client.post(url, data, follow=True) if data else client.get(url)).content.decode()


def run_action(client, name: str, *users: User, **data) -> str:
    chosen = {"action": name, "_selected_action": [user.pk for user in users]}
    return page(client, USERS, **chosen, **data)


def test_the_list_shows_role_devices_and_sessions(client, root):
    bob = make_user("bob")
    add_grants(users=[bob.pk], workers=[make_worker("board", is_public=False).pk], by=root)
    log_in(Client(), bob.email)
    row = page(client, f"{USERS}?q=bob")
    assert "bob@example.com" in row
    assert "board" in row
    assert '<td class="field-sessions">1</td>' in row
    assert '<td class="field-role">user</td>' in row


def test_last_seen_never_goes_back(client, root):
    bob = make_user("bob")
    log_in(Client(), bob.email)
    seen_at = timezone.now() + timedelta(hours=1)
    UserSession.objects.filter(user=bob).update(last_seen_at=seen_at)
    for end in (lambda: None, lambda: end_sessions(bob), lambda: log_in(Client(), bob.email)):
        end()
        assert with_sessions(User.objects.filter(pk=bob.pk)).get().seen_at == seen_at
    assert with_sessions(User.objects.filter(pk=make_user("never").pk)).get().seen_at is None


@pytest.mark.parametrize("name", ["deactivate", "grant_workers"])
def test_an_action_on_all_users_is_confirmed_although_a_form_has_fewer_fields(
    client, root, settings, name
):
    settings.DATA_UPLOAD_MAX_NUMBER_FIELDS = 60
    board = make_worker("board", is_public=False)
    users = User.objects.bulk_create(User(email=f"user{n}@example.com") for n in range(100))
    first_page = [user.pk for user in users[:50]]
    chosen = {"action": name, "index": 0, "select_across": 1, "_selected_action": first_page}
    form_page = page(client, f"{USERS}?q=user", **chosen)
    assert form_page.count("<li>user") == 100
    fields = QueryDict(mutable=True)
    for field, value in re.findall(r'type="hidden" name="(\w+)" value="(.*?)"', form_page):
        fields.appendlist(field, value)
    # has come into the list since the administrator read it
    late = make_user("user-late")
    page(client, f"{USERS}?q=user", **dict(fields.lists()), workers=[board.pk])
    if name == "deactivate":
        assert list(User.objects.exclude(pk=root.pk).filter(is_active=True)) == [late]
    else:
        assert Grant.objects.count() == 100


def test_devices_are_granted_to_several_users_with_a_form(client, root):
    bob, carol = make_user("bob"), make_user("carol")
    board, other = (make_worker(name, is_public=False) for name in ("board", "other"))
    make_worker("public-one")
    form_page = run_action(client, "grant_workers", bob, carol)
    assert "board" in form_page
    assert "public-one" not in form_page
    assert not Grant.objects.exists()
    assert "Choose at least one device" in run_action(client, "grant_workers", bob, chosen="yes")
    run_action(client, "grant_workers", bob, carol, chosen="yes", workers=[board.pk, other.pk])
    assert Grant.objects.count() == 4
    form_page = run_action(client, "ungrant_workers", carol)
    assert "other" in form_page
    run_action(client, "ungrant_workers", carol, chosen="yes", workers=[other.pk])
    assert [w.name for w in carol.granted_workers.all()] == ["board"]
    assert bob.granted_workers.count() == 2


def test_grants_to_deactivated_users_or_of_public_devices_are_rejected(client, root):
    bob, board = make_user("bob", is_active=False), make_worker("board", is_public=False)
    response = run_action(client, "grant_workers", bob, chosen="yes", workers=[board.pk])
    assert "not active: bob@example.com" in response
    run_action(client, "grant_workers", root, chosen="yes", workers=[make_worker().pk])
    run_action(client, "grant_workers", root, chosen="yes", workers=["999", "x"])
    assert not Grant.objects.exists()


def test_promotion_and_demotion_need_confirmation_and_the_last_administrator_stays(client, root):
    bob = make_user("bob")
    assert "can see and change all" in run_action(client, "promote", bob)
    bob.refresh_from_db()
    assert not bob.is_staff
    run_action(client, "promote", bob, confirm="yes")
    bob.refresh_from_db()
    assert bob.is_staff
    run_action(client, "demote", bob, confirm="yes")
    response = run_action(client, "demote", root, confirm="yes")
    assert "root@example.com is the last administrator" in response
    root.refresh_from_db()
    assert root.is_staff


OF_ONESELF = {
    "demote": "you will lose access to these pages",
    "deactivate": "only another administrator can deactivate you",
    "remove_second_factor": "turn off your own second factor in your account",
}


@pytest.mark.parametrize("name", OF_ONESELF)
def test_the_confirmation_warns_administrators_who_selected_themselves(client, root, name):
    bob = make_user("bob", is_staff=True, is_superuser=True)
    assert OF_ONESELF[name] in run_action(client, name, root, bob)
    assert OF_ONESELF[name] in page(client, f"{USERS}{root.pk}/act/{name}/", x="y")
    assert OF_ONESELF[name] not in run_action(client, name, bob)


def test_administrators_who_demote_themselves_are_changed_last(client, root):
    for name in ("alice", "zoe", "bob"):
        make_user(name, is_staff=True, is_superuser=True)
    chosen = User.objects.exclude(email__startswith="bob")
    response = run_action(client, "demote", *chosen, confirm="yes")
    assert " are no longer administrators." in response
    assert all(f"{name}@example.com" in response for name in ("alice", "zoe", "root"))
    assert "<title>Tasks" in response
    assert [user.email for user in User.objects.filter(is_staff=True)] == ["bob@example.com"]
    assert client.get(USERS).status_code == 302


def test_buttons_deactivate_and_reactivate_a_user(client, root):
    bob = make_user("bob")
    url = f"{USERS}{bob.pk}"
    page(client, f"{url}/act/deactivate/", confirm="yes")
    assert f"{url}/act/reactivate/" in page(client, f"{url}/change/")
    page(client, f"{url}/act/reactivate/", confirm="yes")
    html = page(client, f"{url}/change/")
    assert f"{url}/act/deactivate/" in html
    assert "User reactivated" in html


def test_an_administrator_adds_a_user_by_e_mail(client, root):
    form = {"email": "New@Example.com", "password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
    page(client, f"{USERS}add/", **form)
    user = User.objects.get(email="new@example.com")
    assert user.check_password(NEW_PASSWORD)
    assert not user.is_staff
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.target_name) == ("user.create", "new@example.com")


@pytest.mark.parametrize(
    "changes",
    [
        {"email": ""},
        {"email": "ROOT@example.com"},
        {"email": "x"},
        {"password1": "short", "password2": "short"},
        {"password2": "something else entirely"},
    ],
)
def test_an_invalid_user_is_not_added(client, root, changes):
    form = {
        "email": "new@example.com",
        "password1": NEW_PASSWORD,
        "password2": NEW_PASSWORD,
    } | changes
    assert "errorlist" in page(client, f"{USERS}add/", **form)
    assert User.objects.count() == 1
    assert not AuditEntry.objects.exists()


def test_a_password_is_set_and_a_weak_one_is_rejected(client, root):
    bob = make_user("bob")
    url = f"{USERS}{bob.pk}/password/"
    weak = page(client, url, new_password1="short", new_password2="short")
    assert "too short" in weak
    page(client, url, new_password1=NEW_PASSWORD, new_password2=NEW_PASSWORD)
    bob.refresh_from_db()
    assert bob.check_password(NEW_PASSWORD)
    assert NEW_PASSWORD not in page(client, f"{LOG}{AuditEntry.objects.get().pk}/change/")


@pytest.mark.parametrize("url", [f"{USERS}{{pk}}/password/", "/admin/password_change/"])
def test_administrators_change_their_own_password_on_the_account_page(client, root, url):
    response = client.post(
        url.format(pk=root.pk), {"new_password1": NEW_PASSWORD, "new_password2": NEW_PASSWORD}
    )
    assert response.headers["Location"] == "/accounts/password/change/"
    root.refresh_from_db()
    assert not root.check_password(NEW_PASSWORD)


def test_sessions_are_listed_and_ended(client, root):
    bob, browser = make_user("bob"), Client(HTTP_USER_AGENT="Firefox on the train")
    log_in(browser, bob.email)
    url = f"{USERS}{bob.pk}"
    html = page(client, f"{url}/change/")
    assert "Firefox on the train" in html
    end = next(part for part in html.split('"') if part.endswith("/end/"))
    assert client.get(end).status_code == 405
    page(client, end, confirm="yes")
    assert browser.get("/tasks/").status_code == 302
    assert "already ended" in page(client, end, confirm="yes")
    assert client.post(f"{USERS}{root.pk}/sessions/999/end/").status_code == 302


def test_the_form_changes_the_limit_of_tasks_and_nothing_else(client, root):
    bob = make_user("bob")
    form = {"task_limit": "7", "email": "x@example.com", "is_staff": "on", "is_superuser": "on"}
    page(client, f"{USERS}{bob.pk}/change/", **form)
    bob.refresh_from_db()
    assert (bob.task_limit, bob.email, bob.is_staff) == (7, "bob@example.com", False)
    entry = AuditEntry.objects.get()
    assert (entry.before, entry.after) == ({"task_limit": None}, {"task_limit": 7})
    page(client, f"{USERS}{bob.pk}/change/", task_limit="-1")
    bob.refresh_from_db()
    assert bob.task_limit == 7
    page(client, f"{USERS}{bob.pk}/change/", task_limit="7", storage_limit_gib="3")
    bob.refresh_from_db()
    assert (bob.task_limit, bob.storage_limit_gib) == (7, 3)
    last = AuditEntry.objects.latest("pk")
    assert (last.before, last.after) == ({"storage_limit_gib": None}, {"storage_limit_gib": 3})


def test_a_stale_form_does_not_restore_permissions(client, root):
    bob = make_user("bob", is_staff=True, is_superuser=True)
    with just_before_writing(
        "accounts_user", lambda: User.objects.filter(pk=bob.pk).update(is_staff=False)
    ):
        page(client, f"{USERS}{bob.pk}/change/", task_limit="7")
    bob.refresh_from_db()
    assert (bob.task_limit, bob.is_staff) == (7, False)


def test_administrators_who_end_their_own_sessions_keep_the_current_one(client, root):
    client.logout()
    other = Client()
    for browser in (client, other):
        log_in(browser, root.email)
    url = f"{USERS}{root.pk}/act/end_sessions/"
    assert "your current session is kept" in client.post(url).content.decode()
    response = client.post(url, {"confirm": "yes"}, follow=True)
    assert response.status_code == 200
    assert "All sessions of root@example.com have been ended." in response.content.decode()
    assert other.get("/tasks/").status_code == 302


def test_the_page_of_a_user_shows_audit_entries(client, root):
    bob, worker = make_user("bob"), make_worker("board", is_public=False)
    services.promote_user(bob, by=root)
    add_grants(users=[bob.pk], workers=[worker.pk], by=root)
    html = page(client, f"{USERS}{bob.pk}/change/")
    assert "Made administrator" in html
    assert "Device access granted" in html
    assert "Device access granted" not in page(client, f"{USERS}{root.pk}/change/")


def test_users_are_not_deleted(client, root):
    bob = make_user("bob")
    assert client.post(f"{USERS}{bob.pk}/delete/", {"post": "yes"}).status_code == 403
    run_action(client, "delete_selected", bob, post="yes")
    assert User.objects.filter(pk=bob.pk).exists()


@pytest.mark.parametrize("url", [USERS, LOG])
def test_the_number_of_queries_of_a_list_does_not_depend_on_rows(client, root, url):
    worker = make_worker(is_public=False)

    def fill(names: range) -> None:
        for number in names:
            user = make_user(f"user{number}")
            add_grants(users=[user.pk], workers=[worker.pk], by=root)

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert client.get(url).status_code == 200
        return len(captured)

    fill(range(2))
    few = queries()
    fill(range(2, 20))
    assert queries() == few
    assert few <= 20


# -- the audit log ------------------------------------------------------------------------------


@pytest.fixture
def entry(root):
    before, after = {"administrator": False}, {"administrator": True}
    bob = make_user("bob")
    return record_audit_entry("user.promote", bob, by=root, before=before, after=after)


def test_an_entry_shows_before_and_after_side_by_side(client, entry):
    html = page(client, f"{LOG}{entry.pk}/change/")
    for part in ("Made administrator", "<del>no</del>", "<ins>yes</ins>", "root@example.com"):
        assert part in html
    assert "<input" not in html.split('<div class="panel">', 1)[1].split("</main>")[0]


@pytest.mark.parametrize(
    ("query", "is_match"),
    [
        ("q=root@example.com", True),
        ("q=bob", True),
        ("q=user.promote", True),
        ("q=made+admin", True),
        ("q=carol", False),
        ("action=user.promote", True),
        ("action=user.demote", False),
        ("target_type=user", True),
        ("target_type=worker", False),
        ("at__year=1999", False),
    ],
)
def test_the_audit_log_is_searched_and_filtered(client, entry, query, is_match):
    response = client.get(f"{LOG}?{query}", follow=True)
    assert response.status_code == 200
    assert (f"{LOG}{entry.pk}/change/" in response.content.decode()) is is_match


def test_the_audit_log_finds_grants_by_user(client, root):
    bob, worker = make_user("bob"), make_worker("board", is_public=False)
    add_grants(users=[bob.pk], workers=[worker.pk], by=root)
    html = page(client, f"{LOG}?q=bob@example.com")
    assert "Device access granted" in html.split("result_list")[1]


def test_the_page_of_a_user_lists_grants_under_an_earlier_address(client, root):
    bob, worker = make_user("bob"), make_worker("board", is_public=False)
    bob.emailaddress_set.create(email=bob.email, primary=True)
    add_grants(users=[bob.pk], workers=[worker.pk], by=root)
    bob_client = reauthenticated_client(bob.email)
    new = {"email": "robert@example.com"}
    bob_client.post(reverse("account_email"), new | {"action_add": ""})
    bob_client.post(reverse("account_email"), new | {"action_primary": ""})
    html = page(client, f"{USERS}{bob.pk}/change/")
    assert "E-mail changed" in html
    assert "Device access granted" in html
    # the next user with the address did not get that grant
    second = make_user("bob")
    assert "Device access granted" not in page(client, f"{USERS}{second.pk}/change/")
    # nor a user who takes over the address later
    carol = make_user("carol", date_joined=bob.date_joined)
    record_audit_entry(
        "user.change_email", carol, by=carol, before={"email": "carol@example.com"}, after={}
    )
    User.objects.filter(pk=second.pk).update(email="gone@example.com")
    User.objects.filter(pk=carol.pk).update(email=second.email)
    assert "Device access granted" not in page(client, f"{USERS}{carol.pk}/change/")


def test_the_history_link_of_a_row_shows_its_audit_entries(client, entry):
    url = f"{USERS}{entry.target_id}/history/"
    assert "Made administrator" in client.get(url, follow=True).content.decode()


@pytest.mark.parametrize(
    "data",
    [
        {"action": "delete_selected", "_selected_action": ["{pk}"], "post": "yes"},
        {"form-TOTAL_FORMS": "1", "form-INITIAL_FORMS": "1", "_save": "1"},
    ],
)
def test_the_audit_log_is_read_only(client, entry, data):
    rows = list(AuditEntry.objects.values())
    chosen = {key: [entry.pk] if value == ["{pk}"] else value for key, value in data.items()}
    client.post(LOG, chosen)
    assert list(AuditEntry.objects.values()) == rows


def test_only_models_of_the_site_are_registered():
    apps = {model._meta.app_label for model in django_admin.site._registry}
    assert apps <= {"accounts", "workers", "tasks", "profiles"}


def test_every_audited_action_has_a_translation():
    call = re.compile(
        r'(?:record_audit_entry|_switch|_note\w*|_record_role)\(\s*(?:\w+, )?"(\w+\.\w+)"'
    )
    created = re.compile(r'AuditEntry\.objects\.create\(\s*action="([\w.]+)"')
    codes: set[str] = set()
    for app in ("accounts", "workers", "tasks", "profiles", "webprofile"):
        for path in (settings.BASE_DIR / app).rglob("*.py"):
            if "tests" not in path.parts:
                codes |= set(call.findall(path.read_text()))
                codes |= set(created.findall(path.read_text()))
    assert len(codes) > 40
    assert codes <= set(ACTIONS)
    assert "purge" in codes
