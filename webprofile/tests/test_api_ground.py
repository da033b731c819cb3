"""Tests of what all API resources share: authentication, errors, pagination, languages, limits."""

import datetime
import gzip
import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from accounts.models import AccessToken
from accounts.tokens.access import issue_token, revoke_token
from accounts.tokens.refresh import issue_token_pair
from tasks.tests.make import make_task, make_user
from webprofile.api.throttling import CallerThrottle
from webprofile.observability.tests.parts import redis_server
from webprofile.tests.documented_api import bearer

pytestmark = pytest.mark.django_db

TASKS = "/api/v1/tasks/"


def logged_in(user):
    """Return a client with a session of this user."""
    client = APIClient()
    client.force_login(user)
    return client


def access_token(user, *scopes):
    return issue_token(user, name="script", scopes=scopes or ("read", "write"), days=1)[1]


def problem(response, status, code):
    """Assert that a response is this problem detail; return its body."""
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    body = response.json()
    assert (body["status"], body["code"]) == (status, code)
    assert body["type"].endswith(f"/api/v1/problems/{code}/")
    assert body["title"]
    assert body["detail"]
    return body


def test_session_jwt_and_access_token_authenticate_the_same_user():
    user = make_user()
    jwt, token = issue_token_pair(user).access, access_token(user)
    for client in (logged_in(user), bearer(jwt), bearer(token)):
        assert client.get("/api/v1/me/").json()["email"] == user.email


def test_anonymous_request_returns_401_with_a_challenge():
    response = APIClient().get(TASKS)
    problem(response, 401, "not_authenticated")
    assert response["WWW-Authenticate"] == 'Bearer realm="api"'


@pytest.mark.parametrize(
    "secret", ["mwp_", "mwp_" + "a" * 40, "x.y.z", "", "mwp_ä", "a b", "mwp_" + "a" * 10_000]
)
def test_invalid_token_returns_401(secret):
    assert bearer(secret).get(TASKS).status_code == 401


def test_unusable_tokens_get_the_same_response():
    user = make_user()
    expired, revoked, live = access_token(user), access_token(user), access_token(user)
    jwt = issue_token_pair(user).access
    first, second, _ = AccessToken.objects.order_by("id")
    AccessToken.objects.filter(pk=first.pk).update(expires_at=timezone.now())
    revoke_token(second, by=second.user)
    bodies = [
        problem(bearer(token).get(TASKS), 401, "token_invalid") for token in (expired, revoked)
    ]
    type(user).objects.filter(pk=user.pk).update(is_active=False)
    bodies += [problem(bearer(token).get(TASKS), 401, "token_invalid") for token in (live, jwt)]
    assert all(body == bodies[0] for body in bodies)


def test_token_is_limited_to_its_scopes():
    user = make_user()
    task = make_task(owner=user)
    reading = bearer(access_token(user, "read"))
    assert reading.get(TASKS).status_code == 200
    refusal = problem(reading.post(f"{TASKS}{task.pk}/cancel/"), 403, "scope_missing")
    assert "“write”" in refusal["detail"]
    writing = bearer(access_token(user, "write"))
    problem(writing.get(TASKS), 403, "scope_missing")
    assert writing.post(f"{TASKS}{task.pk}/cancel/").status_code == 200


def test_administrator_token_without_the_scope_admin_has_user_rights():
    admin, bob = make_user("root", is_staff=True), make_user("bob")
    task = make_task(owner=bob)
    plain = bearer(access_token(admin))
    privileged = bearer(access_token(admin, "read", "admin"))
    assert plain.get(f"{TASKS}{task.pk}/").status_code == 404
    assert plain.get("/api/v1/me/").json()["is_administrator"] is False
    assert privileged.get(f"{TASKS}{task.pk}/").status_code == 200
    admin.refresh_from_db()
    assert admin.is_staff


def test_cross_site_request_is_refused():
    user = make_user()
    task = make_task(owner=user)
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)
    problem(client.post(f"{TASKS}{task.pk}/cancel/"), 403, "csrf_failed")
    assert client.get(TASKS).status_code == 200


@pytest.mark.database
@pytest.mark.parametrize(
    ("method", "path", "more", "status", "code"),
    [
        ("get", "/api/v1/nothing/", {}, 404, "not_found"),
        ("get", f"{TASKS}9999999999999999999999999/", {}, 404, "not_found"),
        ("get", f"{TASKS}abc/", {}, 404, "not_found"),
        ("put", TASKS, {"data": {}}, 405, "method_not_allowed"),
        ("trace", TASKS, {}, 405, "method_not_allowed"),
        ("get", TASKS, {"HTTP_ACCEPT": "text/html"}, 406, "not_acceptable"),
        ("post", TASKS, {"data": "a=b", "content_type": "text/plain"}, 415, "media_type_unknown"),
        ("get", f"{TASKS}?limit=0", {}, 400, "limit_bad"),
        ("get", f"{TASKS}?limit=10&limit=x", {}, 400, "limit_bad"),
        ("get", f"{TASKS}?cursor=nonsense", {}, 400, "cursor_bad"),
        ("get", f"{TASKS}?cursor=cD1hYmM=", {}, 400, "cursor_bad"),  # p=abc
        ("get", f"{TASKS}?statuss=failed", {}, 400, "query_unknown"),
        ("get", f"{TASKS}?status=odd", {}, 400, "query_invalid"),
        ("get", f"{TASKS}?worker=99999999999999999999", {}, 400, "query_invalid"),
        ("get", f"{TASKS}?title=%00", {}, 400, "query_invalid"),
    ],
)
def test_each_error_is_a_problem_with_a_stable_code(method, path, more, status, code):
    client = logged_in(make_user())
    response = client.trace(path) if method == "trace" else getattr(client, method)(path, **more)
    problem(response, status, code)


