"""Services for administrators, with their effects on tasks and agents."""

import datetime

import pytest
from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from django.utils import timezone

from accounts.models import AuditEntry
from tasks.lifecycle.sweep import sweep
from tasks.models import Task
from tasks.tests.make import make_attempt, make_user, make_waiting_task, make_worker
from webprofile.errors import DomainError
from workers import services
from workers.grants import add_grants, remove_grants
from workers.models import Grant, Pool, Worker
from workers.selectors import may_use_worker
from workers.tokens import check_token, issue_code, redeem_code, worker_group

pytestmark = [pytest.mark.django_db, pytest.mark.database]


def expect_error(code: str):
    return pytest.raises(DomainError, match=rf"^{code}\b")


def actions() -> list[str]:
    return list(AuditEntry.objects.values_list("action", flat=True))


@pytest.mark.parametrize(
    ("act", "back", "field"),
    [
        (services.drain_worker, services.resume_worker, "is_enabled"),
        (services.publish_worker, services.hide_worker, "is_public"),
    ],
)
def test_switches_change_are_audited_once_and_can_be_undone(root, act, back, field):
    worker = make_worker("box", is_public=False)
    before = getattr(worker, field)
    assert act(worker, by=root)
    assert not act(worker, by=root)
    assert getattr(worker, field) is not before
    assert back(worker, by=root)
    assert getattr(worker, field) is before
    second, first = AuditEntry.objects.all()
    assert first.before == second.after
    assert first.after == second.before
    assert first.target_name == "box"


def test_a_drained_device_finishes_its_attempts_and_gets_no_new_tasks(root):
    worker = make_worker()
    running = make_attempt(make_waiting_task(worker=worker))
    services.drain_worker(worker, by=root)
    running.refresh_from_db()
    assert running.ended_at is None
    with expect_error("worker_disabled"):
        make_waiting_task(worker=worker)


def test_resuming_releases_a_held_device(root):
    worker = make_worker()
    Worker.objects.filter(pk=worker.pk).update(held_at=timezone.now(), held_reason="timed_out")
    assert services.resume_worker(worker, by=root)
    worker.refresh_from_db()
    assert (worker.held_at, worker.held_reason) == (None, "")
    assert actions() == ["worker.release"]


def test_revocation_ends_tokens_and_unused_codes(root):
    worker = make_worker()
    _, token = redeem_code(issue_code(worker))
    code = services.enrol_worker(worker, by=root)
    assert services.revoke_worker(worker, by=root) == 1
    with expect_error("token_revoked"):
        check_token(token)
    with expect_error("code_used"):
        redeem_code(code)
    assert actions() == ["worker.revoke", "worker.enrol"]
    assert code not in str(list(AuditEntry.objects.values()))
    assert services.revoke_worker(worker, by=root) == 0
    assert actions() == ["worker.revoke", "worker.enrol"]


async def test_revocation_wakes_the_connection_of_the_agent(transactional_db):
    worker = await database_sync_to_async(make_worker)()
    layer = get_channel_layer()
    await layer.group_add(worker_group(worker.pk), "agent-connection")
    await database_sync_to_async(services.revoke_worker)(worker, by=None)
    assert await layer.receive("agent-connection") == {"type": "worker.revoked"}


def test_retiring_frees_the_name_and_keeps_the_history(root):
    worker = make_worker("box")
    Pool.objects.create(name="arm").workers.add(worker)
    task = make_waiting_task(worker=worker)
    assert services.retire_worker(worker, by=root)
    assert not services.retire_worker(worker, by=root)
    assert worker.name == f"box.retired-{worker.pk}"
    assert not worker.pools.exists()
    again = services.register_worker(name="box", by=root)
    assert again.pk != worker.pk
    task.refresh_from_db()
    assert task.worker == worker
    assert actions() == ["worker.create", "worker.retire"]


def test_a_long_name_is_truncated_for_the_suffix(root):
    worker = make_worker("x" * 60)
    services.retire_worker(worker, by=root)
    assert len(worker.name) == 60
    worker.full_clean()


def test_tasks_waiting_for_a_retired_device_fail_at_the_next_sweep(root):
    worker = make_worker()
    task = make_waiting_task(worker=worker)
    services.retire_worker(worker, by=root)
    sweep()
    task.refresh_from_db()
    assert (task.state, task.outcome, task.reason) == ("finished", "failed", "worker_retired")


def test_attempts_on_a_retired_device_are_lost_with_their_lease_and_not_retried_there(root):
    worker = make_worker()
    attempt = make_attempt(make_waiting_task(worker=worker))
    services.retire_worker(worker, by=root)
    late = timezone.now() - datetime.timedelta(seconds=1)
    type(attempt).objects.update(lease_expires_at=late)
    sweep()
    sweep()
    task = Task.objects.get()
    assert (task.state, task.reason) == ("finished", "worker_retired")


@pytest.mark.parametrize(
    "act",
    [
        services.drain_worker,
        services.resume_worker,
        services.publish_worker,
        services.hide_worker,
        services.enrol_worker,
    ],
)
def test_a_retired_device_cannot_be_changed(root, act):
    worker = make_worker()
    services.retire_worker(Worker.objects.get(pk=worker.pk), by=root)
    with expect_error("worker_retired"):
        act(worker, by=root)  # read before it was retired


