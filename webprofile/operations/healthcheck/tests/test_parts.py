"""Tests of the health checks with broken parts: each message names the cause and a fix."""

import datetime
import gc
import socket
import socketserver
import threading
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import dramatiq
import pytest
from django.core.management import call_command
from django.db import connections
from dramatiq import Worker

from agent.tests.http_sites import serving
from webprofile.observability.tests.parts import redis_layers, redis_server
from webprofile.operations.devserver.layout import free_ports
from webprofile.operations.healthcheck import clock, messages, objects, rows, site, web
from webprofile.operations.healthcheck.examining import Part, examine
from webprofile.operations.healthcheck.finding import good, without_secrets


@pytest.fixture
def closed():
    """Address of a port on which nothing listens."""
    return f"127.0.0.1:{free_ports(1)[0]}"


@pytest.fixture(scope="module")
def http():
    """HTTP server that responds to each request with `answers.answer` (status, headers)."""

    class AnswerHandler(BaseHTTPRequestHandler):
        answer: tuple[int, dict[str, str]] = (200, {})

        def do_GET(self):
            status, headers = self.answer
            self.send_response_only(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_OPTIONS = do_PUT = do_GET

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), AnswerHandler)
    server.answers = AnswerHandler
    server.url = f"http://127.0.0.1:{server.server_port}"
    with serving(server):
        yield server


def as_text(finding):
    return f"{finding.state} {finding.text} {finding.next_step}"


# -- all of them --------------------------------------------------------------------------------


def test_hanging_part_does_not_block_the_others():
    forever = threading.Event()

    def hang():
        forever.wait(30)
        return good("too late")

    parts = [Part("slow", hang, "Wake it."), Part("quick", lambda: good("here"), "")]
    findings = dict(examine(parts, time_limit_s=1))
    forever.set()
    assert as_text(findings["slow"]) == "broken No answer in 1 s. Wake it."
    assert as_text(findings["quick"]) == "ok here "


def test_exception_is_a_finding_with_a_next_step():
    def fail():
        raise ValueError("what it says\nand goes on about")

    assert as_text(dict(examine([Part("odd", fail, "Do this.")]))["odd"]) == (
        "broken what it says Do this."
    )


def test_secrets_in_messages_are_masked(settings):
    settings.DRAMATIQ_BROKER = {"OPTIONS": {"url": "amqp://site:p%40ssword@rabbit:5672/"}}
    settings.EMAIL_HOST_PASSWORD = "letters-and-numbers"
    text = "amqp://site:p%40ssword@rabbit, p@ssword, letters-and-numbers, only-for-tests"
    assert without_secrets(text) == "amqp://site:********@rabbit, ********, ********, ********"


# -- rows ---------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_unopenable_database_is_reported(db, monkeypatch, tmp_path):
    settings_dict = connections["default"].settings_dict
    key = "NAME" if "sqlite" in settings_dict["ENGINE"] else "HOST"
    elsewhere = SimpleNamespace(
        settings_dict=settings_dict | {key: str(tmp_path / "nowhere" / "rows")}
    )
    monkeypatch.setattr(rows, "connections", {"default": elsewhere})
    finding = rows.database()
    assert finding.state == "broken"
    assert "DATABASE_URL" in finding.next_step or "write permission" in finding.next_step


# Python 3.13 warns of the connection that the migration loader leaves to the garbage collector
@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_unapplied_migration_is_reported(transactional_db):
    call_command("migrate", "sessions", "zero", verbosity=0)
    try:
        finding = rows.migrations()
    finally:
        call_command("migrate", "sessions", verbosity=0)
        gc.collect()
    assert "Not applied: sessions." in finding.text
    assert finding.next_step.startswith("Run `manage.py migrate`")
    assert rows.migrations().state == "ok"


# -- messages -----------------------------------------------------------------------------------


def test_working_cache_and_channel_layer_are_ok():
    assert messages.cache_server().state == "ok"
    assert messages.channel_layer().state == "ok"


@pytest.mark.exhaustive
def test_channel_layer_reports_a_dead_redis(settings, tmp_path):
    with redis_server(tmp_path) as (redis_url, server):
        settings.CHANNEL_LAYERS = redis_layers(redis_url)
        assert messages.channel_layer().state == "ok"
        server.kill()
        server.wait(10)
        finding = messages.channel_layer()
    assert finding.text == "No wake-up arrived in 3.5 s."
    assert finding.next_step.startswith("Start Redis")


def test_missing_actors_are_reported(db, monkeypatch):
    parts = [Part("actors", messages.actors, "")]
    with monkeypatch.context() as patch:
        patch.setattr(messages, "patience_s", lambda: 0.1)
        finding = dict(examine(parts, time_limit_s=60))["actors"]
    assert "no process runs, or all are busy" in finding.text
    assert "rundramatiq" in finding.next_step
    broker = dramatiq.get_broker()
    worker = Worker(broker, worker_timeout=10)
    worker.start()
    try:
        finding = dict(examine(parts, time_limit_s=60))["actors"]
        assert as_text(finding) == "ok A test message was answered. "
    finally:
        worker.stop()
        broker.flush_all()


