"""Site of the permission tests: one object of each kind, and eight people."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP
from allauth.mfa.webauthn.internal.auth import WebAuthn
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.contenttypes.models import ContentType
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, transaction
from django.http import HttpResponse
from django.test import Client, override_settings
from django.urls import reverse

from accounts.models import AuditEntry
from accounts.tokens.access import issue_token
from accounts.webhooks.registration import add_webhook
from profiles.models import Profile, Share
from profiles.sharing import create_share
from profiles.tests.dumps import make_files, zip_bytes
from profiles.tests.flows import tensor, to_flow
from profiles.tests.imports import make_import
from profiles.tests.pages import make_result
from profiles.tests.static_plans import make_chunk, make_plan, to_bytes
from profiles.tests.traces import HOST as HOST_THREAD
from profiles.tests.traces import enclose, operator, span, to_trace
from profiles.viewer_packages import perfetto_tag, viewer_tag
from tasks.baselines import pin_baseline
from tasks.models import Artifact, OptionPreset, SavedView, Task, TaskFile
from tasks.tests.make import MD5, make_attempt, make_user, make_waiting_task, make_worker
from testdata import DATA, good_profile
from webprofile.storage import storage
from webprofile.tests.security_key import security_key
from workers.models import Grant, Pool, Worker
from workers.tokens import issue_code, redeem_code

PEOPLE = (
    "anonymous",
    "owner",
    "other user",
    "granted user",
    "administrator",
    "agent",
    "other agent",
    "share",
)
#: part of the names of all objects of the owner
SECRET = "alicesecret"
#: names of the private device that ran the owner's tasks, and of another private device
DEVICE = "hiddenbox"
DISTANT = "distantbox"
#: host name, which only administrators see
HOST = "hiddenhost"
EVERYTHING = frozenset(
    {SECRET, DEVICE, DISTANT, HOST, "alice@", "bob@", "gina@", "root@"},
)
#: routes of traces and of memory over time, which need a profile made from them
_OF_STEPS = ("profiles:trace*.profile_id", "profiles:memory-flow*.profile_id")
#: route of the chart of a memory plan, which needs a profile made from one
_PLANS = "api:profile-chart-static-memory.profile_id"
#: the same routes below a link
_SHARED_STEPS = (
    "shared:trace.token", "shared:original.token", "shared:raw.token", "shared:memory-flow*.token",
)  # fmt: skip
_VISIBLE = {
    "anonymous": set[str](),
    "owner": {SECRET, "alice@"},
    "other user": {"bob@"},
    "granted user": {DEVICE, "gina@"},
    "administrator": EVERYTHING,
    "agent": {DEVICE, HOST},
    "other agent": {DISTANT},
    "share": set[str](),
}
#: prefixes of routes that name the device of the user's own task, even if it is now private
OWN_WORK = (
    "tasks:", "profiles:", "api:task", "api:profile", "api:opened", "api:compare", "/ws/tasks/",
)  # fmt: skip


def secrets_for(person: str, route: str) -> set[str]:
    """Return the texts that no response of this route to this person may contain."""
    visible = set(_VISIBLE[person])
    if route.startswith("shared:"):
        # the same for everybody: the result and its device, but no e-mail address
        return set(EVERYTHING) - {SECRET, DEVICE}
    if person == "owner" and route.startswith(OWN_WORK):
        visible.add(DEVICE)
    return set(EVERYTHING) - visible


@dataclass(frozen=True)
class PersonCredentials:
    """Session cookie of a browser, or token of an agent or a script; empty for none."""

    session: str = ""
    token: str = ""


class PermissionSite:
    """The people with their credentials, and the URL parameters of their objects."""

    # on a busy machine the devices would be offline before all objects have been made
    @override_settings(HEARTBEAT_S=3600)
    def __init__(self, folder: Path) -> None:
        alice, bob, gina = make_user("alice"), make_user("bob"), make_user("gina")
        root = make_user("root", is_staff=True, is_superuser=True)
        facts = {"hostname": HOST, "cores": 4}
        box, token = redeem_code(
            issue_code(make_worker(DEVICE, is_public=False, facts=facts, labels={"at": DEVICE}))
        )
        granted = Grant.objects.create(worker=box, user=alice)
        Grant.objects.create(worker=box, user=gina)
        profile, other = (_make_result(alice) for _ in range(2))
        self.live = make_attempt(make_waiting_task(alice, box))
        granted.delete()  # alice keeps her tasks, but has no access to the device any more
        _, other_token = redeem_code(issue_code(make_worker(DISTANT, is_public=False)))
        public = make_worker("commonbox")
        bobs, bobs_baseline = (_make_result(bob) for _ in range(2))
        pin_baseline(bobs_baseline.attempt.task)
        self.box: Worker = box
        self.credentials = {
            "anonymous": PersonCredentials(),
            "owner": PersonCredentials(session=_session_of(alice)),
            "other user": PersonCredentials(session=_session_of(bob)),
            "granted user": PersonCredentials(session=_session_of(gina)),
            "administrator": PersonCredentials(session=_session_of(root)),
            "agent": PersonCredentials(token=token),
            "other agent": PersonCredentials(token=other_token),
            # not one of PEOPLE: a script of an administrator with a read token
            "script": PersonCredentials(
                token=issue_token(root, name="reads", scopes=["read"], days=1)[1]
            ),
        }
        self.values = _values(alice, box, profile, other) | {"agent-file.name": _release(folder)}
        shared = self.values["token"]
        self.credentials["share"] = PersonCredentials(session=shared, token=shared)
        self._clients = {person: Client() for person in self.credentials}
        self._strict = Client(enforce_csrf_checks=True)
        #: ids of the objects of each person, for requests that combine them with another object
        self.own = {
            "owner": _own(profile, None, public),
            "other user": _own(bobs, make_waiting_task(bob, public), public),
            "granted user": _own(None, make_waiting_task(gina, public), public),
            "administrator": _own(None, None, public),
        }
        #: like `values`, with the results of the other user
        self.others = self.values | {
            "task_id": self.own["other user"]["task"],
            "other_id": self.own["other user"]["task"],
            "profile_id": self.own["other user"]["profile"],
            "file_id": TaskFile.objects.get(task=bobs.attempt.task_id, kind="model").pk,
            **dict.fromkeys(_OF_STEPS, _make_step(bob).pk),
            _PLANS: _make_plan(bob).pk,
        }
        #: query string by route
        self.queries = _queries(profile, other)
        #: form by route, for routes that need one
        self.forms = {"tasks:bulk-action": f"act=delete&task={profile.attempt.task_id}"}

    def request(
        self, person: str, method: str, address: str, body: Any = None, *, strict: bool = False
    ) -> HttpResponse:
        """Send a request as a person, roll back its changes and return the response.

        body: text is sent as a form, anything else as JSON
        strict: check CSRF, without sending the token of the page
        """
        credentials = self.credentials[person]
        client = self._strict if strict else self._clients[person]
        client.cookies.clear()
        headers = {"Authorization": f"Bearer {credentials.token}"} if credentials.token else {}
        if credentials.session:
            client.cookies[settings.SESSION_COOKIE_NAME] = credentials.session
        is_form = isinstance(body, str) or (body is None and not address.startswith("/api/"))
        kind = "application/x-www-form-urlencoded" if is_form else "application/json"
        data = (body or "") if is_form else json.dumps(body or {})
        # not `rolled_back`: Django's test client keeps the connection open by itself
        with transaction.atomic():
            answer = client.generic(method, address, data, kind, headers=headers)
            transaction.set_rollback(True)
        return answer


@contextmanager
def rolled_back() -> Iterator[None]:
    """Roll back all changes of the database that the block makes."""
    with _one_connection(), transaction.atomic():
        yield
        transaction.set_rollback(True)


@contextmanager
def _one_connection() -> Iterator[None]:
    """Keep requests and WebSockets from closing the connection, which holds the transaction."""
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    try:
        with mock.patch("channels.db.close_old_connections", lambda: None):
            yield
    finally:
        for signal in signals:
            signal.connect(close_old_connections)


def _make_result(owner: Any) -> Profile:
    """Create a succeeded task with a model, data and a dump in storage."""
    profile = make_result(good_profile("tiny"), owner=owner)
    attempt = profile.attempt
    assert attempt is not None
    title = SECRET if owner.email.startswith("alice@") else "net"
    Task.objects.filter(pk=attempt.task_id).update(title=title)
    model = (DATA / "models" / "tiny.mge").read_bytes()
    for file in attempt.task.files.all():
        storage.write(file.object_key, model)
    rows = TaskFile.objects.filter(task=attempt.task_id, kind="model")
    rows.update(size_bytes=len(model), name=f"{title}.mge")
    dump = zip_bytes(make_files({(1, "x"): np.ones((2, 3), np.float32)}))
    artifact = Artifact.objects.create(
        attempt=attempt, name="bin_io_dump.zip", size_bytes=len(dump), md5=MD5
    )
    storage.write(artifact.object_key, dump)
    return profile


def _make_step(owner: Any) -> Profile:
    """Create a profile from a trace and memory over time, which has these two views."""
    step = enclose(span(HOST_THREAD, "fc", 0, 50), *operator(10, "ADD", 5, 3, "a:0"))
    name = SECRET if owner.email.startswith("alice@") else "step"
    flow = to_flow(tensor(name, at=4096, size=4, begin=1, end=9))
    return make_import(owner, to_trace(*step), flow, name=name).profile


def _make_plan(owner: Any) -> Profile:
    """Create a profile from a memory plan, which has a chart of it."""
    plan = make_plan(2, make_chunk(0, (0, 2), (0, 64)))
    name = SECRET if owner.email.startswith("alice@") else "plan"
    return make_import(owner, to_bytes(plan), name=name).profile


def _session_of(user: Any) -> str:
    """Log in, reauthenticate with the password, and return the session key."""
    client = Client()
    client.force_login(user)
    client.post(reverse("account_reauthenticate"), {"password": "correct horse battery"})
    key = str(client.session.session_key)
    UserSession.objects.get_or_create(
        session_key=key, defaults={"user": user, "ip": "127.0.0.1", "user_agent": "test"}
    )
    return key


def _release(folder: Path) -> str:
    """Write the files that `python -m agent.install` makes; return the name of the agent."""
    name = "agent-0.1.0+1a2b3c4d-linux-x86_64-cp311.pyz"
    (folder / name).write_bytes(b"agent")
    manifest = {
        "version": "0.1.0+1a2b3c4d",
        "files": {"linux-x86_64-cp311": {"name": name, "sha256": "", "size_bytes": 5}},
        "wheel": {"name": "agent.whl", "sha256": "", "size_bytes": 0},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return name


def _own(profile: Profile | None, waiting: Task | None, public: Worker) -> dict[str, int]:
    own = {"public": public.pk}
    if profile is not None and profile.attempt is not None:
        own |= {"profile": profile.pk, "task": profile.attempt.task_id}
    return own if waiting is None else own | {"waiting": waiting.pk}


def _queries(profile: Profile, other: Profile) -> dict[str, str]:
    assert other.attempt is not None
    assert profile.attempt is not None
    both = f"p={profile.pk}&p={other.pk}"
    return {
        "profiles:shares": f"task={profile.attempt.task_id}",
        "tasks:compare-choose": f"other={other.attempt.task_id}",
        "admin:autocomplete": "app_label=workers&model_name=grant&field_name=user",
        "api:worker-queue": "version=1.13.0",
        "profiles:compare": both,
        "api:compare": both,
        "api:compare-export": both,
        "api:compare-graph": both,
        "api:compare-timelines": both,
    }


#: URL parameters that name no object
_FIXED: dict[str, Any] = {
    "number": 1,
    "row": 0,
    "action": "test",
    "version": "1.13.0",
    "code": "not_found",
    "provider_id": "nobody",
    "key": "nobody",
    "uidb36": "1",
    "app_label": "accounts",
    "url": "x/",
    "*artifact.name": "bin_io_dump.zip",
    "*export.name": "csv",
    "*netron*.name": "view.js",
    "*accounts_user_act.name": "promote",
    "*workers_worker_act.name": "drain",
    "*tasks_task_act.name": "cancel",
    "/perfetto/*.name": "perfetto.css",
}


def _values(alice: Any, box: Worker, profile: Profile, other: Profile) -> dict[str, Any]:
    """Return the value of each URL parameter.

    A key ROUTE.PARAMETER sets it for routes that match the pattern ROUTE.
    """
    assert profile.attempt is not None
    assert other.attempt is not None
    task = profile.attempt.task
    pin_baseline(other.attempt.task)
    upload = make_import(alice, good_profile("tiny"), name=SECRET)
    token, _ = issue_token(alice, name=SECRET, scopes=["read"], days=1)
    webhook, _ = add_webhook(alice, url=f"https://{SECRET}.test/", events=["task.finished"])
    view = SavedView.objects.create(owner=alice, name=SECRET, query="q=x")
    preset = OptionPreset.objects.create(owner=alice, name=SECRET, options={"iter": 7})
    pool = _pool_of(box)
    entry = AuditEntry.objects.create(
        action="worker.drain", target_type="worker", target_id=str(box.pk), target_name=DEVICE
    )
    _second_factors(alice)
    step, plan = _make_step(alice), _make_plan(alice)
    _, shared = create_share(
        alice, kind=Share.Kind.TASK, ids=[task.pk], parts=Share.Part.values, days=1
    )
    session = UserSession.objects.get(user=alice)
    return {
        **_FIXED,
        "task_id": task.pk,
        "view": "files",
        "other_id": other.attempt.task_id,
        "file_id": task.files.get(kind="model").pk,
        "view_id": view.pk,
        "preset_id": preset.pk,
        "profile_id": profile.pk,
        "upload_id": upload.pk,
        "tag": viewer_tag(),
        "token_id": token.pk,
        "webhook_id": webhook.pk,
        "session_id": session.pk,
        "pool": pool.name,
        "content_type_id": ContentType.objects.get_for_model(alice).pk,
        # only in routes with these names
        "workers:*.name": box.name,
        "api:worker*.name": box.name,
        "admin:view_on_site.object_id": alice.pk,
        "*accounts_user*.pk": alice.pk,
        "*accounts?user*.object_id": alice.pk,
        "*workers_worker*.pk": box.pk,
        "*workers?worker*.object_id": box.pk,
        "*workers?pool*.object_id": pool.pk,
        "*tasks_task*.pk": task.pk,
        "*tasks?task*.object_id": task.pk,
        "*accounts?auditentry*.object_id": entry.pk,
        "*profiles?profileupload*.object_id": upload.pk,
        "*profiles?share*.object_id": Share.objects.earliest("pk").pk,
        **dict.fromkeys(_OF_STEPS, step.pk),
        _PLANS: plan.pk,
        "share_id": Share.objects.get(kind=Share.Kind.TASK).pk,
        "token": shared,
        **dict.fromkeys(_SHARED_STEPS, _share(alice, Share.Kind.IMPORT, step)),
        "shared:chart-static-memory.token": _share(alice, Share.Kind.IMPORT, plan),
        "shared:compare-graph.token": _share(alice, Share.Kind.COMPARISON, profile, other),
        "shared:compare-timelines.token": _share(alice, Share.Kind.COMPARISON, profile, other),
        "perfetto.tag": perfetto_tag(),
        "/perfetto/*.tag": perfetto_tag(),
        "mfa_*.pk": Authenticator.objects.get(user=alice, type="webauthn").pk,
    }


def _share(owner: Any, kind: str, *profiles: Profile) -> str:
    """Share results, and return the token."""
    ids = [profile.pk for profile in profiles]
    return create_share(owner, kind=kind, ids=ids, parts=(), days=1)[1]


def _second_factors(user: Any) -> None:
    TOTP.activate(user, "ORSXG5A=")
    RecoveryCodes.activate(user)
    WebAuthn.add(user, SECRET, security_key())


def _pool_of(box: Worker) -> Pool:
    pool = Pool.objects.create(name=f"{DEVICE}-pool")
    pool.workers.add(box)
    return pool
