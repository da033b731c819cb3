"""Presigned URLs accept nothing else than what they were signed for; with a real S3 server."""

import hashlib
import time
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import httpx2
import pytest

from webprofile.storage import storage

pytestmark = [pytest.mark.usefixtures("storage"), pytest.mark.object_storage]
BODY = b"eleven byte"


def change_url(url, *, path=None, drop=(), **query):
    parts = urlsplit(url)
    parameters = {k: v for k, v in parse_qsl(parts.query) if k not in drop} | query
    return urlunsplit(parts._replace(path=path or parts.path, query=urlencode(parameters)))


def put_url(key="tasks/1/1", body=BODY):
    """Return a URL for a browser, which does not require Content-MD5."""
    md5 = hashlib.md5(body).hexdigest()
    return storage.presign_put(key, size_bytes=len(body), md5=md5, is_browser=True)[0]


def assert_refused(method, url, **more):
    response = httpx2.request(method, url, **more)
    assert response.status_code in (400, 401, 403, 405, 501), (response.status_code, response.text)


def test_a_put_url_accepts_its_file():
    assert httpx2.put(put_url(), content=BODY).status_code == 200
    assert storage.head("tasks/1/1")[0] == len(BODY)


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "POST"])
def test_a_put_url_accepts_no_other_method(method):
    storage.write("tasks/1/1", BODY)
    assert_refused(method, put_url())
    assert storage.read("tasks/1/1", limit_bytes=100) == BODY


@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST"])
def test_a_get_url_accepts_no_other_method(method):
    storage.write("tasks/1/1", BODY)
    assert_refused(method, storage.presign_get("tasks/1/1"), content=b"others")
    assert storage.read("tasks/1/1", limit_bytes=100) == BODY


@pytest.mark.parametrize(
    "path",
    [
        *("bucket/" + key for key in ("tasks/1/2", "tasks/1/1/x", "tasks/1/", "tasks/1/%2e%2e/2")),
        "bucket/",
        "another-bucket/tasks/1/1",
    ],
)
def test_a_url_accepts_no_other_key_or_bucket(path, settings):
    storage.write("tasks/1/2", BODY)
    path = f"/{path}".replace("/bucket/", f"/{settings.S3_BUCKET}/")
    assert_refused("PUT", change_url(put_url(), path=path), content=BODY)
    assert_refused("GET", change_url(storage.presign_get("tasks/1/1"), path=path))


@pytest.mark.parametrize("body", [b"", BODY[:-1], BODY + b"!", bytes(1_000_000)])
def test_a_put_url_accepts_no_other_length(body):
    assert_refused("PUT", put_url(), content=body)
    assert storage.head("tasks/1/1") is None


def test_a_put_url_requires_content_length():
    response = httpx2.put(put_url(), content=iter([BODY, BODY]))
    assert response.status_code in (400, 403, 411)
    assert storage.head("tasks/1/1") is None


def test_a_put_url_with_a_checksum_accepts_no_other_bytes():
    md5 = hashlib.md5(BODY).hexdigest()
    url, headers = storage.presign_put("attempts/1/x", size_bytes=len(BODY), md5=md5)
    assert_refused("PUT", url, content=b"ELEVEN BYTE", headers=headers)
    other = hashlib.md5(b"ELEVEN BYTE").digest()
    assert_refused("PUT", url, content=b"ELEVEN BYTE", headers={"Content-MD5": other.hex()})
    assert_refused("PUT", url, content=b"ELEVEN BYTE")
    assert httpx2.put(url, content=BODY, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "query",
    [
        {"X-Amz-Expires": "604800"},
        {"X-Amz-SignedHeaders": "host;x-amz-date"},
        {"X-Amz-Date": "20200101T000000Z"},
        {"X-Amz-Credential": "nobody/20260101/us-east-1/s3/aws4_request"},
        {"X-Amz-Signature": "0" * 64},
        {"X-Amz-Algorithm": "none"},
        {"uploads": ""},
        {"uploadId": "1", "partNumber": "1"},
        {"acl": ""},
        {"tagging": ""},
        {"x-amz-acl": "public-read"},
        {"x-amz-copy-source": "/b/tasks/1/2"},
        {"response-content-type": "text/html"},
        {"response-content-disposition": "inline"},
        {"versionId": "1"},
    ],
    ids=lambda query: next(iter(query)),
)
def test_a_url_with_changed_or_additional_parameters_is_refused(query):
    storage.write("tasks/1/2", BODY)
    assert_refused("PUT", change_url(put_url(), **query), content=BODY)
    assert_refused("GET", change_url(storage.presign_get("tasks/1/2"), **query))


@pytest.mark.parametrize("name", ["X-Amz-Signature", "X-Amz-Expires", "X-Amz-SignedHeaders"])
def test_a_url_without_a_signed_parameter_is_refused(name):
    storage.write("tasks/1/2", BODY)
    assert_refused("GET", change_url(storage.presign_get("tasks/1/2"), drop={name}))


def test_a_copy_source_header_does_not_copy_another_object(settings):
    storage.write("tasks/2/1", b"other content")
    url = put_url(body=b"")
    source = {"x-amz-copy-source": f"/{settings.S3_BUCKET}/tasks/2/1"}
    httpx2.put(url, content=b"", headers=source)
    head = storage.head("tasks/1/1")
    assert head is None or head[0] == 0


def test_urls_expire(settings):
    settings.PRESIGN_EXPIRY_S = 1
    storage.write("tasks/1/1", BODY)
    get, put = storage.presign_get("tasks/1/1"), put_url()
    time.sleep(2.1)
    assert_refused("GET", get)
    assert_refused("PUT", put, content=BODY)


def test_a_download_is_an_attachment_of_unknown_type():
    page = b"<script>alert(1)</script>"
    httpx2.put(put_url(body=page), content=page, headers={"Content-Type": "text/html"})
    for filename in ("net.mge", 'x".html', "模型.html", None):
        response = httpx2.get(storage.presign_get("tasks/1/1", filename=filename))
        assert response.content == page
        assert response.headers["content-type"] == "application/octet-stream"
        assert response.headers["content-disposition"].startswith("attachment")
