"""S3 servers as object storage: presigned URLs, checksums from ETags, storage_prepare."""

import base64
import hashlib
import io
import ssl
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command

from profiles.integrity import _head_md5
from webprofile.storage import storage as objects
from webprofile.storage.s3 import md5_of
from webprofile.tests.postgres import uses_production_parts

pytestmark = pytest.mark.object_storage

BODY = b"a model"
MD5 = hashlib.md5(BODY).hexdigest()
KMS_KEY = "arn:aws:kms:eu-west-1:1:key/abc"
BASE64 = base64.b64encode(bytes.fromhex(MD5)).decode()


def signed_headers(url):
    return set(parse_qs(urlsplit(url).query)["X-Amz-SignedHeaders"][0].split(";"))


@pytest.mark.parametrize(
    ("addressing", "endpoint", "start"),
    [
        ("path", "https://minio.example.org", "https://minio.example.org/models/tasks/1/net.mge?"),
        ("virtual", "https://s3.example.org", "https://models.s3.example.org/tasks/1/net.mge?"),
        ("virtual", "", "https://models.s3.eu-west-1.amazonaws.com/tasks/1/net.mge?"),
    ],
)
def test_presigned_urls_follow_the_addressing_style(settings, addressing, endpoint, start):
    settings.S3_ADDRESSING, settings.S3_PUBLIC_ENDPOINT_URL = addressing, endpoint
    settings.S3_BUCKET, settings.S3_REGION = "models", "eu-west-1"
    url, _ = objects.presign_put("tasks/1/net.mge", size_bytes=7, md5=MD5)
    assert url.startswith(start)


@pytest.mark.parametrize(
    ("encryption", "is_browser", "expected"),
    [
        # an unencrypted upload needs no header that storage must allow for browsers first
        ("", True, {}),
        ("", False, {"Content-MD5": BASE64}),
        # the ETag stays a checksum
        ("AES256", True, {"x-amz-server-side-encryption": "AES256"}),
        (
            "aws:kms",
            True,
            {
                "Content-MD5": BASE64,
                "x-amz-server-side-encryption": "aws:kms",
                "x-amz-server-side-encryption-aws-kms-key-id": KMS_KEY,
                "x-amz-meta-md5": MD5,
            },
        ),
    ],
)
def test_uploads_sign_headers_of_encryption_and_checksum(
    settings, encryption, is_browser, expected
):
    settings.S3_ENCRYPTION = encryption
    settings.S3_KMS_KEY_ID = KMS_KEY if encryption == "aws:kms" else ""
    url, headers = objects.presign_put("a", size_bytes=7, md5=MD5, is_browser=is_browser)
    assert headers == expected
    assert signed_headers(url) == {"content-length", "host", *(name.lower() for name in headers)}


@pytest.mark.parametrize(
    ("response", "md5"),
    [
        ({"ETag": f'"{MD5}"'}, MD5),
        ({"ETag": f'"{MD5}"', "ServerSideEncryption": "AES256"}, MD5),
        # looks like an MD5 but is none
        ({"ETag": f'"{MD5}"', "ServerSideEncryption": "aws:kms"}, ""),
        ({"ETag": '"x"', "ServerSideEncryption": "aws:kms:dsse", "Metadata": {"md5": MD5}}, MD5),
        # metadata of an uploader is used only if storage had to check it
        ({"ETag": f'"{MD5}"', "Metadata": {"md5": "0" * 32}}, MD5),
    ],
)
def test_the_md5_comes_from_the_etag_or_from_signed_metadata(response, md5):
    assert md5_of(response) == md5


def test_without_keys_the_role_of_the_machine_signs(settings, monkeypatch):
    """boto3 tries a chain of sources; here the first one stands in for a machine's role."""
    settings.S3_ACCESS_KEY_ID = settings.S3_SECRET_ACCESS_KEY = ""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "role-of-the-machine")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "its-secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "for-an-hour")
    url = objects.presign_get("a")
    parameters = parse_qs(urlsplit(url).query)
    assert parameters["X-Amz-Credential"][0].startswith("role-of-the-machine/")
    assert parameters["X-Amz-Security-Token"] == ["for-an-hour"]


def test_configured_keys_ignore_aws_variables_of_the_environment(settings, monkeypatch):
    settings.S3_REGION = "region-of-this-test"
    monkeypatch.setenv("AWS_SESSION_TOKEN", "another-program")
    monkeypatch.setenv("AWS_S3_SESSION_PROFILE", "another-program")
    parameters = parse_qs(urlsplit(objects.presign_get("a")).query)
    assert parameters["X-Amz-Credential"][0].startswith(f"{settings.S3_ACCESS_KEY_ID}/")
    assert "X-Amz-Security-Token" not in parameters


