"""All settings, read once from the environment.

The overlays dev, test and prod adapt these settings and those of Django to their environment.
"""

import os
from pathlib import Path
from urllib.parse import urlsplit

from django.utils.translation import gettext_lazy as _

from webprofile.observability.logging import configure_logging
from webprofile.settings.api import *  # noqa: F403
from webprofile.settings.environment import (
    Environment,
    address,
    address_rate,
    aws_endpoint,
    broker_of,
    network,
    number,
    oidc_apps,
    oidc_origins,
    one_of,
    patient,
    retention_rules,
    secret,
    secret_url,
    secrets,
)

env = Environment()

BASE_DIR = Path(__file__).resolve().parents[2]
#: folder of all files that the development site writes
HOME = Path(env.str("MGW_HOME", default=str(BASE_DIR / "var")))

SECRET_KEY = secret("SECRET_KEY")
#: former secret keys, whose signatures stay valid; separated by newlines or commas
SECRET_KEY_FALLBACKS = secrets("SECRET_KEY_FALLBACKS")
DEBUG = False
ALLOWED_HOSTS: list[str] = env.list("ALLOWED_HOSTS", default=[])
CSRF_TRUSTED_ORIGINS: list[str] = env.list("CSRF_TRUSTED_ORIGINS", default=[])
SITE_URL = env.get_value("SITE_URL", cast=address, default="http://127.0.0.1:8000").rstrip("/")
#: second origin of this server, which serves only the viewers: https://viewer.example.org
NETRON_ORIGIN = env.get_value("NETRON_ORIGIN", cast=address, default="").rstrip("/")
if NETRON_ORIGIN:
    ALLOWED_HOSTS = [*ALLOWED_HOSTS, urlsplit(NETRON_ORIGIN).hostname or ""]

#: identity providers; their app is slow to import, so it is installed only if there is one
OIDC_APPS = oidc_apps()
INSTALLED_APPS = [
    "webprofile.apps.DramatiqConfig",
    "webprofile.apps.AdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "channels",
    "csp",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    *(["allauth.socialaccount.providers.openid_connect"] if OIDC_APPS else []),
    "allauth.usersessions",
    "rest_framework",
    "rest_framework_simplejwt",
    "rest_framework_simplejwt.token_blacklist",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "webprofile",
    "accounts",
    "workers",
    "tasks",
    "profiles",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "webprofile.middleware.ViewerHostMiddleware",
    # before all others that read cookies
    "webprofile.middleware.ShareMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "webprofile.middleware.CacheControlMiddleware",
    "csp.middleware.CSPMiddleware",
    "webprofile.middleware.PageMethodsMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "webprofile.middleware.ReaderMiddleware",
    "webprofile.middleware.TurnMiddleware",
    "webprofile.observability.requests.FactsMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "webprofile.middleware.DomainErrorMiddleware",
]
ROOT_URLCONF = "webprofile.urls"
ASGI_APPLICATION = "webprofile.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "builtins": ["webprofile.sentences"],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "django.template.context_processors.i18n",
                "webprofile.views.site_context",
            ],
        },
    },
]

# -- database, Redis, broker --------------------------------------------------------------------

# URLs that may contain a password can be read from a file named by NAME_FILE
DATABASES = {
    "default": secret_url(
        "DATABASE_URL",
        f"sqlite:///{HOME / 'db.sqlite3'}",
        env.db_url_config,
        "postgres://user:password@host:5432/name",
    )
}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    DATABASES["default"]["OPTIONS"] = {
        # take the write lock at BEGIN, since an upgrade from a read lock can fail at once
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    }
elif DATABASES["default"]["ENGINE"].endswith("postgresql"):
    # connection pool of each process; without it every request opens a connection, which takes 8 ms
    DATABASES["default"].setdefault("OPTIONS", {})["pool"] = {
        "min_size": 1,
        "max_size": env.int("DATABASE_POOL", default=20),
    }
