"""Transfers over connections that break or fall silent."""

import asyncio
import contextlib
import hashlib
import os
from urllib.parse import urlsplit

import boto3
import httpx2
import pytest
from botocore.config import Config

from agent.link import transfers
from agent.link.cache import ContentCache
from agent.link.retries import Policies, Policy
from agent.link.transfers import Transfer, TransferError
from agent.protocol.messages import InputFile, UploadTarget
from agent.protocol.multipart import Checksum
from agent.tests.cutting import cutting_proxy

MIB = 1 << 20
CONTENT = os.urandom(12 * MIB)
POLICIES = Policies(download=Policy(tries=3, first_s=0.01, most_s=0.02))


@pytest.fixture
def bucket(object_storage, settings):
    """A client of a real S3 server."""
    client = boto3.client(
        "s3",
        endpoint_url=object_storage,
        aws_access_key_id=settings.S3_ACCESS_KEY_ID,
        aws_secret_access_key=settings.S3_SECRET_ACCESS_KEY,
        region_name="us-east-1",
        config=Config(signature_version="s3v4", request_checksum_calculation="when_required"),
    )
    with contextlib.suppress(client.exceptions.BucketAlreadyExists):
        client.create_bucket(Bucket="downloads")
    client.put_object(Bucket="downloads", Key="model", Body=CONTENT)
    return client


@pytest.fixture
def proxy(object_storage):
    url = urlsplit(object_storage)
    with cutting_proxy((url.hostname, url.port)) as running:
        yield running


def file_of(bucket, proxy, part_bytes=0, act="get_object", **changes):
    """Return the object with a URL that is signed for the proxy's address."""
    config = Config(signature_version="s3v4", s3={"addressing_style": "path"})
    signer = boto3.client(
        "s3",
        endpoint_url=proxy.address,
        aws_access_key_id=bucket._request_signer._credentials.access_key,
        aws_secret_access_key=bucket._request_signer._credentials.secret_key,
        region_name="us-east-1",
        config=config,
    )
    url = signer.generate_presigned_url(act, {"Bucket": "downloads", "Key": "model"})
    checksum = Checksum(part_bytes)
    checksum.update(CONTENT)
    facts = {"md5": checksum.hexdigest(), "size_bytes": len(CONTENT), "part_bytes": part_bytes}
    return InputFile(name="model.mge", url=url, **facts | changes)


def make_transfer(folder):
    return Transfer(POLICIES, ContentCache(folder / "cache", 0))


async def fetch(file, folder):
    transfer = make_transfer(folder)
    try:
        (stored,) = await transfer.fetch_all((file,), folder)
    finally:
        await transfer.close()
    return stored


async def test_a_broken_download_resumes_where_it_broke(bucket, proxy, tmp_path):
    proxy.down = [3 * MIB, 4 * MIB]
    stored = await fetch(file_of(bucket, proxy), tmp_path)
    assert (tmp_path / "model.mge").read_bytes() == CONTENT
    assert stored.sha256 == hashlib.sha256(CONTENT).hexdigest()
    first, second, third = proxy.ranges
    assert first == ""
    starts = [int(head.removeprefix("bytes=").removesuffix("-")) for head in (second, third)]
    assert 2 * MIB < starts[0] <= 3 * MIB
    assert starts[0] + 3 * MIB < starts[1] <= 7 * MIB
    # some data was in transit, and responses have headers
    assert sum(proxy.received) < len(CONTENT) + MIB


async def test_breaks_do_not_fail_a_download_that_makes_progress(bucket, proxy, tmp_path):
    proxy.down = [MIB] * 9
    await fetch(file_of(bucket, proxy), tmp_path)
    assert (tmp_path / "model.mge").read_bytes() == CONTENT


async def test_a_download_without_progress_fails_after_three_tries(bucket, proxy, tmp_path):
    proxy.down = [3 * MIB, *[1] * 9]
    with pytest.raises(TransferError, match="no connection to storage"):
        await fetch(file_of(bucket, proxy), tmp_path)
    assert len(proxy.ranges) == 3


async def test_a_replaced_object_is_downloaded_from_the_start(bucket, proxy, tmp_path):
    file = file_of(bucket, proxy)
    other = CONTENT[::-1]
    bucket.put_object(Bucket="downloads", Key="model", Body=other)
    proxy.down = [3 * MIB]
    transfer = make_transfer(tmp_path)
    begin = Transfer._fetch

    async def replaced_after_the_first_try(self, incoming):
        try:
            return await begin(self, incoming)
        except TransferError:
            bucket.put_object(Bucket="downloads", Key="model", Body=CONTENT)
            raise

    transfer._fetch = replaced_after_the_first_try.__get__(transfer)
    await transfer.fetch_all((file,), tmp_path)
    await transfer.close()
    assert (tmp_path / "model.mge").read_bytes() == CONTENT
    assert [bool(head) for head in proxy.ranges] == [False, True, False]


async def test_a_multipart_file_is_verified_with_its_etag(bucket, proxy, tmp_path):
    proxy.down = [7 * MIB]
    await fetch(file_of(bucket, proxy, part_bytes=5 * MIB), tmp_path)
    assert (tmp_path / "model.mge").read_bytes() == CONTENT
    wrong = file_of(bucket, proxy, part_bytes=5 * MIB, md5="0" * 32 + "-3")
    with pytest.raises(TransferError, match="MD5 checksum differs"):
        await fetch(wrong, tmp_path)


async def test_a_silent_download_times_out_and_resumes(monkeypatch, bucket, proxy, tmp_path):
    assert transfers._TIMEOUT.read <= 15
    monkeypatch.setattr(transfers, "_TIMEOUT", httpx2.Timeout(0.5))
    proxy.silent = [3 * MIB]
    async with asyncio.timeout(20):
        await fetch(file_of(bucket, proxy), tmp_path)
    assert (tmp_path / "model.mge").read_bytes() == CONTENT
    assert [bool(head) for head in proxy.ranges] == [False, True]


async def test_an_unanswered_upload_times_out_and_can_be_retried(
    monkeypatch, bucket, proxy, tmp_path
):
    assert transfers._storing(4096).read < 16
    assert transfers._storing(1 << 30).read > 100
    monkeypatch.setattr(transfers, "_SILENT_S", 0.5)
    path = tmp_path / "model"
    path.write_bytes(CONTENT[::-1])
    offer = transfers.offer_file(path)
    target = UploadTarget(name="model", url=file_of(bucket, proxy, act="put_object").url)
    proxy.silent = [0]
    transfer = make_transfer(tmp_path)
    async with asyncio.timeout(20):
        with pytest.raises(TransferError, match="ReadTimeout") as caught:
            await transfer.store(path, offer, target)
        assert caught.value.is_transient
        await transfer.store(path, offer, target)
    await transfer.close()
    assert bucket.get_object(Bucket="downloads", Key="model")["Body"].read() == CONTENT[::-1]