@pytest.mark.parametrize(
    ("text", "status", "code"),
    [
        ("{", 400, "malformed"),
        ("", 422, "invalid"),
        ("[" * 100_000, 400, "malformed"),
        ('{"title": NaN}', 400, "malformed"),
        ('{"title": "\\ud800"}', 400, "malformed"),
        (b"\xff\xfe", 400, "malformed"),
        ("9" * 5000, 400, "malformed"),
        ("[]", 422, "invalid"),
        ("null", 422, "invalid"),
        ('{"files": [], "titel": "x"}', 422, "invalid"),
        (json.dumps({"title": "x" * 300_000}), 413, "body_too_large"),
    ],
)
def test_invalid_body_is_refused(text, status, code):
    client = logged_in(make_user())
    problem(client.post(TASKS, text, content_type="application/json"), status, code)


def test_invalid_fields_are_reported_with_their_paths():
    client = logged_in(make_user())
    body = {"worker": [1], "files": [{"kind": "model"}, {"kind": "odd", "size_bytes": True}]}
    errors = problem(client.post(TASKS, body), 422, "invalid")["errors"]
    assert {(error["field"], error["code"]) for error in errors} == {
        ("worker", "invalid"),
        ("files.1.kind", "invalid_choice"),
        ("files.1.size_bytes", "invalid"),
    }


def test_errors_are_translated_and_keep_their_code():
    client = APIClient()
    chinese = problem(client.get(TASKS, HTTP_ACCEPT_LANGUAGE="zh-CN"), 401, "not_authenticated")
    english = problem(client.get(TASKS, HTTP_ACCEPT_LANGUAGE="en"), 401, "not_authenticated")
    assert chinese["detail"] != english["detail"]
    assert chinese["title"] != english["title"]


def test_type_of_an_error_is_the_address_of_its_explanation():
    address = APIClient().get(TASKS).json()["type"]
    response = APIClient().get(address[address.index("/api/") :])
    assert response.json()["code"] == "not_authenticated"
    listed = APIClient().get("/api/v1/problems/").json()
    assert response.json() in listed


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_error_texts_explain_their_placeholders(language):
    listed = APIClient().get("/api/v1/problems/", HTTP_ACCEPT_LANGUAGE=language).json()
    for entry in listed:
        assert "%" not in entry["text"], entry
        names = list(dict.fromkeys(re.findall(r"\{(\w+)\}", entry["text"])))
        assert sorted(names) == sorted(value["name"] for value in entry["values"]), entry
        assert all(value["meaning"] for value in entry["values"]), entry
    by_code = {entry["code"]: entry for entry in listed}
    assert "{limit_kib} KiB" in by_code["body_too_large"]["text"]
    meanings = {
        code: by_code[code]["values"][-1]["meaning"] for code in ("option_excluded", "throttled")
    }
    other = {"en": "name of the other option", "zh-hans": "另一个选项的名称"}
    wait = {"en": "waiting time, s", "zh-hans": "需要等待的时间（秒）"}
    assert meanings == {"option_excluded": other[language], "throttled": wait[language]}


@pytest.mark.database
def test_pagination_is_stable_while_rows_are_added():
    user = make_user()
    tasks = [make_task(owner=user) for _ in range(5)]
    client = logged_in(user)
    first = client.get(f"{TASKS}?limit=2").json()
    assert first["previous"] is None
    make_task(owner=user)
    second = client.get(first["next"]).json()
    ids = [row["id"] for row in first["results"] + second["results"]]
    assert ids == [task.pk for task in reversed(tasks)][:4]
    back = client.get(second["previous"]).json()
    assert [row["id"] for row in back["results"]] == ids[:2]


def test_times_are_utc():
    user = make_user(time_zone="Asia/Shanghai")
    task = make_task(owner=user)
    created_at = logged_in(user).get(f"{TASKS}{task.pk}/").json()["created_at"]
    assert created_at.endswith("Z")
    assert datetime.datetime.fromisoformat(created_at) == task.created_at


def test_options_lists_methods_and_head_has_no_body():
    client = logged_in(make_user())
    response = client.options(TASKS)
    assert (response.status_code, response.content) == (204, b"")
    assert {"GET", "POST", "HEAD"} <= set(response["Allow"].split(", "))
    head = client.head(TASKS)
    assert (head.status_code, head.content) == (200, b"")


def test_responses_are_not_cached():
    assert logged_in(make_user()).get(TASKS)["Cache-Control"] == "private, no-store"


