"""`manage.py storage_prepare`, which a new installation runs before the first upload."""

import pytest
from django.core.management import CommandError, call_command

from webprofile.storage import storage as objects


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
