"""Open WebSockets as browsers do."""

from typing import Any

from channels.db import database_sync_to_async
from channels.testing import WebsocketCommunicator
from django.conf import settings as django_settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore

from webprofile.asgi import application

in_thread = database_sync_to_async


@in_thread
def make_session(user: Any) -> str:
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.save()
    return session.session_key


async def open_socket(
    path: str, user: Any = None, origin: str = "http://testserver", app: Any = application
) -> WebsocketCommunicator:
    headers = [(b"origin", origin.encode()), (b"host", b"testserver")]
    if user is not None:
        cookie = f"{django_settings.SESSION_COOKIE_NAME}={await make_session(user)}"
        headers.append((b"cookie", cookie.encode()))
    socket = WebsocketCommunicator(app, path, headers=headers)
    await socket.connect()
    return socket


async def close_code(socket: WebsocketCommunicator) -> int:
    return (await socket.receive_output(timeout=5))["code"]


async def receive_messages(socket: WebsocketCommunicator, count: int) -> list[dict[str, Any]]:
    return [await socket.receive_json_from(timeout=5) for _ in range(count)]
