"""Open WebSockets of pages get no more messages after their user has lost access."""

import pytest
from channels.db import database_sync_to_async
from channels.testing import WebsocketCommunicator
from django.contrib.sessions.models import Session
from django.test import Client

from accounts.models import User
from accounts.tests.make import is_logged_in
from tasks.lifecycle.cancel import cancel_task
from tasks.tests.make import make_user, make_waiting_task
from webprofile.asgi import application

pytestmark = pytest.mark.django_db(transaction=True)

NOT_LOGGED_IN = 4401
OTHER_RIGHTS = 4403
TIMEOUT_S = 30


def deactivate():
    User.objects.update(is_active=False)


def end_session():
    Session.objects.all().delete()


def change_password():
    user = User.objects.get()
    user.set_password("another battery staple")
    user.save()


def demote():
    User.objects.filter(is_staff=True).update(is_staff=False, is_superuser=False)


async def open_socket(path, user):
    client = Client()
    await database_sync_to_async(client.force_login)(user)
    return await open_socket_in(client, path)


async def open_socket_in(client, path):
    """Open a socket with the session of a client."""
    cookie = f"sessionid={client.cookies['sessionid'].value}".encode()
    headers = [(b"origin", b"http://testserver"), (b"host", b"testserver"), (b"cookie", cookie)]
    socket = WebsocketCommunicator(application, path, headers=headers)
    await socket.connect()
    return socket


@pytest.mark.parametrize("revoke_access", [deactivate, end_session, change_password])
@pytest.mark.parametrize("path", ["/ws/tasks/", "/ws/tasks/{}/"])
async def test_the_next_message_closes_the_socket_of_a_user_without_access(path, revoke_access):
    user = await database_sync_to_async(make_user)()
    task = await database_sync_to_async(make_waiting_task)(user)
    socket = await open_socket(path.format(task.pk), user)
    if path == "/ws/tasks/":
        await socket.receive_json_from(timeout=TIMEOUT_S)
    else:
        await socket.send_json_to({"after": 0, "log_after": 0, "language": "en"})
        await socket.receive_json_from(timeout=TIMEOUT_S)
    await database_sync_to_async(revoke_access)()
    await database_sync_to_async(cancel_task)(task)
    while (output := await socket.receive_output(timeout=TIMEOUT_S))["type"] != "websocket.close":
        assert b"cancelled" not in (output.get("bytes") or b"") + output.get("text", "").encode()
    assert output["code"] == NOT_LOGGED_IN


@pytest.mark.parametrize("path", ["/ws/tasks/", "/ws/tasks/{}/"])
async def test_a_demoted_administrator_gets_no_messages_about_other_users(path):
    root = await database_sync_to_async(make_user)("root", is_staff=True)
    task = await database_sync_to_async(make_waiting_task)()
    socket = await open_socket(path.format(task.pk), root)
    await socket.send_json_to({"after": 0, "log_after": 0, "language": "en"})
    await socket.receive_json_from(timeout=TIMEOUT_S)
    await database_sync_to_async(demote)()
    await database_sync_to_async(cancel_task)(task)
    while (output := await socket.receive_output(timeout=TIMEOUT_S))["type"] != "websocket.close":
        assert "cancelled" not in output["text"]
    assert output["code"] == OTHER_RIGHTS


@pytest.mark.parametrize("revoke_access", [deactivate, end_session, change_password])
async def test_a_request_after_the_end_of_the_session_gets_no_response(revoke_access):
    user = await database_sync_to_async(make_user)()
    task = await database_sync_to_async(make_waiting_task)(user)
    socket = await open_socket(f"/ws/tasks/{task.pk}/", user)
    await database_sync_to_async(revoke_access)()
    await socket.send_json_to({"after": 0, "log_after": 0, "language": "en"})
    output = await socket.receive_output(timeout=TIMEOUT_S)
    assert (output["type"], output["code"]) == ("websocket.close", NOT_LOGGED_IN)


async def test_a_page_that_reconnects_after_a_new_secret_key_stays_logged_in(settings):
    user = await database_sync_to_async(make_user)()
    browser = Client()
    await database_sync_to_async(browser.force_login)(user)
    former = settings.SECRET_KEY
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "the new key of this site", [former]
    socket = await open_socket_in(browser, "/ws/tasks/")
    assert await socket.receive_json_from(timeout=TIMEOUT_S) == {"type": "changed"}
    assert await database_sync_to_async(is_logged_in)(browser)
