"""Upgrade the database of an earlier version and check that nothing is lost.

testdata/README.md describes the recorded database. Models are looked up by their class names, so a
model may move to another app. A renamed or removed model changes the expected values here.
"""

import datetime
import json
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import connection
from django.test import Client, override_settings
from django.urls import reverse

from accounts.models import User
from profiles.actors import build_profile
from profiles.models import Profile
from tasks.management.commands.sweep import Rounds
from tasks.models import SavedView, Task
from testdata import DATA
from webprofile.storage import storage

pytestmark = [pytest.mark.django_db, pytest.mark.database]

RECORDED = DATA / "upgrade"
ROWS = json.loads((RECORDED / "rows.json").read_text())
#: a day after the rows were made
NOW = datetime.datetime(2026, 11, 25, 0, 15, 28, tzinfo=datetime.UTC)
OWNER, ADMINISTRATOR, STAFF = (f"{name}@example.com" for name in ("alice", "root", "bob"))
#: a library has a model of the same name
MODELS = {
    model.__name__: model
    for model in apps.get_models()
    if model._meta.app_label != "django_dramatiq"
}


@contextmanager
def other_database(name: str) -> Iterator[None]:
    """Rows are those of this database until the end of the block."""
    before = connection.settings_dict["NAME"]
    _go_to_database(name)
    try:
        yield
    finally:
        _go_to_database(before)


def _go_to_database(name: str) -> None:
    connection.close()
    if connection.vendor == "postgresql":
        connection.close_pool()  # its connections lead to the database of before
    connection.settings_dict["NAME"] = name


@contextmanager
def recorded_database(folder: Path) -> Iterator[None]:
    """Rows are the recorded ones, in a database of their own."""
    if connection.vendor == "sqlite":
        name = str(folder / "upgraded.sqlite3")
        with closing(sqlite3.connect(name)) as database:
            database.executescript((RECORDED / "sqlite.sql").read_text())
        with other_database(name):
            yield
        return
    name = f"{connection.settings_dict['NAME']}_upgraded"
    with connection.cursor() as cursor:
        cursor.execute(f'DROP DATABASE IF EXISTS "{name}"')
        cursor.execute(f'CREATE DATABASE "{name}"')
    with other_database(name):
        with connection.cursor() as cursor:
            cursor.execute((RECORDED / "postgres.sql").read_text())
        yield


def schema() -> dict[str, tuple[set, set]]:
    """Columns and constraints of each table; names of constraints may differ."""
    tables = {}
    with connection.cursor() as cursor:
        for table in connection.introspection.get_table_list(cursor):
            columns = connection.introspection.get_table_description(cursor, table.name)
            constraints = connection.introspection.get_constraints(cursor, table.name)
            tables[table.name] = (
                {(column.name, column.type_code, column.null_ok) for column in columns},
                {
                    (
                        tuple(sorted(constraint["columns"] or ())),
                        constraint["unique"],
                        constraint["foreign_key"],
                    )
                    for constraint in constraints.values()
                },
            )
    return tables


@pytest.fixture(scope="module")
def new_schema(django_db_setup, django_db_blocker) -> dict[str, tuple[set, set]]:
    with django_db_blocker.unblock():
        return schema()


@pytest.fixture(scope="module")
def _upgraded(
    new_schema, object_storage, tmp_path_factory, django_db_setup, django_db_blocker
) -> Iterator[None]:
    """The site has the recorded rows and objects, and was migrated."""
    bucket = f"test-{uuid.uuid4().hex}"
    addresses = dict.fromkeys(("S3_ENDPOINT_URL", "S3_PUBLIC_ENDPOINT_URL"), object_storage)
    with (
        override_settings(S3_BUCKET=bucket, **addresses),
        django_db_blocker.unblock(),
        recorded_database(tmp_path_factory.mktemp("upgrade")),
    ):
        storage.client.create_bucket(Bucket=bucket)
        objects = RECORDED / "objects"
        for path in objects.rglob("*"):
            if path.is_file():
                storage.write(str(path.relative_to(objects)), path.read_bytes())
        call_command("migrate", verbosity=0)
        yield


@pytest.fixture(autouse=True)
def _a_day_later(_upgraded, monkeypatch) -> None:
    """Deadlines are those of the recorded rows; what a test changes is rolled back."""
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW)


def logged_in(email: str) -> Client:
    client = Client()
    assert client.login(email=email, password="correct horse battery")
    return client


def failing(client: Client, *addresses: str) -> dict[str, int]:
    """Pages that are not answered with 200, with their status."""
    answers = {address: client.get(address).status_code for address in addresses}
    return {address: status for address, status in answers.items() if status != 200}


def test_migrations_lead_to_the_schema_of_a_new_site(new_schema) -> None:
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)
    assert schema() == new_schema


def test_no_row_is_lost_or_added() -> None:
    counts = {name: MODELS[name]._base_manager.count() for name in ROWS["counts"]}
    assert counts == ROWS["counts"]


