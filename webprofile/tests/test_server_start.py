"""What a web process has done before it listens."""

import json
import os
import subprocess
import sys

_LOOK = """
import gc, json
import webprofile.asgi
from profiles.s3 import client_made
clients, spared = client_made.cache_info().currsize, gc.get_freeze_count()
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
    found = json.loads(done.stdout)
    assert found["clients"] == 2
    assert found["spared"] > 100 * found["walked"]