# An ASGI server runs each request in a new thread, so a persistent connection would never be used
# again and never closed (https://docs.djangoproject.com/en/5.2/ref/databases/#persistent-connections)
DATABASES["default"]["CONN_MAX_AGE"] = 0
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = patient(secret("REDIS_URL", "redis://127.0.0.1:6379/0"))
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": REDIS_URL}
}
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "webprofile.realtime.layer.PatientLayer",
        "CONFIG": {
            "address": REDIS_URL,
            "prefix": "mgw",
        },
    }
}
#: broker of background tasks: redis:// or unix:// for Redis, amqp:// for RabbitMQ
BROKER_URL = secret("BROKER_URL", REDIS_URL)
DRAMATIQ_BROKER = {
    **broker_of(BROKER_URL),
    "MIDDLEWARE": [
        "dramatiq.middleware.AgeLimit",
        "dramatiq.middleware.TimeLimit",
        "dramatiq.middleware.Callbacks",
        "dramatiq.middleware.Retries",
        "django_dramatiq.middleware.DbConnectionsMiddleware",
        "webprofile.observability.actors.ActorMiddleware",
    ],
}
DRAMATIQ_AUTODISCOVER_MODULES = ["actors"]  # the default, "tasks", means <app>/tasks.py

# -- object storage -----------------------------------------------------------------------------

# AWS: S3_ENDPOINT_URL empty, S3_ADDRESSING=virtual, and no keys where the machine has a role.
# SeaweedFS, MinIO: both endpoints, S3_ADDRESSING=path.

S3_BUCKET = env.str("S3_BUCKET", default="megengine-web-profile")
S3_REGION = env.str("S3_REGION", default="us-east-1")
#: endpoints of object storage for the server, and for browsers and agents; empty for
#: the AWS endpoint of the region
S3_ENDPOINT_URL = env.get_value(
    "S3_ENDPOINT_URL", cast=address, default="http://127.0.0.1:9000"
).rstrip("/")
# set here and not by boto3, since the Content Security Policy contains it, too
S3_PUBLIC_ENDPOINT_URL = (
    env.get_value("S3_PUBLIC_ENDPOINT_URL", cast=address, default=S3_ENDPOINT_URL)
    or aws_endpoint(S3_REGION)
).rstrip("/")
#: both empty to use the credentials that boto3 finds, such as the role of a machine or pod
S3_ACCESS_KEY_ID = secret("S3_ACCESS_KEY_ID", "")
S3_SECRET_ACCESS_KEY = secret("S3_SECRET_ACCESS_KEY", "")
#: addressing style of the bucket: path (http://host/bucket) or virtual (http://bucket.host)
S3_ADDRESSING = env.str("S3_ADDRESSING", default="path")
#: server-side encryption: AES256, aws:kms, or empty for the default of the bucket,
#: which must not be aws:kms
S3_ENCRYPTION = env.str("S3_ENCRYPTION", default="")
#: allow multipart uploads, whose checksums can only be verified if ETags are MD5s
S3_TAKES_PARTS = not S3_ENCRYPTION.startswith("aws:kms")
#: key for aws:kms; empty for the key managed by AWS
S3_KMS_KEY_ID = env.str("S3_KMS_KEY_ID", default="")
#: file of CA certificates that replace those of the system
S3_CA_BUNDLE = env.str("S3_CA_BUNDLE", default="")
# origin of storage for browsers, as a CSP source
_storage_origin = S3_PUBLIC_ENDPOINT_URL
if S3_ADDRESSING == "virtual":
    _storage_origin = _storage_origin.replace("://", f"://{S3_BUCKET}.", 1)

# -- tasks and profiles -------------------------------------------------------------------------

