"""Settings of the development server on one machine (`make demo`, `make run`): plain HTTP."""

import os
import secrets

if not os.environ.keys() & {"SECRET_KEY", "SECRET_KEY_FILE"}:
    # for management commands in a new clone; `make run` generates a key
    os.environ["SECRET_KEY"] = secrets.token_urlsafe(50)

from webprofile.settings.base import *  # noqa: F403
from webprofile.settings.base import STORAGES

#: static files are served from their sources, without collectstatic
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = True
STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
