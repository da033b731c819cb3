"""Redis and S3 as the site uses them: real processes."""

import asyncio
import base64
import hashlib
import http.client
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config

from webprofile.embedded import parts
from webprofile.embedded.layout import BUCKET, Layout, free_ports, load_keys, open_home
from webprofile.embedded.lock import HomeLock
from webprofile.embedded.supervisor import Supervisor

pytestmark = pytest.mark.embedded
ORIGIN = "http://127.0.0.1:8000"
BODY = b"a model" * 100_000


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[parts.Site]:
    """Redis and storage, kept by a supervisor in a thread of its own."""
    layout = open_home(tmp_path_factory.mktemp("home") / "a home")
    layout.make_folders()
    site = parts.Site(layout, load_keys(layout), layout.redis / "r.sock", *free_ports(2))
    up, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=[_serve(site, layout, up, stop)])
    thread.start()
    assert up.wait(30)
    yield site
    loop.call_soon_threadsafe(stop.set)
    thread.join(30)
    loop.close()
    assert not site.redis_socket.exists()


async def _serve(
    site: parts.Site, layout: Layout, up: threading.Event, stop: asyncio.Event
) -> None:
    lock = HomeLock(layout.lock)
    supervisor = Supervisor(layout, parts.environment(site, os.environ), lock.descriptor)
    supervisor.open()
    await supervisor.start(parts.redis(site), parts.storage(site))
    up.set()
    await stop.wait()
    await supervisor.close()
    lock.release()


def presign(
    site: parts.Site, method: str, key: str, body: bytes = b""
) -> tuple[str, dict[str, str]]:
    """Sign for storage's address with the site's keys, as webprofile.storage does."""
    client: Any = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{site.storage_port}",
        aws_access_key_id=site.keys.s3_access_key_id,
        aws_secret_access_key=site.keys.s3_secret_access_key,
        region_name=parts.REGION,
        config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )
    parameters: dict[str, Any] = {"Bucket": BUCKET, "Key": key}
    headers = {}
    if method == "put_object":
        md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
        parameters |= {"ContentLength": len(body), "ContentMD5": md5}
        headers = {"Content-MD5": md5}
    return client.generate_presigned_url(method, Params=parameters), headers


def ask(
    method: str, url: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    parts_of_url = urlsplit(url)
    connection = http.client.HTTPConnection(parts_of_url.netloc, timeout=10)
    try:
        path = f"{parts_of_url.path}?{parts_of_url.query}"
        connection.request(method, path, body, {"Origin": ORIGIN, **(headers or {})})
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, found, answer.read()
    finally:
        connection.close()


def test_an_upload_and_a_download_by_presigned_address(site: parts.Site) -> None:
    url, headers = presign(site, "put_object", "tasks/1/model.mge", BODY)
    status, answer, text = ask("PUT", url, BODY, headers)
    assert status == 200, text
    assert answer["etag"] == f'"{hashlib.md5(BODY).hexdigest()}"'
    assert answer["access-control-allow-origin"] == "*"
    stored = site.layout.storage / BUCKET / "tasks" / "1" / "model.mge"
    assert stored.read_bytes() == BODY
    url, _ = presign(site, "get_object", "tasks/1/model.mge")
    status, answer, text = ask("GET", url)
    assert (status, text) == (200, BODY)
    assert answer["access-control-allow-origin"] == "*"


def test_a_browser_may_send_what_a_presigned_upload_needs(site: parts.Site) -> None:
    url, _ = presign(site, "put_object", "tasks/1/model.mge", BODY)
    wish = {"Access-Control-Request-Method": "PUT"}
    status, answer, _ = ask("OPTIONS", url, headers=wish)
    assert status in (200, 204)
    assert answer["access-control-allow-origin"] == "*"
    assert "PUT" in answer["access-control-allow-methods"]


@pytest.mark.parametrize(
    ("old", "new"), [("model.mge", "other.mge"), ("X-Amz-Expires=3600", "X-Amz-Expires=36000")]
)
def test_a_changed_address_is_refused(site: parts.Site, old: str, new: str) -> None:
    url, headers = presign(site, "put_object", "tasks/2/model.mge", BODY)
    status, _, text = ask("PUT", url.replace(old, new), BODY, headers)
    assert status == 403, text
    assert not (site.layout.storage / BUCKET / "tasks" / "2").exists()


def test_other_bytes_are_refused(site: parts.Site) -> None:
    url, headers = presign(site, "put_object", "tasks/3/model.mge", BODY)
    changed = b"A" + BODY[1:]
    assert ask("PUT", url, changed, headers)[0] == 400
    assert ask("PUT", url, BODY + b"!", headers)[0] == 403  # the length is signed
    assert not (site.layout.storage / BUCKET / "tasks" / "3" / "model.mge").exists()


def test_a_large_upload_arrives_whole(site: parts.Site) -> None:
    body = os.urandom(1 << 20) * 64
    url, headers = presign(site, "put_object", "tasks/5/model.mge", body)
    assert ask("PUT", url, body, headers)[0] == 200
    url, _ = presign(site, "get_object", "tasks/5/model.mge")
    assert ask("GET", url)[2] == body


def test_nobody_reads_or_writes_without_a_signature(site: parts.Site) -> None:
    address = f"http://127.0.0.1:{site.storage_port}/{BUCKET}"
    assert ask("GET", f"{address}/tasks/1/model.mge")[0] >= 400
    assert ask("PUT", f"{address}/new", b"x")[0] >= 400
    assert ask("GET", f"{address}/")[0] >= 400


def test_redis_answers_at_its_socket_and_nowhere_else(site: parts.Site) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(site.redis_socket))
        connection.sendall(b"CONFIG GET port\r\n")
        assert connection.recv(200).splitlines()[-1] == b"0"
    assert site.redis_socket.stat().st_mode & 0o077 == 0


def test_secrets_can_be_read_in_no_process_list(site: parts.Site) -> None:
    secret = site.keys.s3_secret_access_key.encode()
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert secret not in file.read_bytes()
        except OSError:
            continue
