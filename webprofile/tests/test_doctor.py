"""Tests of `manage.py doctor` with a healthy site and with each part broken."""

import hashlib
import json

import psycopg
import pytest

from webprofile.operations.devserver.layout import free_ports
from webprofile.tests.cluster import Cluster, fresh_database

pytestmark = pytest.mark.production


@pytest.fixture
def closed() -> str:
    return f"127.0.0.1:{free_ports(1)[0]}"


def examined(
    cluster: Cluster, *, limit_s: int = 10, **environment: str
) -> tuple[int, dict[str, str], str]:
    """Exit code, what is said of each part, and all that is printed.

    limit_s: how long a part may take; the pool of a database that is away takes all of it
    """
    folder = cluster.folder / "agent-files"
    folder.mkdir(exist_ok=True)
    (folder / "a.pyz").write_bytes(b"abc")
    listed = {"linux": {"name": "a.pyz", "sha256": hashlib.sha256(b"abc").hexdigest()}}
    listed["linux"]["size_bytes"] = 3
    (folder / "manifest.json").write_text(
        json.dumps({"version": "1.0", "wheel": {"name": "a.whl"}, "files": listed})
    )
    words = ("doctor", "--json", "--time-limit-s", str(limit_s))
    done = cluster.try_manage(*words, AGENT_FOLDER=str(folder), **environment)
    rows = json.loads(done.stdout)["parts"]
    texts = {row["part"]: f"{row['state']}: {row['text']} {row['next_step']}" for row in rows}
    return done.returncode, texts, done.stdout + done.stderr


def test_of_a_site_that_is_well_every_line_says_so(cluster):
    code, texts, _ = examined(cluster, limit_s=30)
    assert {part for part, text in texts.items() if not text.startswith("ok: ")} == {"mail"}
    assert texts["mail"].startswith("odd: Letters go nowhere")
    assert code == 0
    lines = cluster.try_manage("doctor", "--time-limit-s", "30").stdout.splitlines()
    assert len(lines) == len(texts)
    assert lines[0].startswith("ok      database")


def test_each_part_that_is_away_has_its_own_words_and_no_secret(cluster, closed):
    code, texts, printed = examined(
        cluster,
        DATABASE_URL=f"postgres://site:hidden-database@{closed}/rows",
        REDIS_URL=f"redis://site:hidden-redis@{closed}/0",
        BROKER_URL=f"amqp://site:hidden-broker@{closed}/%2F",
        S3_ENDPOINT_URL=f"http://{closed}",
        S3_PUBLIC_ENDPOINT_URL=f"http://{closed}",
        EMAIL_URL=f"smtp://site:hidden-mail@{closed}",
        SITE_URL=f"http://{closed}",
    )
    assert code == 1
    whole = {"clock", "static files", "agent"}
    assert {part for part, text in texts.items() if not text.startswith("broken: ")} == whole
    assert texts["database"].startswith("broken: postgresql at 127.0.0.1: connection failed")
    assert "Start the database, or correct host and port" in texts["database"]
    assert "correct BROKER_URL" in texts["broker"]
    assert "correct REDIS_URL" in texts["channel layer"]
    assert "correct REDIS_URL" in texts["cache"]
    assert "correct S3_ENDPOINT_URL" in texts["storage"]
    assert "nothing listens there" in texts["public storage"]
    assert "correct EMAIL_URL" in texts["mail"]
    assert "nothing listens there" in texts["address"]
    assert "hidden" not in printed
    assert cluster.site.keys.secret_key not in printed


def test_each_part_that_is_another_one_has_its_own_words(cluster):
    code, texts, _ = examined(
        cluster,
        DATABASE_URL=fresh_database(),
        S3_BUCKET="nobody-made-it",
        SECRET_KEY="of-another-site-than-the-one-that-answers-there",
    )
    assert code == 1
    assert "answers and is empty. Run `manage.py migrate`." in texts["database"]
    assert "Not applied: " in texts["migrations"]
    assert "NoSuchBucket" in texts["storage"]
    assert "another SECRET_KEY" in texts["address"]


def test_a_user_who_may_not_write_and_a_wrong_database_are_named(cluster):
    address = cluster.environment["DATABASE_URL"]
    with psycopg.connect(address, autocommit=True) as admin:
        admin.execute("CREATE ROLE reader LOGIN")
        admin.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    reader = address.replace("postgresql://postgres", "postgresql://reader")
    text = examined(cluster, DATABASE_URL=reader)[1]["database"]
    assert "Give the site's user all rights" in text
    texts = examined(cluster, DATABASE_URL=address.replace("/cluster_", "/no_cluster_"))[1]
    assert "Create it, or correct its name" in texts["database"]
