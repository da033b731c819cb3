"""Tests of the browser's WebSocket about tasks, also after a reconnect."""

import pytest
from channels.layers import get_channel_layer
from django.db import OperationalError

from agent.protocol.messages import AttemptLog
from tasks.lifecycle.cancel import cancel_task
from tasks.lifecycle.wakeups import owner_group
from tasks.models import Task
from tasks.submission import uploads
from tasks.tests.make import (
    make_attempt,
    make_task,
    make_user,
    make_waiting_task,
    receive_report,
    set_last_heartbeat,
    started_report,
    store_log_chunk,
    stored_objects,
)
from tasks.tests.sockets import (
    SocketClient,
    close_code,
    in_thread,
    make_session,
    open_socket,
    receive_messages,
)
from webprofile.asgi import application

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("disconnect_sockets"),
]


async def open_task_socket(make=make_waiting_task) -> tuple[Task, SocketClient]:
    """Create a task of a new user, and open its socket as that user."""
    user = await in_thread(make_user)()
    task = await in_thread(make)(user)
    return task, await open_socket(f"/ws/tasks/{task.pk}/", user)


async def test_socket_sends_each_state_change():
    task, socket = await open_task_socket(make_task)
    await in_thread(set_last_heartbeat)(None)  # no device takes the task
    await socket.send_json_to({"after": 0, "log_after": 0})
    await in_thread(lambda: uploads.submit_task(task, stored_objects(task)))()
    (event,) = await receive_messages(socket, 1)
    assert event == {
        "type": "event", "task": task.pk, "seq": 1, "state": "waiting", "outcome": "",
    }  # fmt: skip
    await in_thread(cancel_task)(task)
    (event,) = await receive_messages(socket, 1)
    assert (event["seq"], event["state"], event["outcome"]) == (2, "finished", "cancelled")


async def test_reconnected_page_receives_each_message_exactly_once():
    alice = await in_thread(make_user)()
    attempt = await in_thread(lambda: make_attempt(make_waiting_task(alice)))()
    path = f"/ws/tasks/{attempt.task_id}/"
    socket = await open_socket(path, alice)
    await socket.send_json_to({"after": 0})
    assert [e["seq"] for e in await receive_messages(socket, 2)] == [1, 2]
    await socket.disconnect()

    def log_and_cancel():
        for seq, text in ((1, "one\n"), (2, "two\n")):
            chunk = AttemptLog(attempt=attempt.pk, seq=seq, offset=4 * seq - 4, size=4, text=text)
            store_log_chunk(attempt, chunk)
        cancel_task(Task.objects.get(pk=attempt.task_id))

    await in_thread(log_and_cancel)()
    socket = await open_socket(path, alice)
    await socket.send_json_to({"after": 2, "log_after": 0})
    first, second, event = await receive_messages(socket, 3)
    assert [first["text"], second["text"], event["seq"]] == ["one\n", "two\n", 3]
    await socket.send_json_to({"after": 3, "log_after": second["id"]})
    assert await socket.receive_nothing(0.2)


async def test_socket_sends_progress_when_a_pass_ends():
    alice = await in_thread(make_user)()
    attempt = await in_thread(lambda: make_attempt(make_waiting_task(alice)))()

    def report_passes(**passes) -> None:
        receive_report(attempt, started_report(attempt, **passes))

    await in_thread(report_passes)(passes=7)
    path = f"/ws/tasks/{attempt.task_id}/"
    socket = await open_socket(path, alice)
    await socket.send_json_to({"after": 3})
    assert await receive_messages(socket, 1) == [{"type": "progress"}]
    await in_thread(report_passes)(passes=7, passes_done=2)
    assert await receive_messages(socket, 1) == [{"type": "progress"}]
    await in_thread(report_passes)(passes=7, passes_done=2)
    assert await socket.receive_nothing(0.2)
    await in_thread(report_passes)(passes=7, passes_done=7)
    assert await receive_messages(socket, 1) == [{"type": "progress"}]


async def test_socket_sends_nothing_before_the_first_message_of_the_page():
    task, socket = await open_task_socket(make_task)
    await in_thread(lambda: uploads.submit_task(task, stored_objects(task)))()
    assert await socket.receive_nothing(0.2)