# -- objects ------------------------------------------------------------------------------------


def test_working_storage_is_ok_and_left_empty(storage):
    assert objects.objects().text.startswith("PUT, GET, HEAD and DELETE work at http://127.0.0.1:")
    assert objects.presigned().text.startswith("Presigned PUT and GET work at http://127.0.0.1:")
    assert objects.cross_origin().state == "ok"
    assert [list(page) for page in objects.storage.pages()] in ([], [[]])


def test_missing_bucket_is_reported(storage, settings):
    settings.S3_BUCKET = "nobody-made-it"
    assert as_text(objects.objects()) == (
        f"broken PUT at {settings.S3_ENDPOINT_URL} was refused: NoSuchBucket. "
        "Run `manage.py storage_prepare` to create it, or correct S3_BUCKET."
    )


def test_wrong_secret_is_reported(storage, settings):
    settings.S3_SECRET_ACCESS_KEY = "not-the-one"
    finding = objects.objects()
    sent = objects.presigned()
    assert "SignatureDoesNotMatch" in finding.text
    assert "A presigned PUT" in sent.text
    assert finding.next_step.startswith("Correct S3_SECRET_ACCESS_KEY")


def test_unreachable_storage_is_reported(settings, closed):
    settings.S3_ENDPOINT_URL = f"http://{closed}"
    finding = objects.objects()
    assert f"PUT at http://{closed}" in finding.text
    assert finding.next_step == "Start the storage, or correct S3_ENDPOINT_URL."


def test_public_address_that_is_unreachable_from_here_is_odd(storage, settings, closed):
    settings.S3_PUBLIC_ENDPOINT_URL = f"http://{closed}"
    parts = [Part("public", objects.presigned, "", objects.unreachable)]
    finding = dict(examine(parts))["public"]
    assert as_text(finding).startswith(
        f"warning http://{closed}: the connection was refused. Browsers may still reach it."
    )
    settings.S3_ENDPOINT_URL = f"http://{closed}"
    assert objects.unreachable("It is away.").state == "broken"


@pytest.mark.parametrize(
    ("status", "allowed", "text"),
    [
        (403, {}, "Uploads from http://127.0.0.1:8000 are not allowed"),
        (200, {"Origin": "https://other.example"}, "Uploads from http://127.0.0.1:8000 are not"),
        (
            200,
            {"Origin": "*", "Methods": "GET"},
            "PUT from http://127.0.0.1:8000 is not allowed, only GET",
        ),
        (
            200,
            {"Origin": "*", "Methods": "GET, PUT", "Headers": "content-md5, x-amz-meta-md5"},
            "not allowed: x-amz-server-side-encryption.",
        ),
    ],
)
def test_cors_rules_that_block_uploads_are_reported(settings, http, status, allowed, text):
    settings.S3_PUBLIC_ENDPOINT_URL = http.url
    settings.S3_ENCRYPTION = "aws:kms"
    headers = {f"Access-Control-Allow-{name}": value for name, value in allowed.items()}
    http.answers.answer = (status, headers)
    finding = objects.cross_origin()
    assert text in finding.text
    assert "CORS rules" in finding.next_step


# -- mail ---------------------------------------------------------------------------------------


class SmtpHandler(socketserver.StreamRequestHandler):
    """Minimal SMTP server that refuses the sender `stranger@` and every login."""

    answers = {b"EHLO": b"250-here\r\n250 AUTH PLAIN", b"AUTH": b"535 no", b"QUIT": b"221 bye"}

    def handle(self):
        self.wfile.write(b"220 here\r\n")
        for line in self.rfile:
            command = line.split(b" ")[0].strip().upper()
            answer = self.answers.get(command, b"250 fine")
            self.wfile.write((b"550 not yours" if b"stranger@" in line else answer) + b"\r\n")
            if command == b"QUIT":
                return


@pytest.fixture
def smtp_server(settings):
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), SmtpHandler)
    settings.HAS_MAIL_SERVER = True
    settings.EMAIL_HOST, settings.EMAIL_PORT = server.server_address
    settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
    settings.EMAIL_HOST_USER = settings.EMAIL_HOST_PASSWORD = ""
    with serving(server):
        yield


def test_accepted_sender_is_ok(smtp_server, settings):
    settings.DEFAULT_FROM_EMAIL = "site@example.org"
    assert messages.mail().text.endswith("accepts mail from site@example.org.")


