"""Open WebSockets as browsers do."""

from typing import Any, ClassVar

from channels.db import database_sync_to_async
from channels.testing import WebsocketCommunicator
from django.conf import settings as django_settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore

from webprofile.asgi import application

in_thread = database_sync_to_async
#: time for an expected message; a slow machine may need more than the default of one second
TIMEOUT_S = 60


class SocketClient(WebsocketCommunicator):
    """A client whose methods wait up to `TIMEOUT_S` by default.

    The fixture `disconnect_sockets` disconnects the clients of a test at its end.
    """

    clients: "ClassVar[list[SocketClient]]" = []

    async def connect(self, timeout: float = TIMEOUT_S) -> Any:
        self.clients.append(self)
        return await super().connect(timeout)

    async def disconnect(self, code: int = 1000, timeout: float = TIMEOUT_S) -> None:
        await super().disconnect(code, timeout)

    async def receive_from(self, timeout: float = TIMEOUT_S) -> Any:
        return await super().receive_from(timeout)

    async def receive_output(self, timeout: float = TIMEOUT_S) -> Any:
        return await super().receive_output(timeout)

    async def wait(self, timeout: float = TIMEOUT_S) -> None:
        await super().wait(timeout)


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
) -> SocketClient:
    headers = [(b"origin", origin.encode()), (b"host", b"testserver")]
    if user is not None:
        cookie = f"{django_settings.SESSION_COOKIE_NAME}={await make_session(user)}"
        headers.append((b"cookie", cookie.encode()))
    socket = SocketClient(app, path, headers=headers)
    await socket.connect()
    return socket


async def close_code(socket: SocketClient) -> int:
    return (await socket.receive_output())["code"]


async def receive_messages(socket: SocketClient, count: int) -> list[dict[str, Any]]:
    return [await socket.receive_json_from(TIMEOUT_S) for _ in range(count)]
