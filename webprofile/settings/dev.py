"""Settings of the development server on one machine (`make demo`, `make run`): plain HTTP."""

import os
import socket
from pathlib import Path

from webprofile.operations.devserver.layout import REPOSITORY, load_keys, open_home

# for `manage.py` in a new clone: create the folder of the database, and use the keys of `make run`
_keys = load_keys(open_home(Path(os.environ.get("MGW_HOME") or REPOSITORY / "var")))
if not os.environ.keys() & {"SECRET_KEY", "SECRET_KEY_FILE"}:
    os.environ["SECRET_KEY"] = _keys.secret_key
if not os.environ.keys() & {"S3_ACCESS_KEY_ID", "S3_ACCESS_KEY_ID_FILE"}:
    os.environ["S3_ACCESS_KEY_ID"] = _keys.s3_access_key_id
    os.environ["S3_SECRET_ACCESS_KEY"] = _keys.s3_secret_access_key

from webprofile.settings.base import *  # noqa: E402, F403
from webprofile.settings.base import ALLOWED_HOSTS, STORAGES, env  # noqa: E402

DEBUG = env.bool("DEBUG", default=False)
ALLOWED_HOSTS = ALLOWED_HOSTS or ["localhost", "127.0.0.1", "[::1]", socket.gethostname()]

#: static files are served from their sources, without collectstatic
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = True
STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
