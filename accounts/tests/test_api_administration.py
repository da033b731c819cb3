"""What administrators do with users over the API: roles, passwords, sessions, and the audit log."""

import json
from functools import partial

import pytest
from allauth.usersessions.models import UserSession
from django.test import Client

from accounts.access_tokens import token_issue
from accounts.models import AuditEntry, User
from accounts.tests.threads import at_once
from tasks.tests.make import make_user, make_worker
from webprofile.tests.documented_api import DocumentedClient, caller, refused
from workers.grants import grants_add
from workers.models import Grant

pytestmark = [pytest.mark.django_db, pytest.mark.database]

USERS = "/api/v1/admin/users/"
AUDIT = "/api/v1/admin/audit/"
GOOD = "a long and winding road"
HUGE = 2**63 - 1


def make_administrator(name="root"):
    return make_user(name, is_staff=True, is_superuser=True)


@pytest.fixture
def root():
    return make_administrator()


@pytest.fixture
def client(root):
    return caller(root)


def post(client, path, body=None):
    return client.post(path, body or {}, format="json")


def last_entry():
    return AuditEntry.objects.latest("id")


def logged_in(user, password="correct horse battery", **headers):
    """A browser in which somebody typed a password."""
    browser = Client(**headers)
    browser.post("/accounts/login/", {"login": user.email, "password": password})
    return browser


def is_in(browser):
    return browser.get("/tasks/").status_code == 200


def test_a_user_is_made_and_can_log_in_at_once(client, root):
    made = post(client, USERS, {"email": "New@Example.com", "password": GOOD})
    assert made.status_code == 201
    shown = made.json()
    assert (shown["email"], shown["is_administrator"], shown["sessions"]) == (
        "new@example.com", False, 0,
    )  # fmt: skip
    user = User.objects.get(pk=shown["id"])
    assert is_in(logged_in(user, GOOD))
    entry = last_entry()
    assert (entry.action, entry.actor, entry.target_name) == ("user.create", root, user.email)
    assert GOOD not in made.content.decode() + str(list(AuditEntry.objects.values()))
    grand = {"email": "second@example.com", "password": GOOD, "administrator": True}
    assert post(client, USERS, grand).json()["is_administrator"] is True


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"email": None}, 422, "invalid"),
        ({"email": ""}, 422, "invalid"),
        ({"email": 7}, 422, "invalid"),
        ({"email": "no address"}, 422, "email_bad"),
        ({"email": "a@b\n.example"}, 422, "email_bad"),
        ({"email": "x" * 300 + "@example.com"}, 422, "invalid"),
        ({"email": "ROOT@Example.COM"}, 409, "email_taken"),
        ({"password": "short"}, 422, "password_weak"),
        ({"password": "12345678901234"}, 422, "password_weak"),
        ({"password": ""}, 422, "invalid"),
        ({"password": "x" * 5000}, 422, "invalid"),
        ({"administrator": "yes"}, 422, "invalid"),
        ({"is_staff": True}, 422, "invalid"),
    ],
)
def test_a_user_that_cannot_be_is_not_made(client, change, status, code):
    body = {"email": "new@example.com", "password": GOOD} | change
    refused(post(client, USERS, body), status, code)
    assert User.objects.count() == 1
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize(
    ("act", "before", "after", "action"),
    [
        ("promote", {}, {"is_administrator": True}, "user.promote"),
        ("demote", {"is_staff": True, "is_superuser": True}, {"is_administrator": False},
         "user.demote"),
        ("deactivate", {}, {"is_active": False}, "user.deactivate"),
        ("reactivate", {"is_active": False}, {"is_active": True}, "user.reactivate"),
    ],
)  # fmt: skip
def test_an_act_changes_the_user_once_and_the_log_says_who(
    client, root, act, before, after, action
):
    bob = make_user("bob", **before)
    for _ in range(2):
        answer = post(client, f"{USERS}{bob.pk}/{act}/")
        assert answer.status_code == 200
        assert after.items() <= answer.json().items()
    (entry,) = AuditEntry.objects.all()
    assert (entry.action, entry.actor, entry.target_name) == (action, root, bob.email)


