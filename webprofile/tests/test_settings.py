"""Wrong settings say what is wrong; secrets come from the environment or from files."""

import json

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command

from accounts.models import User
from webprofile.checks import check_settings
from webprofile.env import secret
from workers.models import Worker


def test_the_settings_as_they_are_go_together():
    assert check_settings() == []


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"S3_SECRET_ACCESS_KEY": ""}, "webprofile.E001"),
        ({"ACCOUNT_EMAIL_VERIFICATION": "mandatory"}, "webprofile.W001"),
        ({"LEASE_S": 5.0, "HEARTBEAT_S": 5.0}, "webprofile.E002"),
    ],
)
def test_a_wrong_combination_is_named(settings, changes, found):
    for name, value in changes.items():
        setattr(settings, name, value)
    assert [message.id for message in check_settings()] == [found]


def test_a_secret_may_start_with_a_dollar_or_lie_in_a_file(monkeypatch, tmp_path):
    monkeypatch.setenv("MGW_SECRET", "$ABC")
    assert secret("MGW_SECRET") == "$ABC"
    file = tmp_path / "secret"
    file.write_text("from the file\n")
    monkeypatch.setenv("MGW_SECRET_FILE", str(file))
    assert secret("MGW_SECRET") == "from the file"


def test_a_missing_secret_stops_the_start(monkeypatch):
    monkeypatch.delenv("MGW_SECRET", raising=False)
    with pytest.raises(ImproperlyConfigured, match="Set MGW_SECRET"):
        secret("MGW_SECRET")


@pytest.mark.django_db
def test_a_fresh_site_is_prepared_once_and_shows_passwords_once(capsys):
    def prepare(*more: str) -> dict:
        call_command("embedded_prepare", "--admin-email", "root@example.com", "--worker", "local",
                     "--demo-user", "demo@example.com", *more)  # fmt: skip
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    first = prepare("--enrol")
    assert User.objects.get(email="root@example.com").check_password(first["admin"]["password"])
    assert not User.objects.get(email="demo@example.com").is_staff
    assert first["enrolment"]["code"].startswith("mge_")
    second = prepare()
    assert (second["admin"]["password"], second["enrolment"]["code"]) == (None, None)
    assert Worker.objects.get().name == "local"
