"""MinIO and AWS as object storage: signed addresses, checksums from ETags, storage_prepare."""

import base64
import hashlib
import io
import ssl
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlsplit

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command

from profiles.integrity import _head_md5
from webprofile.storage import storage as objects
from webprofile.storage.s3 import md5_of

BODY = b"a model"
MD5 = hashlib.md5(BODY).hexdigest()
BASE64 = base64.b64encode(bytes.fromhex(MD5)).decode()


@pytest.fixture
def kms(settings):
    settings.S3_ENCRYPTION, settings.S3_KMS_KEY_ID = "aws:kms", "arn:aws:kms:eu-west-1:1:key/abc"


def signed(url):
    return set(parse_qs(urlsplit(url).query)["X-Amz-SignedHeaders"][0].split(";"))


@pytest.mark.parametrize(
    ("addressing", "endpoint", "start"),
    [
        ("path", "https://minio.example.org", "https://minio.example.org/models/tasks/1/net.mge?"),
        ("virtual", "https://s3.example.org", "https://models.s3.example.org/tasks/1/net.mge?"),
        ("virtual", "", "https://models.s3.eu-west-1.amazonaws.com/tasks/1/net.mge?"),
    ],
)
def test_an_address_of_a_file_has_the_form_that_the_storage_wants(
    settings, addressing, endpoint, start
):
    settings.S3_ADDRESSING, settings.S3_PUBLIC_ENDPOINT_URL = addressing, endpoint
    settings.S3_BUCKET, settings.S3_REGION = "models", "eu-west-1"
    url, _ = objects.presign_put("tasks/1/net.mge", size_bytes=7, md5=MD5)
    assert url.startswith(start)


def test_whoever_uploads_must_send_how_the_file_is_encrypted_and_its_checksum(kms):
    url, headers = objects.presign_put("a", size_bytes=7, md5=MD5, is_browser=True)
    assert headers == {
        "Content-MD5": BASE64,
        "x-amz-server-side-encryption": "aws:kms",
        "x-amz-server-side-encryption-aws-kms-key-id": "arn:aws:kms:eu-west-1:1:key/abc",
        "x-amz-meta-md5": MD5,
    }
    assert signed(url) == {"content-length", "host", *(name.lower() for name in headers)}


def test_without_kms_a_browser_sends_no_header_that_storage_must_allow_first():
    url, headers = objects.presign_put("a", size_bytes=7, md5=MD5, is_browser=True)
    assert headers == {}
    assert signed(url) == {"content-length", "host"}


def test_an_agent_always_sends_the_checksum():
    url, headers = objects.presign_put("a", size_bytes=7, md5=MD5)
    assert headers == {"Content-MD5": BASE64}
    assert signed(url) == {"content-length", "content-md5", "host"}


def test_encryption_by_the_storage_itself_leaves_the_etag_a_checksum(settings):
    settings.S3_ENCRYPTION = "AES256"
    url, headers = objects.presign_put("a", size_bytes=7, md5=MD5, is_browser=True)
    assert headers == {"x-amz-server-side-encryption": "AES256"}
    assert signed(url) == {"content-length", "host", "x-amz-server-side-encryption"}


@pytest.mark.parametrize(
    ("response", "md5"),
    [
        ({"ETag": f'"{MD5}"'}, MD5),
        ({"ETag": f'"{MD5}"', "ServerSideEncryption": "AES256"}, MD5),
        # has the form of an MD5 but is none
        ({"ETag": f'"{MD5}"', "ServerSideEncryption": "aws:kms"}, ""),
        ({"ETag": '"x"', "ServerSideEncryption": "aws:kms:dsse", "Metadata": {"md5": MD5}}, MD5),
        # metadata of an uploader is used only where storage had to check it
        ({"ETag": f'"{MD5}"', "Metadata": {"md5": "0" * 32}}, MD5),
    ],
)
def test_an_etag_counts_as_checksum_only_where_it_is_one(response, md5):
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


def test_the_sites_own_keys_sign_without_what_the_environment_has_for_other_programs(
    settings, monkeypatch
):
    settings.S3_REGION = "asked-for-by-this-test-alone"
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-others")
    monkeypatch.setenv("AWS_S3_SESSION_PROFILE", "of-others")
    parameters = parse_qs(urlsplit(objects.presign_get("a")).query)
    assert parameters["X-Amz-Credential"][0].startswith(f"{settings.S3_ACCESS_KEY_ID}/")
    assert "X-Amz-Security-Token" not in parameters


def test_certificates_of_ones_own_are_trusted(settings):
    settings.S3_CA_BUNDLE = ssl.get_default_verify_paths().openssl_cafile
    assert objects.client._endpoint.http_session._verify == settings.S3_CA_BUNDLE


def test_what_the_site_stores_itself_comes_back_with_its_checksum(storage):
    objects.write("a", BODY)
    objects.write_from("b", io.BytesIO(BODY))
    objects.copy("a", "c")
    assert {name: objects.head(name) for name in "abc"} == dict.fromkeys("abc", (7, MD5))
    assert {stored.md5 for page in objects.pages() for stored in page} == {MD5}


def test_where_lists_tell_no_checksum_each_object_is_asked(storage, settings):
    objects.write("a", BODY)
    settings.S3_ENCRYPTION = "aws:kms"
    ((stored,),) = objects.pages()
    assert (stored.md5, _head_md5(stored)) == ("", MD5)
    objects.delete("a")
    assert _head_md5(stored) == "-"


def test_threads_that_need_storage_first_share_one_client(settings):
    """Creating a client takes 0.2 s of a core, and a starting server has many requests at once."""
    settings.S3_ENDPOINT_URL = "https://asked-for-by-this-test-alone.example.org"
    with ThreadPoolExecutor(8) as pool:
        clients = list(pool.map(lambda _: objects.client, range(8)))
    assert len({id(client) for client in clients}) == 1


def test_files_of_django_lie_in_the_same_bucket(storage):
    assert default_storage.save("a", ContentFile(BODY)) == "a"
    assert objects.read("a", limit_bytes=100) == BODY
    with default_storage.open("a") as file:
        assert file.read() == BODY


# -- `manage.py storage_prepare`, which a new installation runs before the first upload ------------


def prepare(capsys) -> str:
    call_command("storage_prepare")
    return capsys.readouterr().out


def test_the_bucket_is_made_once_and_can_be_used(storage, settings, capsys):
    settings.S3_BUCKET = f"{settings.S3_BUCKET}-fresh"
    assert "made." in prepare(capsys)
    objects.write("a/b", b"some bytes")
    assert "there already." in prepare(capsys)
    assert objects.read("a/b", limit_bytes=100) == b"some bytes"


def test_a_storage_that_takes_no_rules_is_named_with_what_to_do(storage, settings, capsys):
    settings.SITE_URL = "https://profile.example.org/"
    settings.CSRF_TRUSTED_ORIGINS = ["https://other.example.org"]
    output = prepare(capsys)
    # rclone has one global CORS rule, and so has MinIO
    assert "allow https://other.example.org, https://profile.example.org in its own" in output


def test_wrong_keys_are_told_as_such(storage, settings):
    settings.S3_SECRET_ACCESS_KEY = "wrong"
    with pytest.raises(CommandError, match="Check address and keys"):
        call_command("storage_prepare")