def test_throttled_request_has_retry_after(settings):
    settings.API_RATES = {"user": "3/min", "anonymous": "2/min"}
    user = make_user("eager")
    client, other = bearer(access_token(user)), bearer(access_token(make_user("calm")))
    assert [client.get(TASKS).status_code for _ in range(3)] == [200] * 3
    limited = client.get(TASKS)
    problem(limited, 429, "throttled")
    assert 0 < int(limited["Retry-After"]) <= 60
    assert other.get(TASKS).status_code == 200


def test_tokens_and_sessions_of_a_user_are_throttled_separately(settings):
    settings.API_RATES = {"user": "1/min", "session": "2/min"}
    cache.clear()
    user = make_user("eager")
    script, page = bearer(access_token(user)), logged_in(user)
    assert [script.get(TASKS).status_code for _ in range(2)] == [200, 429]
    assert [page.get(TASKS).status_code for _ in range(3)] == [200, 200, 429]


def test_requests_from_one_ipv6_network_are_throttled_together(settings):
    """Its client could use another address for each request."""
    settings.API_RATES = {"credentials": "2/min"}
    body = {"email": "alice@example.com", "password": "a guess"}

    def log_in(address):
        return APIClient().post("/api/v1/auth/token/", body, REMOTE_ADDR=address).status_code

    assert [log_in(f"2001:db8::{host}") for host in range(3)] == [401, 401, 429]
    assert log_in("2001:db8:0:1::1") == 401


def test_throttle_is_exact_for_concurrent_requests(settings, tmp_path):
    settings.API_RATES = {"user": "40/min"}
    with redis_server(tmp_path) as (address, _):
        backend = "django.core.cache.backends.redis.RedisCache"
        settings.CACHES = {"default": {"BACKEND": backend, "LOCATION": address}}
        user, barrier = make_user("eager"), threading.Barrier(60)

        def request(_):
            throttle = CallerThrottle()
            barrier.wait()
            is_allowed = throttle.allow_request(
                SimpleNamespace(user=user, successful_authenticator=None), None
            )
            return is_allowed or throttle.wait()

        with ThreadPoolExecutor(60) as pool:
            results = list(pool.map(request, range(60)))
        waits = [wait for wait in results if wait is not True]
        assert len(waits) == 20
        assert all(30 < wait <= 60 for wait in waits)


def test_throttle_forgets_past_windows(settings, monkeypatch):
    settings.API_RATES = {"user": "2/min"}
    cache.clear()
    request = SimpleNamespace(user=make_user(), successful_authenticator=None)
    start = time.time()

    def is_allowed(after_s):
        monkeypatch.setattr(time, "time", lambda: start + after_s)
        return CallerThrottle().allow_request(request, None)

    assert [is_allowed(s) for s in (0, 30, 59, 61, 62, 63, 122)] == [
        True, True, False, True, True, False, True,
    ]  # fmt: skip


def test_throttle_allows_requests_without_a_cache(settings):
    settings.API_RATES = {"user": "3/min"}
    settings.CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": "redis://127.0.0.1:1/0",
        }
    }
    assert bearer(access_token(make_user())).get(TASKS).status_code == 200


def test_server_error_is_a_problem(settings):
    settings.S3_ENDPOINT_URL = "not an address"
    user = make_user()
    client = APIClient(raise_request_exception=False)
    client.force_login(user)
    problem(client.post(f"{TASKS}{make_task(owner=user).pk}/submit/"), 500, "server_error")


def test_unknown_host_is_refused_with_a_problem():
    problem(APIClient().get(TASKS, HTTP_HOST="evil.example"), 400, "malformed")


def test_root_names_resources_that_answer():
    addresses = APIClient().get("/api/v1/").json()
    assert {"tasks", "profiles", "devices", "documentation", "schema"} <= addresses.keys()
    for address in addresses.values():
        assert APIClient().get(address).status_code in (200, 401), address


def test_address_without_its_closing_slash_is_redirected_for_reading_only():
    answer = APIClient().get("/api/v1/tasks?state=running&limit=2")
    assert (answer.status_code, answer["Location"]) == (301, f"{TASKS}?state=running&limit=2")
    assert APIClient().head("/api/v1/tasks").status_code == 301
    problem(APIClient().post("/api/v1/tasks"), 404, "not_found")
    problem(APIClient().get("/api/v1/nothing"), 404, "not_found")
    problem(APIClient().get("/api/v1//evil.example"), 404, "not_found")


def test_schema_is_sent_compressed():
    answer = APIClient().get("/api/v1/schema/", headers={"Accept-Encoding": "gzip"})
    assert answer["Content-Encoding"] == "gzip"
    assert len(answer.content) < 300_000
    assert json.loads(gzip.decompress(answer.content))["paths"]


def test_schema_is_public_and_its_page_has_no_inline_script():
    schema = APIClient().get("/api/v1/schema/")
    assert json.loads(schema.content)["info"]["title"] == "MegEngine Web Profile"
    page = APIClient().get("/api/v1/docs/").content.decode()
    assert "swagger-ui-bundle.js" in page
    assert "<script>" not in page
    assert "<style" not in page