def test_the_last_administrator_stays_one(client, root):
    make_user("gone", is_staff=True, is_superuser=True, is_active=False)
    for _ in range(2):
        refused(post(client, f"{USERS}{root.pk}/demote/"), 409, "last_administrator")
    refused(post(client, f"{USERS}{root.pk}/deactivate/"), 409, "user_is_oneself")
    root.refresh_from_db()
    assert (root.is_staff, root.is_active) == (True, True)
    assert not AuditEntry.objects.exists()


def test_who_takes_their_own_rights_is_a_plain_user_from_the_next_request_on(client, root):
    make_administrator("other")
    answer = post(client, f"{USERS}{root.pk}/demote/")
    assert (answer.status_code, answer.json()["is_administrator"]) == (200, False)
    refused(post(client, f"{USERS}{root.pk}/promote/"), 403, "administrators_only")


def test_who_was_shut_out_becomes_no_administrator(client):
    bob = make_user("bob", is_active=False)
    refused(post(client, f"{USERS}{bob.pk}/promote/"), 409, "user_inactive")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("act", ["demote", "deactivate"])
def test_of_two_administrators_who_remove_each_other_at_once_one_stays(
    transactional_db,
    act,
):
    ((a, b),) = at_once(lambda: [make_administrator(name) for name in "ab"])
    ((first, second),) = at_once(lambda: [caller(each) for each in (a, b)])
    answers = at_once(
        partial(post, first, f"{USERS}{b.pk}/{act}/"),
        partial(post, second, f"{USERS}{a.pk}/{act}/"),
    )
    codes = sorted(answer.status_code for answer in answers)
    # who was removed first is somebody else by now, or nobody at all
    assert codes[0] == 200
    assert codes[1] in (401, 403)
    stays = User.objects.filter(is_staff=True, is_active=True)
    assert at_once(stays.count) == [1]


def test_a_password_is_set_and_everything_that_was_open_ends(client, root):
    bob = make_user("bob")
    browser = logged_in(bob)
    secret = token_issue(bob, name="ci", scopes=["read"], days=1)[1]
    refused(post(client, f"{USERS}{bob.pk}/password/", {"password": "bob"}), 422, "password_weak")
    refused(post(client, f"{USERS}{bob.pk}/password/"), 422, "invalid")
    assert is_in(browser)
    answer = post(client, f"{USERS}{bob.pk}/password/", {"password": GOOD})
    assert answer.status_code == 200
    assert GOOD not in answer.content.decode()
    assert not is_in(browser)
    script = DocumentedClient()
    script.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    refused(script.get("/api/v1/me/"), 401, "token_invalid")
    assert is_in(logged_in(bob, GOOD))
    assert last_entry().actor == root


def test_sessions_are_listed_and_end_one_by_one_or_all(client, root):
    bob = make_user("bob")
    phone, desk = logged_in(bob, HTTP_USER_AGENT="phone"), logged_in(bob, HTTP_USER_AGENT="desk")
    own = f"{USERS}{bob.pk}/sessions/"
    listed = {each["user_agent"]: each for each in client.get(own).json()}
    assert set(listed) == {"phone", "desk"}
    shown = client.get(f"{USERS}{bob.pk}/").json()
    assert shown["sessions"] == 2
    assert shown["last_seen_at"]
    assert client.delete(f"{own}{listed['phone']['id']}/").status_code == 204
    assert (is_in(phone), is_in(desk)) == (False, True)
    refused(client.delete(f"{own}{listed['phone']['id']}/"), 404, "session_unknown")
    foreign = f"{USERS}{root.pk}/sessions/{listed['desk']['id']}/"
    refused(client.delete(foreign), 404, "session_unknown")
    assert client.delete(own).json() == {"changed": 1}
    assert client.delete(own).json() == {"changed": 0}
    assert not is_in(desk)
    assert not UserSession.objects.filter(user=bob).exists()
    actions = list(AuditEntry.objects.order_by("id").values_list("action", flat=True))
    assert actions == ["user.end_session", "user.end_sessions"]