def test_tasks_keep_their_states_attempts_and_files() -> None:
    tasks = [
        {
            "id": task.pk,
            "owner": task.owner.email,
            "state": task.state,
            "outcome": task.outcome,
            "reason": task.reason,
            "events": [event.kind for event in task.events.all()],
            "files": [[f.kind, f.name, f.size_bytes, f.md5] for f in task.files.all()],
            "attempts": [
                {
                    "id": str(attempt.pk),
                    "end_reason": attempt.end_reason,
                    "artifacts": {file.name: file.md5 for file in attempt.artifacts.all()},
                }
                for attempt in task.attempts.all()
            ],
        }
        for task in Task.objects.order_by("pk")
    ]
    assert tasks == ROWS["tasks"]


def test_profiles_keep_their_figures() -> None:
    rows = Profile.objects.order_by("pk").values_list("pk", "operators", "device_total_s")
    assert [list(row) for row in rows] == ROWS["profiles"]


def test_people_may_do_what_they_might_before() -> None:
    for email, codenames in ROWS["permissions"].items():
        held = User.objects.get(email=email).get_all_permissions()
        assert sorted(name.partition(".")[2] for name in held) == codenames
        for name in held:
            app, _, codename = name.partition(".")
            kind = Permission.objects.get(content_type__app_label=app, codename=codename)
            assert kind.content_type.model_class() is not None, name


def test_permissions_follow_a_model_to_its_new_app() -> None:
    kinds = ContentType.objects.filter(model="artifact")
    assert [kind.model_class() for kind in kinds] == [MODELS["Artifact"]]
    granted = Permission.objects.filter(content_type=kinds.get()).values_list("pk", flat=True)
    assert set(granted) == {149, 150, 151, 152}  # the recorded rows, not new ones


def test_entries_of_the_administration_name_what_was_changed() -> None:
    entries = LogEntry.objects.order_by("pk")
    rows = [[entry.content_type.model, entry.object_id, entry.object_repr] for entry in entries]
    assert rows == ROWS["log_entries"]
    assert [str(entry.get_edited_object()) for entry in entries] == [row[2] for row in rows]


def test_its_owner_finds_everything() -> None:
    owner = User.objects.get(email=OWNER)
    tasks = Task.objects.filter(owner=owner)
    of_tasks = Profile.objects.filter(upload=None)
    opened = Profile.objects.filter(attempt=None)
    assert (len(of_tasks), len(opened)) == (2, 1)
    addresses = [
        *map(reverse, ("tasks:list", "tasks:new", "profiles:list", "workers:list")),
        *map(reverse, ("accounts:profile", "accounts:tokens", "accounts:webhooks")),
        f"{reverse('tasks:list')}?{SavedView.objects.get(owner=owner).query}",
        reverse("workers:detail", args=["board"]),
        reverse("accounts:webhook", args=[owner.webhooks.get().pk]),
        *(reverse("tasks:detail", args=[task.pk]) for task in tasks),
        *(reverse("tasks:result", args=[profile.attempt.task_id]) for profile in of_tasks),
        *(reverse("profiles:operators", args=[profile.pk]) for profile in of_tasks),
        *(reverse("profiles:detail", args=[profile.pk]) for profile in opened),
        *(reverse("profiles:operators", args=[profile.pk]) for profile in opened),
    ]
    assert failing(logged_in(OWNER), *addresses) == {}


def test_a_result_still_has_its_figures_and_its_profile() -> None:
    profile = Profile.objects.get(attempt__task=1)
    client = logged_in(OWNER)
    page = client.get(reverse("tasks:result", args=[1])).content.decode()
    assert "11.00 ms without" in page  # of the recorded measurement.json
    table = b"".join(client.get(reverse("profiles:export", args=[profile.pk, "csv"])))
    assert len(table.splitlines()) == profile.operators + 1


def test_staff_and_administrators_keep_their_pages() -> None:
    changed = [entry.get_admin_url() for entry in LogEntry.objects.all()]
    pages = [reverse("admin:index"), *(address for address in changed if address)]
    assert failing(logged_in(ADMINISTRATOR), *pages) == {}
    workers = MODELS["Worker"]._meta
    lists = reverse(f"admin:{workers.app_label}_{workers.model_name}_changelist")
    assert failing(logged_in(STAFF), lists) == {}


def test_a_token_of_before_is_still_good() -> None:
    headers = {"Authorization": f"Bearer {ROWS['token']}"}
    answer = Client().get(reverse("api:tasks"), headers=headers)
    assert answer.status_code == 200
    owned = [task for task in ROWS["tasks"] if task["owner"] == OWNER]
    assert {row["id"] for row in answer.json()["results"]} == {task["id"] for task in owned}


def test_a_result_that_was_being_read_is_read() -> None:
    task = Task.objects.get(state="processing")
    build_profile(str(task.attempts.get().pk))
    task.refresh_from_db()
    assert (task.state, task.outcome) == ("finished", "succeeded")


def test_the_sweep_ends_what_is_overdue() -> None:
    before = {task["id"]: task["state"] for task in ROWS["tasks"]}
    assert Rounds(None).round() == []
    reasons: dict[str, set[str]] = {}
    for task in Task.objects.all():
        assert task.state == "finished"
        reasons.setdefault(before[task.pk], set()).add(task.reason)
    assert reasons == {
        "initiated": {"upload_abandoned"},
        "waiting": {"worker_went_offline"},
        "assigned": {"worker_went_offline"},
        "running": {"worker_went_offline"},
        "cancelling": {"cancelled_by_user"},
        "processing": {"profile_timed_out"},
        "finished": {"", "run_failed", "lease_expired", "cancelled_by_user"},
    }