MODEL_SIZE_LIMIT_BYTES = env.int("MODEL_SIZE_LIMIT_BYTES", default=2 * 1024**3)
DATA_SIZE_LIMIT_BYTES = env.int("DATA_SIZE_LIMIT_BYTES", default=512 * 1024**2)
PROFILE_SIZE_LIMIT_BYTES = env.int("PROFILE_SIZE_LIMIT_BYTES", default=512 * 1024**2)
#: size limit of a trace of MegEngine's Profiler, which is read in chunks
TRACE_SIZE_LIMIT_BYTES = env.int("TRACE_SIZE_LIMIT_BYTES", default=2 * 1024**3)
#: largest trace that the timeline shows as a whole; of larger ones it shows excerpts
TRACE_CUT_LIMIT_BYTES = env.int("TRACE_CUT_LIMIT_BYTES", default=64 * 1024**2)
#: limit of the size of all files of one run together; files beyond it are left out
PROFILE_PASSES_LIMIT_BYTES = env.int("PROFILE_PASSES_LIMIT_BYTES", default=2 * 1024**3)
#: memory limit of the process that parses profiles; 100,000 operators (220 MB) need 0.7 GiB, 8 s
PROFILE_PARSE_MEMORY_BYTES = env.int("PROFILE_PARSE_MEMORY_BYTES", default=2 * 1024**3)
#: CPU time limit of that process; its wall time limit is twice as long
PROFILE_PARSE_TIME_S = env.int("PROFILE_PARSE_TIME_S", default=60)
#: CPU time limit for a trace; 1 GB needs 14 s and 0.6 GiB
TRACE_PARSE_TIME_S = env.int("TRACE_PARSE_TIME_S", default=120)
#: size of the cache of parsed profiles in each server process; a profile that is larger than the
#: cache is rejected. 100,000 operators take 170 MB
PROFILE_CACHE_BYTES = env.int("PROFILE_CACHE_BYTES", default=512 * 1024**2)
#: largest model that the viewer draws in the browser
MODEL_VIEW_LIMIT_BYTES = env.int("MODEL_VIEW_LIMIT_BYTES", default=1024**3)
DATA_FILES_LIMIT = 32
#: quota of one user for imported profiles
OPENED_PROFILES_LIMIT = env.int("OPENED_PROFILES_LIMIT", default=200)
OPENED_BYTES_LIMIT = env.int("OPENED_BYTES_LIMIT", default=10 * 1024**3)
#: size limit of the forms for tasks and imports without JavaScript, whose files pass through the
#: web server
OPENED_FORM_LIMIT_BYTES = env.int("OPENED_FORM_LIMIT_BYTES", default=2 * PROFILE_SIZE_LIMIT_BYTES)
PRESIGN_EXPIRY_S = env.int("PRESIGN_EXPIRY_S", default=900)
#: longest lifetime of share links to results; 0 turns all links off
SHARE_DAYS_LIMIT = env.int("SHARE_DAYS_LIMIT", default=365)
UPLOAD_DEADLINE_S = env.int("UPLOAD_DEADLINE_S", default=6 * 3600)
QUEUE_DEADLINE_S = env.int("QUEUE_DEADLINE_S", default=24 * 3600)
#: how long a task waits for an offline device before it fails
OFFLINE_GRACE_S = env.int("OFFLINE_GRACE_S", default=900)
RUN_TIMEOUT_S = env.int("RUN_TIMEOUT_S", default=600)
CANCEL_GRACE_S = env.int("CANCEL_GRACE_S", default=5)
HEARTBEAT_S = env.float("HEARTBEAT_S", default=5.0)
#: a dead agent is noticed within 45 s: lease, batch of heartbeats, round of the sweep (5 s)
LEASE_S = env.float("LEASE_S", default=30.0)
#: interval at which a server process writes the batched heartbeats to the database
HEARTBEAT_BATCH_S = env.float("HEARTBEAT_BATCH_S", default=1.0)
MAX_ATTEMPTS = env.int("MAX_ATTEMPTS", default=3)
#: pause after a failure whose cause may persist; it is multiplied by four each time
RETRY_PAUSE_S = env.float("RETRY_PAUSE_S", default=10.0)
#: longest pause between attempts
RETRY_PAUSE_MOST_S = env.float("RETRY_PAUSE_MOST_S", default=600.0)
#: limit of live (waiting and running) tasks of one user
TASKS_PER_USER = env.int("TASKS_PER_USER", default=500)
#: size limit of the files of all tasks of one user: uploads, with their declared sizes, and results
STORAGE_PER_USER_BYTES = env.int("STORAGE_PER_USER_BYTES", default=100 * 1024**3)
#: limit of a log; an agent sends 1 MiB by default, which is 3 MiB if every byte becomes U+FFFD
LOG_LIMIT_BYTES = env.int("LOG_LIMIT_BYTES", default=4 * 1024**2)
#: limit of the pieces of a log; a script that prints all the time sends five a second
LOG_PIECES_LIMIT = env.int("LOG_PIECES_LIMIT", default=20_000)
#: lifetime of download URLs for agents; at least agent.link.transfers.DOWNLOAD_LIMIT_S
AGENT_PRESIGN_EXPIRY_S = env.int("AGENT_PRESIGN_EXPIRY_S", default=3700)
PROCESSING_DEADLINE_S = env.int("PROCESSING_DEADLINE_S", default=900)
#: retention of files: RETENTION="dumps=30d failed=30d logs=180d", each kind optional
RETENTION = retention_rules(env.str("RETENTION", default=""))
#: how long share links remain listed after they expired or were revoked
SHARE_KEPT_DAYS = env.int("SHARE_KEPT_DAYS", default=90)