def test_access_tokens_are_listed_without_secrets_and_revoked(client):
    bob, eve = make_user("bob"), make_user("eve")
    token, secret = token_issue(bob, name="ci", scopes=["read"], days=1)
    own = f"{USERS}{bob.pk}/access-tokens/"
    answer = client.get(own)
    assert [each["name"] for each in answer.json()] == ["ci"]
    assert secret not in answer.content.decode()
    refused(client.delete(f"{USERS}{eve.pk}/access-tokens/{token.pk}/"), 404, "not_found")
    for _ in range(2):
        assert client.delete(f"{own}{token.pk}/").status_code == 204
    assert client.get(own).json() == []
    assert AuditEntry.objects.filter(action="access_token.revoke").count() == 1


def test_a_limit_of_tasks_is_set_and_taken(client):
    bob = make_user("bob")
    own = f"{USERS}{bob.pk}/"
    assert client.patch(own, {"task_limit": 3}, format="json").json()["task_limit"] == 3
    assert client.patch(own, {"task_limit": None}, format="json").json()["task_limit"] is None
    entry = last_entry()
    assert (entry.before, entry.after) == ({"task_limit": 3}, {"task_limit": None})
    for bad in (-1, 1.5, "3", True, HUGE, [3]):
        refused(client.patch(own, {"task_limit": bad}, format="json"), 422, "invalid")
    refused(client.patch(own, {"is_staff": True}, format="json"), 422, "invalid")
    refused(client.patch(own, {"email": "x@example.com"}, format="json"), 422, "invalid")


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("", ["bob", "eve", "out", "root"]),
        ("email=BO", ["bob"]),
        ("administrator=true", ["root"]),
        ("active=false", ["out"]),
        ("worker=box", ["bob"]),
        ("active=true&administrator=false&email=e", ["bob", "eve"]),
    ],
)
def test_users_are_found_by_email_role_and_device(client, question, found):
    bob = make_user("bob")
    make_user("eve")
    make_user("out", is_active=False)
    Grant.objects.create(worker=make_worker("box", is_public=False), user=bob)
    rows = client.get(f"{USERS}?{question}").json()["results"]
    assert sorted(row["email"].partition("@")[0] for row in rows) == found
    assert all(row["workers"] == (["box"] if row["id"] == bob.pk else []) for row in rows)


