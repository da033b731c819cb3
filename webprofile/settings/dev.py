"""One machine, plain HTTP: what `make demo` and `make run` use."""

from webprofile.settings.base import *  # noqa: F403
from webprofile.settings.base import STORAGES

#: served from where they lie, unhashed: no collectstatic on a laptop
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = True
STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
