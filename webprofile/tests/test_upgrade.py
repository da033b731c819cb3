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
    """Use this database until the end of the block."""
    before = connection.settings_dict["NAME"]
    _connect_to(name)
    try:
        yield
    finally:
        _connect_to(before)


def _connect_to(name: str) -> None:
    connection.close()
    if connection.vendor == "postgresql":
        connection.close_pool()  # its connections are to the previous database
    connection.settings_dict["NAME"] = name


@contextmanager
def recorded_database(folder: Path) -> Iterator[None]:
    """Use a separate database with the recorded rows."""
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
    """Return columns and constraints of each table, without the names of constraints."""
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


def columns_with_defaults() -> dict[str, dict[str, bool]]:
    """Return for each column whether an INSERT may omit it: it is nullable or has a default."""
    with connection.cursor() as cursor:
        return {
            table.name: {
                column.name: column.null_ok or column.default is not None
                for column in connection.introspection.get_table_description(cursor, table.name)
            }
            for table in connection.introspection.get_table_list(cursor)
        }


@pytest.fixture(scope="module")
def new_schema(django_db_setup, django_db_blocker) -> dict[str, tuple[set, set]]:
    with django_db_blocker.unblock():
        return schema()


@pytest.fixture(scope="module")
def recorded_columns() -> dict[str, dict[str, bool]]:
    """Columns of the recorded database, which `_upgraded` fills in before it migrates."""
    return {}


@pytest.fixture(scope="module")
def _upgraded(
    new_schema,
    recorded_columns,
    object_storage,
    tmp_path_factory,
    django_db_setup,
    django_db_blocker,
) -> Iterator[None]:
    """Migrate the recorded database; the objects are in a bucket of their own."""
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
        recorded_columns |= columns_with_defaults()
        call_command("migrate", verbosity=0)
        # otherwise pages ask for a moment of patience while an actor rebuilds a profile
        call_command("reprofile", "--outdated", verbosity=0)
        yield


@pytest.fixture(autouse=True)
def _a_day_later(_upgraded, monkeypatch) -> None:
    """Set the time to a day after the recording, so that deadlines have passed."""
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW)


def logged_in(email: str) -> Client:
    client = Client()
    assert client.login(email=email, password="correct horse battery")
    return client


def failing_pages(client: Client, *addresses: str) -> dict[str, int]:
    """Return the pages that do not return 200, with their status."""
    statuses = {address: client.get(address).status_code for address in addresses}
    return {address: status for address, status in statuses.items() if status != 200}


def test_migrated_schema_equals_that_of_a_new_site(new_schema) -> None:
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)
    assert schema() == new_schema


def test_processes_of_the_last_release_can_insert_rows_after_the_migration(
    recorded_columns,
) -> None:
    migrated = columns_with_defaults()
    for table, former in recorded_columns.items():
        if table not in migrated:
            continue
        assert former.keys() <= migrated[table].keys()
        assert [name for name in former if former[name] and not migrated[table][name]] == []
        added = migrated[table].keys() - former.keys()
        assert [name for name in added if not migrated[table][name]] == []


def test_upgrade_keeps_the_number_of_rows() -> None:
    counts = {name: MODELS[name]._base_manager.count() for name in ROWS["counts"]}
    assert counts == ROWS["counts"]


def test_upgrade_keeps_states_attempts_and_files_of_tasks() -> None:
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


def test_upgrade_keeps_the_figures_of_profiles() -> None:
    rows = Profile.objects.order_by("pk").values_list("pk", "operators", "device_total_s")
    assert [list(row) for row in rows] == ROWS["profiles"]


def test_upgrade_keeps_permissions_of_users() -> None:
    for email, codenames in ROWS["permissions"].items():
        granted_names = User.objects.get(email=email).get_all_permissions()
        assert sorted(name.partition(".")[2] for name in granted_names) == codenames
        for name in granted_names:
            app, _, codename = name.partition(".")
            kind = Permission.objects.get(content_type__app_label=app, codename=codename)
            assert kind.content_type.model_class() is not None, name


def test_permissions_follow_a_model_to_its_new_app() -> None:
    kinds = ContentType.objects.filter(model="artifact")
    assert [kind.model_class() for kind in kinds] == [MODELS["Artifact"]]
    granted = Permission.objects.filter(content_type=kinds.get()).values_list("pk", flat=True)
    assert set(granted) == {149, 150, 151, 152}  # the recorded rows, not new ones


def test_admin_log_entries_keep_their_objects() -> None:
    entries = LogEntry.objects.order_by("pk")
    rows = [[entry.content_type.model, entry.object_id, entry.object_repr] for entry in entries]
    assert rows == ROWS["log_entries"]
    assert [str(entry.get_edited_object()) for entry in entries] == [row[2] for row in rows]


def test_owner_can_open_all_pages_after_the_upgrade() -> None:
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
    assert failing_pages(logged_in(OWNER), *addresses) == {}


def test_result_keeps_its_figures_and_profile() -> None:
    profile = Profile.objects.get(attempt__task=1)
    client = logged_in(OWNER)
    page = client.get(reverse("tasks:result", args=[1])).content.decode()
    assert "11.00 ms without" in page  # of the recorded measurement.json
    table = b"".join(client.get(reverse("profiles:export", args=[profile.pk, "csv"])))
    assert len(table.splitlines()) == profile.operators + 1


def test_staff_and_administrators_can_open_their_pages() -> None:
    changed = [entry.get_admin_url() for entry in LogEntry.objects.all()]
    pages = [reverse("admin:index"), *(address for address in changed if address)]
    assert failing_pages(logged_in(ADMINISTRATOR), *pages) == {}
    workers = MODELS["Worker"]._meta
    lists = reverse(f"admin:{workers.app_label}_{workers.model_name}_changelist")
    assert failing_pages(logged_in(STAFF), lists) == {}


def test_old_token_is_still_valid() -> None:
    headers = {"Authorization": f"Bearer {ROWS['token']}"}
    response = Client().get(reverse("api:tasks"), headers=headers)
    assert response.status_code == 200
    owned = [task for task in ROWS["tasks"] if task["owner"] == OWNER]
    assert {row["id"] for row in response.json()["results"]} == {task["id"] for task in owned}


def test_result_in_processing_is_completed() -> None:
    task = Task.objects.get(state="processing")
    build_profile(str(task.attempts.get().pk))
    task.refresh_from_db()
    assert (task.state, task.outcome) == ("finished", "succeeded")


def test_sweep_ends_overdue_tasks_after_the_upgrade() -> None:
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