def test_the_audit_log_is_searched_and_read_and_changed_by_nobody(client, root):
    bob, worker = make_user("bob"), make_worker("box", is_public=False)
    post(client, f"{USERS}{bob.pk}/promote/")
    grants_add(users=[bob.pk], workers=[worker.pk], by=None)
    post(client, f"{USERS}{bob.pk}/demote/")

    def found(question):
        answer = client.get(f"{AUDIT}?{question}")
        assert answer.status_code == 200, answer.content
        return [each["action"] for each in answer.json()["results"]]

    assert found("") == ["user.demote", "grant.add", "user.promote"]
    assert found("search=bob@example.com") == ["user.demote", "grant.add", "user.promote"]
    assert found("search=box") == ["grant.add"]
    assert found("search=Made administrator") == ["user.promote"]
    assert found("search=nothing at all") == []
    for odd in ('"', "'", "%25", "_", "a.b[0]", "$", "{}", "\\", "%22]--"):
        assert found(f"search={odd}") == [] or odd in ("_", "'", "%25")
    assert found(f"actor={root.pk}&action=user.promote") == ["user.promote"]
    assert found(f"target_type=user&target_id={bob.pk}") == ["user.demote", "user.promote"]
    assert found("actor_email=root") == ["user.demote", "user.promote"]
    assert found("after=2100-01-01T00:00:00Z") == []
    assert len(found("before=2100-01-01")) == 3
    entry = client.get(AUDIT).json()["results"][0]
    assert (entry["before"], entry["after"]) == ({"administrator": True}, {"administrator": False})
    assert entry["action_text"] == "Administrator's rights taken"
    own = f"{AUDIT}{entry['id']}/"
    assert client.get(own).json() == entry
    for path in (AUDIT, own):
        for method in ("post", "put", "patch", "delete"):
            refused(getattr(client, method)(path), 405, "method_not_allowed")
    assert AuditEntry.objects.count() == 3


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (f"{AUDIT}?action=odd", "query_invalid"),
        (f"{AUDIT}?actor=x", "query_invalid"),
        (f"{AUDIT}?actor={HUGE * 9}", "query_invalid"),
        (f"{AUDIT}?after=yesterday", "query_invalid"),
        (f"{AUDIT}?after=", "query_invalid"),
        (f"{AUDIT}?search=%00", "query_invalid"),
        (f"{AUDIT}?search={'x' * 300}", "query_invalid"),
        (f"{AUDIT}?who=root", "query_unknown"),
        (f"{USERS}?administrator=yes", "query_invalid"),
        (f"{USERS}?is_staff=true", "query_unknown"),
        (f"{USERS}?limit=0", "limit_bad"),
        (f"{USERS}?limit=0000150000", "limit_bad"),
        (f"{USERS}?cursor=x", "cursor_bad"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(client, path, code):
    refused(client.get(path), 400, code)


def every_route(user):
    own = f"{USERS}{user.pk}/"
    acts = ("promote", "demote", "deactivate", "reactivate", "password")
    return [
        *(("post", f"{own}{act}/") for act in acts),
        *(("get", path) for path in (USERS, own, f"{own}sessions/", f"{own}access-tokens/", AUDIT)),
        *(("delete", path) for path in (f"{own}sessions/", f"{own}sessions/1/")),
        ("delete", f"{own}access-tokens/1/"),
        ("get", f"{AUDIT}1/"),
        ("post", USERS),
        ("patch", own),
    ]


def test_nobody_but_an_administrator_gets_anything_and_nothing_changes(root):
    bob, eve = make_user("bob"), make_user("eve")
    secret = token_issue(root, name="ci", scopes=["read", "write"], days=1)[1]
    AuditEntry.objects.all().delete()
    plain = DocumentedClient()
    plain.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    before = list(User.objects.order_by("id").values())
    people = (
        (DocumentedClient(), 401, "not_authenticated"),
        (caller(bob), 403, "administrators_only"),
        (plain, 403, "scope_missing"),
    )
    last_logins = {row["id"]: None for row in before}
    for method, path in (*every_route(eve), *every_route(bob)):
        for client, status, code in people:
            answer = getattr(client, method)(path, {}, format="json")
            refused(answer, status, code)
            assert b"eve@" not in answer.content
    after = list(User.objects.order_by("id").values())
    assert [r | {"last_login": last_logins[r["id"]]} for r in after] == [
        r | {"last_login": last_logins[r["id"]]} for r in before
    ]
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("number", [0, 987654321, HUGE, HUGE * 10**9])
def test_a_number_of_nothing_is_not_found(client, root, number):
    for method, path in (*every_route(User(pk=number)), ("get", f"{AUDIT}{number}/")):
        if path in (USERS, AUDIT, f"{AUDIT}1/"):
            continue
        body = {"password": GOOD, "task_limit": 1} if method in ("post", "patch") else {}
        body = {key: body[key] for key in body if (key == "password") == path.endswith("password/")}
        refused(getattr(client, method)(path, body, format="json"), 404, "not_found")
    own = f"{USERS}{root.pk}/"
    refused(client.delete(f"{own}access-tokens/{number}/"), 404, "not_found")
    refused(client.delete(f"{own}sessions/{number}/"), 404, "session_unknown")


def make_granted(number):
    for _ in range(number):
        user = make_user(f"user{User.objects.count()}")
        Grant.objects.create(worker=make_worker(is_public=False), user=user)
        logged_in(user)
        AuditEntry.objects.create(action="user.promote", target_type="user", actor=user)


@pytest.mark.parametrize(
    "path", [USERS, f"{USERS}?administrator=false", AUDIT, f"{AUDIT}?search=u"]
)
def test_a_list_asks_the_database_as_often_for_many_rows_as_for_few(
    client, path, django_assert_max_num_queries
):
    make_granted(2)
    client.get(path)
    with django_assert_max_num_queries(5) as few:
        client.get(path)
    make_granted(8)
    with django_assert_max_num_queries(5) as many:
        shown = json.loads(client.get(path).content)["results"]
    assert len(shown) >= 10
    assert len(many) == len(few)
