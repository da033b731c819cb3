"""Tests of `manage.py doctor` with a healthy site and with each part broken."""

import hashlib
import json

import psycopg
import pytest

from webprofile.operations.devserver.layout import free_ports
from webprofile.tests.cluster import Cluster, fresh_database

pytestmark = pytest.mark.production


@pytest.fixture
def closed_address() -> str:
    """Address on which nothing listens."""
    return f"127.0.0.1:{free_ports(1)[0]}"


def run_doctor(
    cluster: Cluster, *, limit_s: int = 10, **environment: str
) -> tuple[int, dict[str, str], str]:
    """Return the exit code, the message for each part, and the output.

    limit_s: time limit for each part, which an unreachable database uses up
    """
    folder = cluster.folder / "agent-files"
    folder.mkdir(exist_ok=True)
    (folder / "a.pyz").write_bytes(b"abc")
    listed = {"linux": {"name": "a.pyz", "sha256": hashlib.sha256(b"abc").hexdigest()}}
    listed["linux"]["size_bytes"] = 3
    (folder / "manifest.json").write_text(
        json.dumps({"version": "1.0", "wheel": {"name": "a.whl"}, "files": listed})
    )
    arguments = ("doctor", "--json", "--time-limit-s", str(limit_s))
    result = cluster.try_manage(*arguments, AGENT_FOLDER=str(folder), **environment)
    rows = json.loads(result.stdout)["parts"]
    texts = {row["part"]: f"{row['state']}: {row['text']} {row['next_step']}" for row in rows}
    return result.returncode, texts, result.stdout + result.stderr


def test_doctor_finds_no_fault_in_a_healthy_site(cluster):
    code, texts, _ = run_doctor(cluster, limit_s=30)
    assert {part for part, text in texts.items() if not text.startswith("ok: ")} == {"mail"}
    assert texts["mail"].startswith("warning: No mail server is set")
    assert code == 0
    lines = cluster.try_manage("doctor", "--time-limit-s", "30").stdout.splitlines()
    assert len(lines) == len(texts)
    assert lines[0].startswith("ok      database")


def test_doctor_reports_unreachable_parts_without_secrets(cluster, closed_address):
    code, texts, printed = run_doctor(
        cluster,
        DATABASE_URL=f"postgres://site:hidden-database@{closed_address}/rows",
        REDIS_URL=f"redis://site:hidden-redis@{closed_address}/0",
        BROKER_URL=f"amqp://site:hidden-broker@{closed_address}/%2F",
        S3_ENDPOINT_URL=f"http://{closed_address}",
        S3_PUBLIC_ENDPOINT_URL=f"http://{closed_address}",
        EMAIL_URL=f"smtp://site:hidden-mail@{closed_address}",
        SITE_URL=f"http://{closed_address}",
    )
    assert code == 1
    healthy = {"clock", "static files", "agent"}
    assert {part for part, text in texts.items() if not text.startswith("broken: ")} == healthy
    assert texts["database"].startswith("broken: postgresql at 127.0.0.1: connection failed")
    assert "Start the database, or correct host and port" in texts["database"]
    assert "correct BROKER_URL" in texts["broker"]
    assert "correct REDIS_URL" in texts["channel layer"]
    assert "correct REDIS_URL" in texts["cache"]
    assert "correct S3_ENDPOINT_URL" in texts["storage"]
    assert "the connection was refused" in texts["public storage"]
    assert "correct EMAIL_URL" in texts["mail"]
    assert "the connection was refused" in texts["address"]
    assert "hidden" not in printed
    assert cluster.site.keys.secret_key not in printed


def test_doctor_reports_parts_of_another_site(cluster):
    code, texts, _ = run_doctor(
        cluster,
        DATABASE_URL=fresh_database(),
        S3_BUCKET="nobody-made-it",
        SECRET_KEY="of-another-site-than-the-one-that-answers-there",
    )
    assert code == 1
    assert "answers, but it is empty. Run `manage.py migrate`." in texts["database"]
    assert "Not applied: " in texts["migrations"]
    assert "NoSuchBucket" in texts["storage"]
    assert "another SECRET_KEY" in texts["address"]


def test_doctor_reports_a_read_only_role_and_a_missing_database(cluster):
    address = cluster.environment["DATABASE_URL"]
    with psycopg.connect(address, autocommit=True) as admin:
        admin.execute("CREATE ROLE reader LOGIN")
        admin.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    reader = address.replace("postgresql://postgres", "postgresql://reader")
    text = run_doctor(cluster, DATABASE_URL=reader)[1]["database"]
    assert "Grant the database user of the site all privileges" in text
    texts = run_doctor(cluster, DATABASE_URL=address.replace("/cluster_", "/no_cluster_"))[1]
    assert "Create it, or correct its name" in texts["database"]
