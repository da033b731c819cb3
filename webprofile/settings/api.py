"""Settings of the API: Django REST framework, tokens and OpenAPI schema."""

from datetime import timedelta
from typing import Any

from webprofile.api.description import DESCRIPTION, TAGS
from webprofile.settings.environment import Environment, rate

env = Environment()

#: rate limits of a user with tokens, of a user with a browser session, and of an IP address without
#: login, of one that sends a password, and of one that refreshes tokens; of a share link and of an
#: address that opens share links; empty for no limit
API_RATES = {
    "user": env.get_value("API_RATE_USER", cast=rate, default="1200/min"),
    "session": env.get_value("API_RATE_SESSION", cast=rate, default="1200/min"),
    "anonymous": env.get_value("API_RATE_ANONYMOUS", cast=rate, default="120/min"),
    "credentials": env.get_value("API_RATE_CREDENTIALS", cast=rate, default="60/min"),
    "refresh": env.get_value("API_RATE_REFRESH", cast=rate, default="120/min"),
    "share_link": env.get_value("SHARE_RATE_LINK", cast=rate, default="1200/min"),
    "share_address": env.get_value("SHARE_RATE_ADDRESS", cast=rate, default="300/min"),
}
#: how long the response to an `Idempotency-Key` is stored
IDEMPOTENCY_S = 24 * 3600
REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        # the first class sets the challenge of a 401 response
        "webprofile.api.authentication.AccessTokenAuthentication",
        "webprofile.api.authentication.JwtAuthentication",
        "webprofile.api.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["webprofile.api.permissions.MayCall"],
    "DEFAULT_THROTTLE_CLASSES": ["webprofile.api.throttling.CallerThrottle"],
    "DEFAULT_PARSER_CLASSES": ["webprofile.api.parsers.JsonParser"],
    "DEFAULT_RENDERER_CLASSES": ["webprofile.api.renderers.FiniteJSONRenderer"],
    "DEFAULT_PAGINATION_CLASS": "webprofile.api.pagination.CursorPages",
    "DEFAULT_FILTER_BACKENDS": ["webprofile.filters.FilterBackend"],
    "DEFAULT_SCHEMA_CLASS": "webprofile.api.schema.Schema",
    "EXCEPTION_HANDLER": "webprofile.api.problems.exception_handler",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
    "URL_FORMAT_OVERRIDE": None,
    "NUM_PROXIES": env.int("TRUSTED_PROXY_COUNT", default=0),
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
    "TEST_REQUEST_RENDERER_CLASSES": ["webprofile.api.renderers.FiniteJSONRenderer"],
}
SIMPLE_JWT: dict[str, Any] = {
    "ACCESS_TOKEN_LIFETIME": timedelta(minutes=10),
    "REFRESH_TOKEN_LIFETIME": timedelta(days=14),
    "AUTH_TOKEN_CLASSES": ("accounts.tokens.refresh.AccessJWT",),
    # a changed password invalidates tokens that were issued before
    "CHECK_REVOKE_TOKEN": True,
}
SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "MegEngine Web Profile",
    "VERSION": "1",
    "DESCRIPTION": DESCRIPTION,
    "TAGS": [{"name": name, "description": text} for name, text in TAGS.items()],
    "OAS_VERSION": "3.1.0",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SERVE_INCLUDE_SCHEMA": False,
    "COMPONENT_SPLIT_REQUEST": True,
    "SWAGGER_UI_DIST": "SIDECAR",
    "ENUM_NAME_OVERRIDES": {
        "TaskState": "tasks.states.TaskState",
        "TaskStatus": "tasks.states.Status",
        "TaskKind": "tasks.models.TaskKind",
        "FileKind": "tasks.models.TaskFile.Kind",
        "OpenedState": "profiles.models.ProfileUpload.State",
        "ShareKind": "profiles.models.Share.Kind",
        "SharePart": "profiles.models.Share.Part",
        "RuntimeKind": "workers.models.Runtime.RuntimeKind",
        "ComparedStatus": "profiles.comparison.rows.STATUSES",
        "Verdict": "agent.statistics.unpaired.VERDICTS",
    },
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "webprofile.api.schema.describe_null",
        "webprofile.api.schema.share_errors",
    ],
}
