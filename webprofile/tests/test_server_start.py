"""Tests of what server processes import and prepare at their start."""

import json
import os
import subprocess
import sys

from django.core.checks import run_checks

_FIGURES = """
import gc, json
import webprofile.asgi
from webprofile.storage.s3 import ObjectStorage
clients, frozen = len(ObjectStorage.clients), gc.get_freeze_count()
tracked = len(gc.get_objects())
print(json.dumps({"clients": clients, "frozen": frozen, "tracked": tracked}))
"""


def run_python(code: str, **environment: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_storage_clients_and_frozen_objects_exist_at_the_start():
    output = run_python(
        _FIGURES,
        DJANGO_SETTINGS_MODULE="webprofile.settings.test",
        S3_ENDPOINT_URL="http://inside.test:1",
        S3_PUBLIC_ENDPOINT_URL="http://out.test",
    )
    figures = json.loads(output)
    assert figures["clients"] == 2
    assert figures["frozen"] > 100 * figures["tracked"]


_HEAVY = ("boto3", "drf_spectacular.views", "numpy", "prometheus_client", "redis", "requests")
_COMMAND = f"""
import json, sys
from django.core.management import execute_from_command_line
execute_from_command_line(["manage.py", "help"])
print(json.dumps([name for name in {_HEAVY} if name in sys.modules]))
"""


def test_help_command_imports_no_heavy_modules():
    output = run_python(_COMMAND, DJANGO_SETTINGS_MODULE="webprofile.settings.dev")
    assert json.loads(output.splitlines()[-1]) == []


def test_system_checks_include_the_admin_of_every_app(monkeypatch):
    checked = []
    monkeypatch.setattr("django.contrib.admin.ModelAdmin.check", lambda a: checked.append(a) or [])
    run_checks(tags=["admin"])
    assert {admin.model._meta.app_label for admin in checked} >= {"accounts", "workers"}
