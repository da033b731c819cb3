"""Tests of docker/backup with programs that pretend to read database and object storage.

test_site.py makes and restores a backup of a real site.
"""

import functools
import os
import subprocess

import environ
import pytest

from webprofile.tests.deployment.environment_names import ROOT

#: object storage is the folder $BUCKET
_PROGRAMS = {
    "rclone": """case $1 in
copy) case $2 in
    store:*) cp -r "$BUCKET/." "$3" ;;
    *) (cd "$2" && xargs cp --parents --no-clobber -t "$BUCKET") <"$5" ;;
    esac ;;
lsf) cd "$BUCKET" && find . -type f -printf '%P\\n' ;;
esac""",
    "pg_dump": 'for word; do case $word in --file=*) echo rows >"${word#--file=}" ;; esac; done',
    "pg_restore": "echo contents",
    "psql": "echo 0",
}


@pytest.fixture
def run(tmp_path):
    """A function that runs a script of docker/backup, with backups in `backups`."""
    for name, script in _PROGRAMS.items():
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    (tmp_path / "bucket" / "tasks").mkdir(parents=True)
    (tmp_path / "bucket" / "tasks" / "model.mge").write_text("model")

    def run(script: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
            "BUCKET": str(tmp_path / "bucket"),
            "BACKUP_FOLDER": str(tmp_path / "backups"),
            "DATABASE_URL": "postgres://site@rows.example.org/site",
            "S3_ENDPOINT_URL": "https://files.example.org",
        }
        return subprocess.run(
            [ROOT / "docker" / "backup" / script, *arguments],
            env=environment | more,
            capture_output=True,
            text=True,
        )

    return run


@pytest.fixture
def back_up(run):
    """A function that makes a backup and returns the ended process."""
    return functools.partial(run, "backup.sh")


def test_backup_removes_what_a_killed_one_left(back_up, tmp_path):
    left = tmp_path / "backups" / ".20260101T000000Z"
    left.mkdir(parents=True)
    (left / "rows.dump").write_text("half of the rows")
    result = back_up()
    assert result.returncode == 0, result.stderr
    names = {path.name for path in (tmp_path / "backups").iterdir()}
    assert names == {result.stdout.strip().rpartition("/")[2], "objects", ".lock"}
    assert (tmp_path / "backups" / "objects" / "tasks" / "model.mge").read_text() == "model"


@pytest.mark.parametrize("keep", ["0", "-1", "all"])
def test_backup_refuses_to_keep_no_backup(back_up, tmp_path, keep):
    made = back_up().stdout.strip()
    result = back_up(BACKUP_KEEP=keep)
    assert result.returncode == 1
    assert "BACKUP_KEEP" in result.stderr
    assert (tmp_path / "backups" / made / "rows.dump").is_file()


def test_interrupted_restore_is_completed_by_the_next_one(run, back_up, tmp_path):
    tasks = tmp_path / "bucket" / "tasks"
    (tasks / "data.npy").write_text("data")
    backup = back_up().stdout.strip()
    (tasks / "model.mge").unlink()
    (tasks / "other.npy").write_text("of another site")
    refused = run("restore.sh", backup)
    assert (refused.returncode, "tasks/other.npy" in refused.stderr) == (1, True)
    assert not (tasks / "model.mge").exists()
    (tasks / "other.npy").unlink()
    result = run("restore.sh", backup)
    assert result.returncode == 0, result.stderr
    assert "Restored." in result.stdout
    assert (tasks / "model.mge").read_text() == "model"


@pytest.mark.parametrize(
    ("url", "variables"),
    [
        ("postgres://me:s%40cret@[fd00::1]:5433/site", {"PASSWORD": "s@cret", "HOST": "fd00::1"}),
        ("postgres://me@[::1]/site", {"HOST": "::1", "PORT": "5432", "DATABASE": "site"}),
        (r"postgres://me:a\tb\\c@rows/site", {"PASSWORD": r"a\tb\\c", "HOST": "rows"}),
        ("postgres://me:100%@x%20y%@rows/site", {"PASSWORD": "100%@x y%", "USER": "me"}),
        (
            "postgres://me@rows/site?sslmode=verify-full&sslrootcert=%2Fetc/ca.crt",
            {"SSLMODE": "verify-full", "SSLROOTCERT": "/etc/ca.crt"},
        ),
    ],
)
def test_address_of_the_database_is_read_as_the_site_reads_it(url, variables):
    program = f". {ROOT}/docker/backup/parts.sh; use_database; env -0"
    result = subprocess.run(
        ["bash", "-ec", program], env=os.environ | {"DATABASE_URL": url}, capture_output=True
    )
    assert result.returncode == 0, result.stderr
    read = dict(pair.split("=", 1) for pair in result.stdout.decode().rstrip("\0").split("\0"))
    assert {name: read.get(f"PG{name}") for name in variables} == variables
    config = environ.Env.db_url_config(url)
    for name in variables.keys() & config.keys():
        assert variables[name] == str(config[name] or 5432)