def test_a_configured_ca_bundle_is_used(settings):
    settings.S3_CA_BUNDLE = ssl.get_default_verify_paths().openssl_cafile
    assert objects.client._endpoint.http_session._verify == settings.S3_CA_BUNDLE


def test_stored_objects_have_size_and_checksum(storage):
    objects.write("a", BODY)
    objects.write_from("b", io.BytesIO(BODY))
    objects.copy("a", "c")
    assert {name: objects.head(name) for name in "abc"} == dict.fromkeys("abc", (7, MD5))
    assert {stored.md5 for page in objects.pages() for stored in page} == {MD5}


def test_several_objects_are_deleted_by_one_request(storage):
    requests = []
    objects.client.meta.events.register(
        "before-send.s3", lambda request, **_: requests.append(request), unique_id="test"
    )
    names = [f"tasks/1/{number}" for number in range(5)]
    for name in [*names, "tasks/10/0", "tasks/2/0", "tasks/2/0-copy", "tasks/2/00"]:
        objects.write(name, BODY)
    requests.clear()
    assert objects.delete_all([names[0], names[1], "tasks/none/0"]) == set()
    assert objects.delete_all([]) == set()
    assert len(requests) == 1
    assert "Content-MD5" in requests[0].headers  # some servers require it
    assert objects.delete_below("tasks/1/") == 3
    objects.delete_copies("tasks/2/0", keep="tasks/2/0-copy")
    objects.client.meta.events.unregister("before-send.s3", unique_id="test")
    assert len(requests) == 1 + 2 + 2  # a listing before each
    assert [stored.key for page in objects.pages() for stored in page] == [
        "tasks/10/0", "tasks/2/0-copy", "tasks/2/00"
    ]  # fmt: skip


def test_a_missing_checksum_in_a_listing_is_read_from_the_object(storage, settings):
    objects.write("a", BODY)
    settings.S3_ENCRYPTION = "aws:kms"
    ((stored,),) = objects.pages()
    assert (stored.md5, _head_md5(stored)) == ("", MD5)
    objects.delete("a")
    assert _head_md5(stored) == "-"


def test_concurrent_threads_share_one_client(settings):
    """Creating a client takes 0.2 s of a core, and a starting server has many requests at once."""
    settings.S3_ENDPOINT_URL = "https://endpoint-of-this-test.example.org"
    with ThreadPoolExecutor(8) as pool:
        clients = list(pool.map(lambda _: objects.client, range(8)))
    assert len({id(client) for client in clients}) == 1


def test_default_storage_uses_the_same_bucket(storage):
    assert default_storage.save("a", ContentFile(BODY)) == "a"
    assert objects.read("a", limit_bytes=100) == BODY
    with default_storage.open("a") as file:
        assert file.read() == BODY


# -- `manage.py storage_prepare`, which a new installation runs before the first upload ------------


def prepare_storage(capsys) -> str:
    call_command("storage_prepare")
    return capsys.readouterr().out


def test_storage_prepare_creates_the_bucket_once(storage, settings, capsys):
    settings.S3_BUCKET = f"{settings.S3_BUCKET}-fresh"
    assert "created." in prepare_storage(capsys)
    objects.write("a/b", b"some bytes")
    assert "exists." in prepare_storage(capsys)
    assert objects.read("a/b", limit_bytes=100) == b"some bytes"


def test_storage_prepare_allows_the_origins_of_the_site(storage, settings, capsys):
    settings.SITE_URL = "https://profile.example.org/"
    settings.CSRF_TRUSTED_ORIGINS = ["https://other.example.org"]
    output = prepare_storage(capsys)
    origins = "https://other.example.org, https://profile.example.org"
    if not uses_production_parts():  # rclone has one global rule, and so has MinIO
        assert f"allow {origins} in its own" in output
        return
    assert f"Pages of {origins} may use it." in output
    for origin, status in (("other.example.org", 200), ("evil.example.org", 403)):
        headers = {"Origin": f"https://{origin}", "Access-Control-Request-Method": "PUT"}
        url = objects.presign_put("a", size_bytes=1, md5=MD5, is_browser=True)[0]
        assert httpx2.options(url, headers=headers).status_code == status


def test_storage_prepare_reports_wrong_keys(storage, settings):
    settings.S3_SECRET_ACCESS_KEY = "wrong"
    with pytest.raises(CommandError, match="Check address and keys"):
        call_command("storage_prepare")
