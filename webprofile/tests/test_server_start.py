"""Tests of what server processes import and prepare at their start."""

import json
import os
import subprocess
import sys

from django.core.checks import run_checks

_LOOK = """
import gc, json
import webprofile.asgi
from webprofile.storage.s3 import ObjectStorage
clients, spared = len(ObjectStorage.clients), gc.get_freeze_count()
walked = len(gc.get_objects())
print(json.dumps({"clients": clients, "spared": spared, "walked": walked}))
"""


def test_nobody_waits_for_clients_of_storage_or_for_a_walk_through_all_that_is_loaded():
    names = {"S3_ENDPOINT_URL": "http://inside.test:1", "S3_PUBLIC_ENDPOINT_URL": "http://out.test"}
    environment = os.environ | names | {"DJANGO_SETTINGS_MODULE": "webprofile.settings.test"}
    done = subprocess.run(
        [sys.executable, "-c", _LOOK], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["clients"] == 2
    assert figures["spared"] > 100 * figures["walked"]


_HEAVY = ("boto3", "drf_spectacular.views", "numpy", "prometheus_client", "redis", "requests")
_COMMAND = f"""
import json, sys
from django.core.management import execute_from_command_line
execute_from_command_line(["manage.py", "help"])
print(json.dumps([name for name in {_HEAVY} if name in sys.modules]))
"""


def test_a_command_that_needs_no_page_imports_no_clients_and_no_pages():
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "webprofile.settings.dev"}
    done = subprocess.run(
        [sys.executable, "-c", _COMMAND],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_system_checks_include_the_admin_of_every_app(monkeypatch):
    checked = []
    monkeypatch.setattr("django.contrib.admin.ModelAdmin.check", lambda a: checked.append(a) or [])
    run_checks(tags=["admin"])
    assert {admin.model._meta.app_label for admin in checked} >= {"accounts", "workers"}