def test_a_code_issued_before_retirement_is_invalid(root):
    worker = make_worker()
    code = services.enrol_worker(worker, by=root)
    services.retire_worker(worker, by=root)
    with expect_error("code_used"):
        redeem_code(code)


@pytest.mark.parametrize("name", ["", "two words", "a/b", "x" * 61])
def test_an_invalid_name_is_rejected(name):
    with expect_error("worker_name_bad"):
        services.register_worker(name=name, by=None)


def test_a_name_in_use_is_rejected():
    make_worker("box")
    with expect_error("worker_name_taken"):
        services.register_worker(name="box", by=None)


def test_several_devices_are_granted_to_several_users_and_revoked(root):
    users = [make_user(name) for name in ("bob", "carol")]
    workers = [make_worker(is_public=False) for _ in range(2)]
    ids = [user.pk for user in users]
    assert add_grants(users=ids, workers=[w.name for w in workers], by=root) == 4
    assert all(may_use_worker(user, worker) for user in users for worker in workers)
    assert remove_grants(users=ids, workers=[workers[0].pk], by=root) == 2
    assert not may_use_worker(users[0], workers[0])
    assert may_use_worker(users[0], workers[1])
    entry = AuditEntry.objects.get(action="grant.remove")
    assert entry.target_name == workers[0].name
    assert entry.before == {user.email: True for user in users}
    assert entry.after == {user.email: False for user in users}


def test_duplicate_grants_and_names_have_no_effect(root):
    bob, worker = make_user("bob"), make_worker(is_public=False)
    twice = [bob.pk, bob.email, " BOB@Example.com "]
    assert add_grants(users=twice, workers=[worker.pk, worker.name], by=root) == 1
    assert add_grants(users=[bob.pk], workers=[worker.pk], by=root) == 0
    assert Grant.objects.count() == 1
    assert actions() == ["grant.add"]
    assert remove_grants(users=twice, workers=[worker.pk], by=root) == 1
    assert remove_grants(users=twice, workers=[worker.pk], by=root) == 0
    assert actions() == ["grant.remove", "grant.add"]


def test_unknown_users_are_named_in_the_error_and_nothing_is_granted(root):
    bob, worker = make_user("bob"), make_worker(is_public=False)
    deleted = make_user("deleted")
    number = deleted.pk
    deleted.delete()
    with pytest.raises(DomainError) as caught:
        add_grants(users=[bob.pk, number, "eve@example.com"], workers=[worker.pk], by=root)
    assert caught.value.code == "users_unknown"
    assert caught.value.data["names"] == f"{number}, eve@example.com"
    assert not Grant.objects.exists()
    assert actions() == []


def test_deactivated_users_get_no_grants_but_can_lose_them(root):
    bob, worker = make_user("bob", is_active=False), make_worker(is_public=False)
    with expect_error("users_inactive"):
        add_grants(users=[bob.pk], workers=[worker.pk], by=root)
    Grant.objects.create(user=bob, worker=worker)
    assert remove_grants(users=[bob.pk], workers=[worker.pk], by=root) == 1


def test_unknown_and_retired_devices_are_named_in_the_error(root):
    bob, worker = make_user("bob"), make_worker("box", is_public=False)
    with expect_error("workers_unknown"):
        add_grants(users=[bob.pk], workers=["no-such", worker.pk], by=root)
    services.retire_worker(worker, by=root)
    with expect_error("workers_retired"):
        add_grants(users=[bob.pk], workers=[worker.pk], by=root)


def test_names_of_devices_are_case_sensitive(root):
    bob = make_user("bob")
    small, large = make_worker("box", is_public=False), make_worker("BOX", is_public=False)
    add_grants(users=[bob.pk], workers=["BOX"], by=root)
    assert may_use_worker(bob, large)
    assert not may_use_worker(bob, small)


def test_the_second_of_two_concurrent_users_of_a_name_gets_an_error(root, monkeypatch):
    """Simulate two transactions that both check the name before either of them writes."""
    box, other = make_worker("box"), make_worker("other")
    monkeypatch.setattr("django.db.models.query.QuerySet.exists", lambda rows: False)
    with expect_error("worker_name_taken"):
        services.register_worker(name=box.name, by=root)
    with expect_error("worker_name_taken"):
        services.update_worker(other, name=box.name, slots=1, labels={}, pools=(), by=root)
    assert (Worker.objects.count(), actions()) == (2, [])


def test_the_number_of_queries_does_not_depend_on_users(root, django_assert_num_queries):
    worker = make_worker(is_public=False)
    users = [make_user(f"user{number}") for number in range(20)]
    add_grants(users=[root.pk, root.email], workers=[worker.pk, worker.name], by=root)
    with django_assert_num_queries(7):
        add_grants(users=[users[0].email], workers=[worker.name], by=root)
    with django_assert_num_queries(7):
        add_grants(users=[user.email for user in users[1:]], workers=[worker.name], by=root)
