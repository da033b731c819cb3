"""Tests of `manage.py` in a new clone, where nothing runs and no variable is set."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "quite-a-long-passphrase"
_OWN = (
    "ALLOWED_HOSTS", "DATABASE_URL", "DEBUG", "DJANGO_SETTINGS_MODULE", "REDIS_URL", "SECRET_KEY",
    "S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY",
)  # fmt: skip
#: the other commands and pages, in one process, because Django takes a second to start
_SITE = f"""
from django.core.management import execute_from_command_line
for line in (
    "migrate --verbosity=0", "createsuperuser --noinput --email=root@example.com", "users list",
):
    execute_from_command_line(["manage.py", *line.split()])
from django.conf import settings
from django.test import Client
client = Client(headers={{"host": "localhost"}})
print(settings.DEBUG, client.head("/accounts/login/").status_code)
form = {{"login": "root@example.com", "password": "{PASSWORD}"}}
answer = client.post("/accounts/login/", form)
print(answer.status_code, "Redis does not respond" in answer.content.decode())
answer = client.post("/api/v1/auth/token/", {{"email": "root@example.com", "password": "x"}},
                     content_type="application/json")
print(answer.status_code, answer.json()["code"])
"""


@pytest.fixture
def python(tmp_path):
    """Return a function that runs Python in the repository with an empty, missing data folder."""
    environment = {name: value for name, value in os.environ.items() if name not in _OWN}
    environment |= {
        "MGW_HOME": str(tmp_path / "var"),
        "REDIS_URL": "redis://127.0.0.1:1/0",  # nothing listens there
        "DJANGO_SUPERUSER_PASSWORD": PASSWORD,
    }

    def run(*arguments, **variables):
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=environment | variables,
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


@pytest.mark.exhaustive
def test_commands_work_in_a_new_clone_and_pages_name_what_is_missing(python):
    early = python("manage.py", "tasks", "list")
    assert early.returncode == 1
    assert "manage.py migrate" in early.stderr
    assert "Traceback" not in early.stderr
    site = python("-c", _SITE, DJANGO_SETTINGS_MODULE="webprofile.settings.dev", DEBUG="1")
    *commands, page, form, api = site.stdout.splitlines()
    assert commands[-1].startswith("root@example.com"), site.stderr
    assert [page, form, api] == ["True 200", "503 True", "503 redis_unreachable"]


def test_debug_is_ignored_in_production(python):
    show = "from django.conf import settings; print(settings.DEBUG)"
    variables = {
        "DJANGO_SETTINGS_MODULE": "webprofile.settings.prod",
        "DEBUG": "1",
        "SECRET_KEY": "x" * 60,
        "ALLOWED_HOSTS": "profile.example.org",
        "SITE_URL": "https://profile.example.org",
    }
    shown = python("-c", show, **variables)
    assert shown.stdout == "False\n", shown.stderr