# -- devices ------------------------------------------------------------------------------------

#: folder of the agent's files for devices, built by `python -m agent.install`
AGENT_FOLDER = env.str("AGENT_FOLDER", default=str(HOME / "agent-files"))
#: interval of health checks on idle devices; 0 disables scheduled checks
HEALTH_CHECK_EVERY_S = env.float("HEALTH_CHECK_EVERY_S", default=6 * 3600)
#: number of consecutive failures by the device or its agent that trigger a health check; 0: never
HEALTH_CHECK_AFTER_FAILURES = env.int("HEALTH_CHECK_AFTER_FAILURES", default=2)
#: number of undisturbed runs of a sample model with which an idle device measures how much equal
#: runs differ; repeated after a change of its kernel, agent or runtime; 0: never
SCATTER_RUNS = env.int("SCATTER_RUNS", default=5)
#: longest measuring time, s, of the A/A run that follows each health check: a paired comparison of
#: the sample model with itself, which shows how often verdicts of the device are wrong; 0: never
AA_RUN_S = env.int("AA_RUN_S", default=20)
#: pause before a failed health check is repeated; it doubles each time
HEALTH_RECHECK_S = env.float("HEALTH_RECHECK_S", default=60.0)

# -- WebSockets: token buckets (burst, rate) ----------------------------------------------------

#: after a measurement an agent sends its whole log at once, over 1 MiB in chunks of 8 KiB
AGENT_FRAMES_BURST = env.int("AGENT_FRAMES_BURST", default=1000)
AGENT_FRAMES_PER_S = env.float("AGENT_FRAMES_PER_S", default=50.0)
#: time after which a connection without a valid Hello is closed, s
AGENT_HELLO_S = env.float("AGENT_HELLO_S", default=20.0)
#: threads of a server process that handle agents' frames, each with a connection of DATABASE_POOL;
#: with 0 they share the thread of the browsers' WebSockets
AGENT_THREADS = env.int("AGENT_THREADS", default=4)
#: a page sends one frame, its position, after each connect
READER_FRAMES_BURST = env.int("READER_FRAMES_BURST", default=40)
READER_FRAMES_PER_S = env.float("READER_FRAMES_PER_S", default=4.0)
#: limit of open WebSockets of one user in each server process
SOCKETS_PER_USER = env.int("SOCKETS_PER_USER", default=100)

# -- users and login ----------------------------------------------------------------------------

AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "allauth.account.auth_backends.AuthenticationBackend",
]
_VALIDATORS = "django.contrib.auth.password_validation"
AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": f"{_VALIDATORS}.UserAttributeSimilarityValidator",
        "OPTIONS": {"user_attributes": ["email"]},
    },
    {"NAME": f"{_VALIDATORS}.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": f"{_VALIDATORS}.CommonPasswordValidator"},
    {"NAME": f"{_VALIDATORS}.NumericPasswordValidator"},
]
EMAIL_CONFIG = secret_url(
    "EMAIL_URL", "consolemail://", env.email_url_config, "smtp+tls://user:password@host:587"
)
vars().update(EMAIL_CONFIG)
EMAIL_BACKEND = EMAIL_CONFIG["EMAIL_BACKEND"]
#: timeout of the mail server, s; requests wait for it, and by default Django has no timeout
EMAIL_TIMEOUT = 10
HAS_MAIL_SERVER = EMAIL_BACKEND == "django.core.mail.backends.smtp.EmailBackend"
#: sender of mail; mail servers accept only their own addresses
DEFAULT_FROM_EMAIL = env.str("DEFAULT_FROM_EMAIL", default="webmaster@localhost")
ACCOUNT_ADAPTER = "accounts.adapters.AccountAdapter"
USERSESSIONS_ADAPTER = "accounts.adapters.SessionsAdapter"
ACCOUNT_FORMS = {
    "login": "accounts.forms.LoginForm",
    "signup": "accounts.forms.SignupForm",
    "reset_password": "accounts.forms.ResetPasswordForm",
    "reset_password_from_key": "accounts.forms.ResetPasswordKeyForm",
    "set_password": "accounts.forms.SetPasswordForm",
    "change_password": "accounts.forms.ChangePasswordForm",
    "add_email": "accounts.forms.AddEmailForm",
    "reauthenticate": "accounts.forms.ReauthenticateForm",
}
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*", "password2*"]
#: "mandatory" needs a mail server (EMAIL_URL), since users confirm their address by mail
ACCOUNT_EMAIL_VERIFICATION = env.get_value(
    "ACCOUNT_EMAIL_VERIFICATION",
    cast=one_of("mandatory", "optional", "none"),
    default="mandatory" if HAS_MAIL_SERVER else "none",
)
ACCOUNT_PREVENT_ENUMERATION = ACCOUNT_EMAIL_VERIFICATION == "mandatory"
#: notify users by mail of a changed password or second factor
ACCOUNT_EMAIL_NOTIFICATIONS = HAS_MAIL_SERVER
ACCOUNT_SESSION_REMEMBER = None  # the login form has a checkbox
#: session lifetime without "remember me", counted from the last request
SESSION_COOKIE_AGE = env.int("SESSION_S", default=12 * 3600)
#: session lifetime with "remember me", counted from the last request
ACCOUNT_SESSION_COOKIE_AGE = env.int("REMEMBERED_SESSION_S", default=30 * 24 * 3600)
#: number of proxies in front of the site; if it is wrong, the addresses of sessions are unknown
ALLAUTH_TRUSTED_PROXY_COUNT = env.int("TRUSTED_PROXY_COUNT", default=0)
ACCOUNT_RATE_LIMITS = {
    # wrong passwords (accounts/login_limits.py): of a known browser, or of another client from one
    # address, for one account
    "login_failed_client": "5/5m/key,20/d/key",
    # wrong passwords of all other clients from one address, and of all of them for one account
    "login_failed_address": "50/5m/ip",
    "login_failed_account": "300/d/key",
    # wrong codes of the second factor, which are accepted only with the right password
    "login_failed": "5/5m/key,50/d/key",
    # logins with the right password are not limited
    "login": None,
    # requests that check a password while it is typed
    "password_check": env.get_value("PASSWORD_CHECK_RATE", cast=address_rate, default="60/m/ip"),
}

MFA_ADAPTER = "accounts.adapters.SecondFactorAdapter"
MFA_FORMS = {
    "activate_totp": "accounts.forms.ActivateAppForm",
    "authenticate": "accounts.forms.SecondFactorForm",
    "reauthenticate": "accounts.forms.SecondFactorReauthenticateForm",
    "add_webauthn": "accounts.forms.AddSecurityKeyForm",
    "edit_webauthn": "accounts.forms.RenameSecurityKeyForm",
    "authenticate_webauthn": "accounts.forms.SecurityKeyForm",
    "reauthenticate_webauthn": "accounts.forms.SecurityKeyReauthenticateForm",
}
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes", "webauthn"]
MFA_TOTP_ISSUER = "MegEngine Web Profile"
#: also accept the previous and the next code, since clocks of phones differ
MFA_TOTP_TOLERANCE = 1
MFA_ALLOW_UNVERIFIED_EMAIL = ACCOUNT_EMAIL_VERIFICATION != "mandatory"
#: browsers offer security keys on HTTPS and on localhost only
MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = urlsplit(SITE_URL).scheme == "http"

SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": OIDC_APPS, "OAUTH_PKCE_ENABLED": True}}
SOCIALACCOUNT_ADAPTER = "accounts.adapters.IdentityAdapter"
SOCIALACCOUNT_FORMS = {"signup": "accounts.forms.SocialSignupForm"}
#: the operator has chosen the provider, so an address that it has verified identifies the user
SOCIALACCOUNT_EMAIL_AUTHENTICATION = True
SOCIALACCOUNT_EMAIL_AUTHENTICATION_AUTO_CONNECT = True

LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "tasks:list"
ACCOUNT_LOGOUT_REDIRECT_URL = "account_login"

# -- languages ----------------------------------------------------------------------------------

LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("zh-hans", _("Chinese"))]
LOCALE_PATHS = [BASE_DIR / "webprofile" / "locale"]
LANGUAGE_COOKIE_SAMESITE = "Lax"
TIME_ZONE = "UTC"

# -- static files, security headers -------------------------------------------------------------

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = env.str("STATIC_ROOT", default=str(HOME / "static"))
STORAGES = {
    "default": {"BACKEND": "webprofile.storage.s3.ObjectStorage"},
    "staticfiles": {"BACKEND": "webprofile.staticstorage.ManifestStorage"},
}
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "worker-src": ["'self'"],  # computes checksums of uploads
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "font-src": ["'self'"],
        "connect-src": ["'self'", _storage_origin],
        "frame-src": [NETRON_ORIGIN or "'self'"],
        "form-action": ["'self'", *oidc_origins(OIDC_APPS)],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
    }
}
#: messages can list many users and devices, which is too long for a cookie
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"
#: bodies of requests are small, since files are uploaded to storage directly
DATA_UPLOAD_MAX_MEMORY_SIZE = 256 * 1024
CSRF_FAILURE_VIEW = "webprofile.views.csrf_failure"
#: limit of request bodies except that of the import form; the server discards the rest
BODY_LIMIT_BYTES = 8 * 1024**2

# -- webhooks -----------------------------------------------------------------------------------

#: private networks that webhooks may reach: 10.1.0.0/16,fd00::/8
WEBHOOK_ALLOWED_NETWORKS = env.list("WEBHOOK_ALLOWED_NETWORKS", cast=network, default=[])
#: CA certificates for receivers in these networks, in addition to those of the system
WEBHOOK_CA_FILE = env.str("WEBHOOK_CA_FILE", default="")

# -- observability ------------------------------------------------------------------------------

#: tokens for /metrics, separated by spaces so that they can be rotated; empty disables token access
METRICS_TOKENS = secret("METRICS_TOKEN", "").split()
#: peer addresses that need no token for /metrics: 10.0.0.0/8,127.0.0.1/32; empty for none
METRICS_NETWORKS = env.list("METRICS_NETWORKS", cast=network, default=[])
#: port of the metrics of processes without a web server (actors, sweep); 0 disables it
METRICS_PORT = env.get_value("METRICS_PORT", cast=number(65_535), default=0)
METRICS_ADDRESS = env.str("METRICS_ADDRESS", default="127.0.0.1")
#: after SIGTERM `/readyz` returns 503 for this long before the server exits
DRAIN_S = env.float("DRAIN_S", default=0.0)
#: whether spans are exported; OpenTelemetry's own variables configure the exporter
TRACING = env.str("OTEL_SDK_DISABLED", default="").lower() != "true" and any(
    os.environ.get(f"OTEL_EXPORTER_OTLP_{kind}ENDPOINT") for kind in ("", "TRACES_")
)
#: `logfmt` or `json`
LOG_FORMAT = env.str("LOG_FORMAT", default="logfmt")
LOG_LEVEL = env.str("LOG_LEVEL", default="INFO")
LOGGING_CONFIG = None
configure_logging(LOG_LEVEL, LOG_FORMAT)