def test_refused_sender_and_login_are_reported(smtp_server, settings):
    settings.DEFAULT_FROM_EMAIL = "stranger@example.org"
    assert as_text(messages.mail()) == (
        "broken The server does not accept mail from stranger@example.org (550). not yours "
        "Set DEFAULT_FROM_EMAIL to an address that the server accepts."
    )
    settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "site", "wrong"
    assert as_text(messages.mail()) == (
        "broken The login was rejected (535). Correct the user and the password in EMAIL_URL."
    )


def test_missing_mail_server_is_odd():
    finding = messages.mail()
    assert (finding.state, "EMAIL_URL" in finding.next_step) == ("warning", True)


# -- clock --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ahead_s", "state", "text"),
    [
        (0, "ok", "It agrees with storage"),
        (-20, "warning", "ahead of storage."),
        (90, "broken", "behind storage: machines whose clocks differ so much end each other's"),
        (600, "broken", "behind storage: presigned URLs are valid for only"),
        (3600, "broken", "behind storage: storage rejects all signatures"),
    ],
)
def test_clock_offset_is_reported_with_its_effect(
    settings, http, monkeypatch, ahead_s, state, text
):
    monkeypatch.setattr(clock, "database_clock", lambda: None)
    settings.S3_ENDPOINT_URL = http.url
    server_time = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=ahead_s)
    http.answers.answer = (200, {"Date": format_datetime(server_time, usegmt=True)})
    finding = clock.clock()
    assert finding.state == state
    assert text in finding.text


# -- the site -----------------------------------------------------------------------------------


def test_wrong_site_address_is_reported(settings, http, closed):
    settings.SITE_URL = http.url
    http.answers.answer = (301, {"Location": f"{http.url}/healthz"})
    assert site.address().next_step == "The proxy must set X-Forwarded-Proto: https."
    http.answers.answer = (302, {"Location": "https://profile.example.org/"})
    assert "redirects to https://profile.example.org/" in site.address().text
    http.answers.answer = (400, {})
    assert "ALLOWED_HOSTS" in site.address().next_step
    http.answers.answer = (200, {"X-Site-Mark": "0" * 64})
    assert "another SECRET_KEY" in site.address().text
    http.answers.answer = (502, {})
    assert "returned 502" in site.address().text
    settings.SITE_URL = f"http://{closed}"
    finding = dict(examine([Part("address", site.address, site.ADDRESS_STEP)]))["address"]
    assert as_text(finding) == (
        f"broken http://{closed}: the connection was refused. "
        "Start the web server, or correct SITE_URL."
    )


def test_proxy_without_websockets_is_reported(settings, http):
    settings.SITE_URL = http.url
    http.answers.answer = (404, {})
    finding = site.sockets()
    assert "does not accept WebSockets" in finding.text
    assert "Upgrade" in finding.next_step


def test_site_recognises_itself(live_server, settings):
    settings.SITE_URL = live_server.url
    finding = dict(examine([Part("address", site.address, "")], time_limit_s=60))["address"]
    assert as_text(finding) == f"ok {live_server.url} leads to this site. "


def test_missing_static_files_are_reported(settings, tmp_path):
    assert site.static_files().text == "Files are served from their sources."
    settings.STATIC_ROOT = str(tmp_path)
    settings.STORAGES = settings.STORAGES | {
        "staticfiles": {"BACKEND": "webprofile.staticstorage.ManifestStorage"}
    }
    finding = site.static_files()
    assert "No files are collected" in finding.text
    assert "collectstatic" in finding.next_step


def test_missing_or_damaged_agent_is_reported(settings, tmp_path):
    settings.AGENT_FOLDER = str(tmp_path)
    finding = site.agent_files()
    assert "There is no agent" in finding.text
    (tmp_path / "manifest.json").write_text(
        '{"version": "1+a", "wheel": {"name": "w.whl"},'
        ' "files": {"linux": {"name": "a.pyz", "sha256": "0", "size_bytes": 3}}}'
    )
    assert "a.pyz is missing or damaged" in site.agent_files().text
    (tmp_path / "a.pyz").write_bytes(b"abc")
    assert site.agent_files().text == "Devices can install version 1+a, for 1 kind of device."


def test_unreadable_agent_is_not_reported_as_missing(settings, tmp_path):
    settings.AGENT_FOLDER = str(tmp_path)
    # unreadable for root, too, which may run the tests
    (tmp_path / "manifest.json").mkdir()
    finding = site.agent_files()
    assert finding.text == f"{tmp_path}/manifest.json: Is a directory."
    assert "Give the system user of the site read permission" in finding.next_step


def test_silent_server_is_not_waited_for(settings, monkeypatch):
    monkeypatch.setattr(web, "patience_s", lambda: 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings.SITE_URL = f"http://127.0.0.1:{silent.getsockname()[1]}"
        parts = [Part("address", site.address, site.ADDRESS_STEP)]
        assert "does not answer in time." in dict(examine(parts, time_limit_s=60))["address"].text