async def test_list_socket_sends_changes_of_own_tasks():
    alice = await in_thread(make_user)()
    socket = await open_socket("/ws/tasks/", alice)
    assert await receive_messages(socket, 1) == [{"type": "changed"}]
    await in_thread(make_task)(alice)
    assert await receive_messages(socket, 1) == [{"type": "changed"}]
    bob = await in_thread(make_user)("bob")
    await in_thread(make_task)(bob)
    assert await socket.receive_nothing(0.2)


async def test_socket_rejects_other_users_and_anonymous_visitors():
    task = await in_thread(make_task)(await in_thread(make_user)())
    carol = await in_thread(make_user)("carol")
    path = f"/ws/tasks/{task.pk}/"
    assert await close_code(await open_socket(path, carol)) == 4404
    assert await close_code(await open_socket(path)) == 4401
    assert await close_code(await open_socket("/ws/tasks/")) == 4401


async def test_socket_rejects_a_foreign_origin(settings):
    session = await make_session(await in_thread(make_user)())
    cookie = f"{settings.SESSION_COOKIE_NAME}={session}".encode()
    for origin, is_accepted in ((b"http://testserver", True), (b"http://evil.example", False)):
        headers = [(b"origin", origin), (b"host", b"testserver"), (b"cookie", cookie)]
        socket = SocketClient(application, "/ws/tasks/", headers=headers)
        assert (await socket.connect())[0] is is_accepted


@pytest.mark.parametrize("message", [[], "x", {"after": "1"}, {"after": -5, "log_after": True}, {}])
async def test_malformed_message_starts_at_the_first_event(message):
    _, socket = await open_task_socket()
    await socket.send_json_to(message)
    if isinstance(message, dict):
        assert (await receive_messages(socket, 1))[0]["seq"] == 1
    else:
        assert await socket.receive_nothing(0.2)


async def application_with_broken_connection(scope, receive, send):
    """The site behind a server that cannot send messages, with the error of uvicorn."""

    async def fail_to_send(message):
        if message["type"] == "websocket.send":
            raise OSError("the client is gone")
        await send(message)

    await application(scope, receive, fail_to_send)


@pytest.mark.exhaustive
async def test_broken_connection_releases_its_place(settings):
    settings.SOCKETS_PER_USER = 1
    alice = await in_thread(make_user)()
    for _ in range(2):
        socket = await open_socket("/ws/tasks/", alice, app=application_with_broken_connection)
        with pytest.raises(OSError, match="is gone"):
            await socket.wait()
    assert owner_group(alice.pk) not in get_channel_layer().groups
    socket = await open_socket("/ws/tasks/", alice)
    assert await receive_messages(socket, 1) == [{"type": "changed"}]
    # a rejected socket releases no place
    too_many = await open_socket("/ws/tasks/", alice)
    assert await close_code(too_many) == 4429
    await too_many.disconnect()
    assert await close_code(await open_socket("/ws/tasks/", alice)) == 4429
    await socket.disconnect()
    again = await open_socket("/ws/tasks/", alice)
    assert await receive_messages(again, 1) == [{"type": "changed"}]


@pytest.mark.exhaustive
async def test_socket_that_ends_with_an_error_releases_its_place(settings, monkeypatch):
    settings.SOCKETS_PER_USER = 1
    alice = await in_thread(make_user)()
    task = await in_thread(make_task)(alice)

    def fail(_):
        raise OperationalError("the database is unreachable")

    with monkeypatch.context() as patched:
        patched.setattr("tasks.consumers.visible_tasks", fail)
        socket = await open_socket(f"/ws/tasks/{task.pk}/", alice)
        with pytest.raises(OperationalError):
            await socket.wait()
    socket = await open_socket("/ws/tasks/", alice)
    assert await receive_messages(socket, 1) == [{"type": "changed"}]


@pytest.mark.exhaustive
async def test_error_in_the_response_closes_the_socket(monkeypatch):
    _, socket = await open_task_socket()

    def fail(*_):
        raise ValueError("an event that cannot be read")

    monkeypatch.setattr("tasks.consumers.events_after", fail)
    await socket.send_json_to({"after": 0})
    with pytest.raises(ValueError, match="cannot be read"):
        await socket.wait()


async def test_invalid_json_is_ignored():
    _, socket = await open_task_socket()
    for frame in ("no json", "[" * 900):
        await socket.send_to(text_data=frame)
    await socket.send_json_to({"after": 0})
    assert (await receive_messages(socket, 1))[0]["seq"] == 1
