"""The socket of an import's page: messages while its files are read, and who may connect."""

import pytest

from profiles.actors import build_opened
from profiles.imports.progress import ProgressReporter
from profiles.tests.imports import confirm_upload, make_upload
from tasks.tests.make import make_user
from tasks.tests.sockets import close_code, in_thread, open_socket, receive_messages
from testdata import good_profile

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("storage")]

CHANGED = [{"type": "changed"}]


async def test_the_socket_sends_changes_of_state_and_progress():
    alice = await in_thread(make_user)()
    upload = await in_thread(make_upload)(alice, good_profile("tiny"))
    socket = await open_socket(f"/ws/profiles/opened/{upload.pk}/", alice)
    assert await receive_messages(socket, 1) == CHANGED
    await in_thread(confirm_upload)(upload)
    assert await receive_messages(socket, 1) == CHANGED
    await in_thread(lambda: ProgressReporter(upload).report("reading", 1))()
    assert await receive_messages(socket, 1) == CHANGED
    assert await socket.receive_nothing(0.2)
    await in_thread(build_opened)(upload.pk)
    assert await receive_messages(socket, 1) == CHANGED
    await socket.disconnect()


async def test_strangers_and_anonymous_visitors_are_refused():
    upload = await in_thread(make_upload)(await in_thread(make_user)(), good_profile("tiny"))
    path = f"/ws/profiles/opened/{upload.pk}/"
    assert await close_code(await open_socket(path, await in_thread(make_user)("carol"))) == 4404
    assert await close_code(await open_socket(path)) == 4401


def test_the_status_fragment_shows_state_and_progress(client, alice):
    upload = make_upload(alice, good_profile("tiny"))
    confirm_upload(upload)
    address = f"/profiles/opened/{upload.pk}/status/"
    assert 'data-state="processing"' in client.get(address).text
    ProgressReporter(upload).report("reading", 42 * upload.size_bytes // 100 + 1)
    fragment = client.get(address).text
    assert 'value="42"' in fragment
    assert "42 % of the file has been read." in fragment
    build_opened(upload.pk)
    assert 'data-state="ready"' in client.get(address).text
