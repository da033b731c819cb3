"""Tests of the checks of settings, and of secrets from the environment or from files."""

import json
import subprocess
import sys

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command

from accounts.models import User
from tasks.management.commands.sweep import INTERVAL_S
from webprofile.checks import check_production, check_settings
from webprofile.origins import origin_of
from webprofile.settings.environment import address_rate, secret
from webprofile.storage import storage
from workers.models import Worker

#: loads the settings for each line of variables, and prints those with the given names or the error
_LOADER = """
import importlib, json, os, sys, traceback
variables = dict(os.environ)
for line in sys.stdin:
    names, changes = json.loads(line)
    os.environ.clear()
    os.environ.update(variables | changes)
    for module in [name for name in sys.modules if name.startswith("webprofile.settings.")]:
        del sys.modules[module]
    try:
        settings = importlib.import_module("webprofile.settings.base")
        result = [getattr(settings, name) for name in names]
    except Exception:
        result = traceback.format_exc()
    print(json.dumps(result, default=repr), flush=True)
"""


@pytest.fixture(scope="module")
def load():
    """Return a function that loads the settings with variables of the environment.

    It returns the settings with the given names, or the traceback if one cannot be read.
    """
    with subprocess.Popen(
        [sys.executable, "-c", _LOADER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def load(*names: str, **variables: str):
            print(json.dumps([names, variables]), file=process.stdin, flush=True)
            return json.loads(process.stdout.readline())

        yield load
        process.stdin.close()


def test_dead_device_is_detected_within_45_seconds(settings):
    assert settings.LEASE_S + settings.HEARTBEAT_BATCH_S + INTERVAL_S <= 45


@pytest.mark.parametrize(
    "changes",
    [
        {},
        # AWS with a role instead of keys
        {"S3_ACCESS_KEY_ID": "", "S3_SECRET_ACCESS_KEY": "", "S3_ENDPOINT_URL": ""},
        # storage at a subdomain of the site
        {"S3_PUBLIC_ENDPOINT_URL": "http://127.0.0.1:8000", "S3_ADDRESSING": "virtual"},
    ],
)
def test_valid_settings_pass_the_checks(settings, changes):
    for name, value in changes.items():
        setattr(settings, name, value)
    assert check_settings() == []


@pytest.mark.parametrize(
    ("changes", "check_id"),
    [
        ({"S3_SECRET_ACCESS_KEY": ""}, "webprofile.E001"),
        ({"ACCOUNT_EMAIL_VERIFICATION": "mandatory"}, "webprofile.W001"),
        ({"LEASE_S": 5.0, "HEARTBEAT_S": 5.0}, "webprofile.E002"),
        ({"AA_RUN_S": 2}, "webprofile.E016"),
        ({"S3_ACCESS_KEY_ID": "", "S3_SECRET_ACCESS_KEY": ""}, "webprofile.W002"),
        ({"S3_ADDRESSING": "host"}, "webprofile.E006"),
        # boto3 would choose, and the policy of pages would name another host
        ({"S3_ADDRESSING": "auto"}, "webprofile.E006"),
        ({"S3_ENCRYPTION": "kms"}, "webprofile.E007"),
        ({"S3_KMS_KEY_ID": "arn:aws:kms:1"}, "webprofile.E008"),
        ({"S3_CA_BUNDLE": "/no/such/file"}, "webprofile.E009"),
        ({"S3_PUBLIC_ENDPOINT_URL": "http://127.0.0.1:8000/files"}, "webprofile.E014"),
        ({"BROKER_URL": "kafka://mq.example.org"}, "webprofile.E011"),
    ],
)
def test_invalid_combination_of_settings_is_reported(settings, changes, check_id):
    for name, value in changes.items():
        setattr(settings, name, value)
    assert [message.id for message in check_settings()] == [check_id]


def test_old_sqlite_is_reported_unless_postgresql_is_used(settings, monkeypatch):
    monkeypatch.setattr("sqlite3.sqlite_version_info", (3, 34, 1))
    engine = "django.db.backends.sqlite3"
    monkeypatch.setitem(settings.DATABASES["default"], "ENGINE", engine)
    assert [message.id for message in check_settings()] == ["webprofile.E015"]
    monkeypatch.setitem(settings.DATABASES["default"], "ENGINE", "django.db.backends.postgresql")
    assert check_settings() == []


def test_rabbitmq_without_its_package_is_reported(settings, monkeypatch):
    settings.BROKER_URL = "amqp://mq.example.org"
    assert check_settings() == []
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert [message.id for message in check_settings()] == ["webprofile.E010"]


@pytest.fixture
def production(settings, monkeypatch):
    """Settings that the checks of production accept."""
    engine = "django.db.backends.postgresql"
    monkeypatch.setitem(settings.DATABASES["default"], "ENGINE", engine)
    settings.HAS_MAIL_SERVER = True
    settings.SITE_URL = "https://profile.example.org"
    settings.S3_PUBLIC_ENDPOINT_URL = "https://s3.example.org"
    return settings


def test_production_settings_pass_the_checks(production):
    assert check_production() == []


@pytest.mark.parametrize(
    ("changes", "check_id"),
    [
        ({"HAS_MAIL_SERVER": False}, "webprofile.W004"),
        ({"S3_PUBLIC_ENDPOINT_URL": "https://127.0.0.1:9000"}, "webprofile.E012"),
        ({"SITE_URL": "http://profile.example.org"}, "webprofile.W005"),
        ({"S3_PUBLIC_ENDPOINT_URL": "http://s3.example.org"}, "webprofile.E013"),
    ],
)
def test_invalid_production_setting_is_reported(production, changes, check_id):
    for name, value in changes.items():
        setattr(production, name, value)
    assert [message.id for message in check_production()] == [check_id]


def test_sqlite_in_production_is_reported(production, monkeypatch):
    engine = "django.db.backends.sqlite3"
    monkeypatch.setitem(production.DATABASES["default"], "ENGINE", engine)
    assert [message.id for message in check_production()] == ["webprofile.W003"]


def test_secret_is_read_from_environment_or_file(monkeypatch, tmp_path):
    monkeypatch.setenv("MGW_SECRET", "$ABC")
    assert secret("MGW_SECRET") == "$ABC"
    file = tmp_path / "secret"
    file.write_text("from the file\n")
    monkeypatch.setenv("MGW_SECRET_FILE", str(file))
    assert secret("MGW_SECRET") == "from the file"


def test_missing_secret_is_an_error(monkeypatch):
    monkeypatch.delenv("MGW_SECRET", raising=False)
    with pytest.raises(ImproperlyConfigured, match="Set MGW_SECRET"):
        secret("MGW_SECRET")


@pytest.mark.django_db
def test_embedded_prepare_prints_passwords_once(capsys):
    def prepare(*more: str) -> dict:
        call_command("embedded_prepare", "--admin-email", "root@müller.de", "--worker", "local",
                     "--demo-user", "demo@example.com", *more)  # fmt: skip
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    first = prepare("--enrol")
    root = User.objects.get_by_natural_key("root@müller.de")
    assert root.check_password(first["admin"]["password"])
    assert not User.objects.get(email="demo@example.com").is_staff
    assert first["enrolment"]["code"].startswith("mge_")
    second = prepare()
    assert (second["admin"]["password"], second["enrolment"]["code"]) == (None, None)
    assert Worker.objects.get().name == "local"


@pytest.mark.parametrize(
    ("name", "value", "explained"),
    [
        ("RUN_TIMEOUT_S", "10m", "RUN_TIMEOUT_S is '10m': expected a whole number from 0 to 315"),
        ("MAX_ATTEMPTS", "", "MAX_ATTEMPTS is '': expected a whole number from 0 to 2147483647."),
        # the library would read 5 and 13
        ("LEASE_S", "5m", "LEASE_S is '5m': expected a number such as 2.5, from 0 to 315360000."),
        ("RETRY_PAUSE_S", "1-3", "RETRY_PAUSE_S is '1-3': expected a number such as 2.5, from 0"),
        ("LEASE_S", "nan", "LEASE_S is 'nan': expected a number such as 2.5, from 0 to 315360000."),
        ("LEASE_S", "1e9", "LEASE_S is '1e9': expected a number such as 2.5, from 0 to 315360000."),
        ("SHARE_DAYS_LIMIT", "3651", "SHARE_DAYS_LIMIT is '3651': expected a whole number from 0"),
        ("SHARE_DAYS_LIMIT", "-1", "SHARE_DAYS_LIMIT is '-1': expected a whole number from 0 to"),
        ("SHARE_KEPT_DAYS", "99999", "SHARE_KEPT_DAYS is '99999': expected a whole number from"),
        ("METRICS_PORT", "65536", "METRICS_PORT is '65536': expected a whole number from 0 to"),
        ("LOG_LIMIT_BYTES", "1" + "0" * 16, "0': expected a whole number from 0 to 11258999"),
        ("API_RATE_USER", "1200", "API_RATE_USER is '1200': expected a number per s, min, h or d"),
        ("SHARE_RATE_LINK", "9/5min", "SHARE_RATE_LINK is '9/5min': expected a number per s, min"),
        ("PASSWORD_CHECK_RATE", "60/min", "PASSWORD_CHECK_RATE is '60/min': expected a number per"),
        ("METRICS_NETWORKS", "10.0.0.0/33", "METRICS_NETWORKS is '10.0.0.0/33': '10.0.0.0/33' do"),
        ("WEBHOOK_ALLOWED_NETWORKS", "lan", "WEBHOOK_ALLOWED_NETWORKS is 'lan': 'lan' does not"),
        ("SITE_URL", "profile.example.org", "SITE_URL is 'profile.example.org': expected a URL"),
        ("S3_ENDPOINT_URL", "s3:8333", "S3_ENDPOINT_URL is 's3:8333': expected a URL with http"),
        ("NETRON_ORIGIN", "https://viewer:80x", "NETRON_ORIGIN is 'https://viewer:80x': Port"),
        # allauth fails at the first login
        (
            "ACCOUNT_EMAIL_VERIFICATION",
            "Mandatory",
            "ACCOUNT_EMAIL_VERIFICATION is 'Mandatory': expected one of mandatory, optional, none.",
        ),
        ("LOG_LEVEL", "loud", "LOG_LEVEL must be DEBUG, INFO, WARNING or ERROR, not 'loud'."),
        ("SECRET_KEY_FILE", "/no/such/file", "SECRET_KEY_FILE cannot be read: "),
        ("DATABASE_URL", "postgres://me:pass/word@host/name", "DATABASE_URL is not a valid URL"),
        ("DATABASE_URL", "", "DATABASE_URL is not a valid URL: use postgres://"),
        ("EMAIL_URL", "mail.example.org", "EMAIL_URL is not a valid URL: use smtp+tls://"),
    ],
)
def test_unreadable_setting_is_named_with_what_is_expected(load, name, value, explained):
    error = load(**{name: value})
    assert explained in error.splitlines()[-1]
    assert "'pass'" not in error


@pytest.mark.parametrize("text", ["", "60/m/ip", "60/m/ip,500/d/ip", "5/0.5h"])
def test_rates_of_allauth_are_accepted(text):
    assert address_rate(text) == text


def test_lists_may_have_spaces_after_commas(load):
    variables = {
        "ALLOWED_HOSTS": "a.example.org, b.example.org,",
        "METRICS_NETWORKS": "::1, 10.0.0.1/8",
    }
    assert load(*variables, **variables) == [
        ["a.example.org", "b.example.org"],
        ["IPv6Network('::1/128')", "IPv4Network('10.0.0.0/8')"],
    ]


@pytest.mark.parametrize("region", ["us-east-1", "eu-west-1", "cn-north-1"])
@pytest.mark.parametrize("addressing", ["path", "virtual"])
def test_pages_may_send_files_to_the_bucket_of_a_region_of_aws(load, settings, region, addressing):
    variables = {"S3_ENDPOINT_URL": "", "S3_REGION": region, "S3_ADDRESSING": addressing}
    names = (*variables, "S3_PUBLIC_ENDPOINT_URL")
    *values, policy = load(*names, "CONTENT_SECURITY_POLICY", **variables)
    for name, value in zip(names, values, strict=True):
        setattr(settings, name, value)
    url, _ = storage.presign_put("a", size_bytes=1, md5="0" * 32, is_browser=True)
    assert origin_of(url) in policy["DIRECTIVES"]["connect-src"]
