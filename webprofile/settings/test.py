"""Settings of the tests: SQLite in a temporary file, no server needed for unit tests."""

import os

os.environ.setdefault("SECRET_KEY", "only-for-tests")
os.environ.setdefault("S3_ACCESS_KEY_ID", "test-access-key-id")
os.environ.setdefault("S3_SECRET_ACCESS_KEY", "test-secret-access-key")

from webprofile.settings.base import *  # noqa: F403
from webprofile.settings.base import ACCOUNT_RATE_LIMITS, INSTALLED_APPS, STORAGES

# tests configure identity providers themselves
INSTALLED_APPS = [*INSTALLED_APPS, "allauth.socialaccount.providers.openid_connect"]
ALLOWED_HOSTS = ["testserver", "127.0.0.1", "localhost"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
DRAMATIQ_BROKER = {
    "BROKER": "dramatiq.brokers.stub.StubBroker",
    "OPTIONS": {},
    "MIDDLEWARE": [
        "dramatiq.middleware.AgeLimit",
        "dramatiq.middleware.TimeLimit",
        "dramatiq.middleware.Retries",
        "webprofile.observability.actors.ActorMiddleware",
    ],
}
STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = True
# all tests come from one address; its failed logins stay limited
ACCOUNT_RATE_LIMITS = ACCOUNT_RATE_LIMITS | {"signup": None}
HEARTBEAT_BATCH_S = 0.0
# tests of health checks turn it on
SCATTER_RUNS = 0
AA_RUN_S = 0
API_RATES = dict[str, str]()
