"""`manage.py sweep`: every five seconds, enforce deadlines and repeat lost messages."""

import datetime
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import structlog
from django.core.management.base import BaseCommand, CommandParser
from django.db import close_old_connections
from django.utils import timezone

from accounts.webhooks.deliveries import sweep_deliveries
from profiles.health import run_health_checks
from profiles.imports.processing import sweep_imports
from profiles.parts import sweep_parts
from profiles.readings import sweep_readings
from profiles.retention.deletion import sweep_removed_files
from profiles.retention.policy import retention_sweep
from profiles.services import purge_abandoned_uploads, remove_uploads
from tasks.lifecycle.sweep import AWAY, is_coming_back, sweep
from webprofile.observability.counters import SWEEP_FAILURES, SWEEP_LAST, SWEEP_SECONDS
from webprofile.observability.exposition import serve
from workers.heartbeats import notify_lost_devices

log = structlog.get_logger()

INTERVAL_S = 5.0


class Rounds:
    """Runs rounds of the sweep, and records since when they run without a pause.

    While the sweep or the database was down, no heartbeat was stored; devices that were silent
    during that time get a chance to reconnect before they count as lost.
    """

    def __init__(self, began_at: datetime.datetime | None) -> None:
        """began_at: start of the rounds; None grants no time to reconnect"""
        self.began_at = began_at
        self._done_at = timezone.now()

    def round(self) -> list[Exception]:
        """Run all steps of one round, even if some of them fail; return their errors."""
        now = timezone.now()
        if self.began_at is not None and now > self._done_at + AWAY:
            self.began_at = now
        failed: list[Exception] = []
        for step in self.steps():
            try:
                step()
            except Exception as error:  # a failed step must not end the round or the loop
                SWEEP_FAILURES.inc()
                log.exception("sweep_failed", step=repr(step))
                failed.append(error)
            else:
                # after any successful step: storage may be down for hours while the database works
                self._done_at = timezone.now()
        return failed

    def steps(self) -> Iterator[Callable[[], object]]:
        yield partial(sweep, self.began_at)
        yield purge_abandoned_uploads
        yield remove_uploads
        yield sweep_imports
        yield sweep_readings
        yield run_health_checks
        yield retention_sweep
        yield sweep_removed_files
        yield sweep_parts
        if not is_coming_back(self.began_at, timezone.now()):
            yield notify_lost_devices
        yield sweep_deliveries


class Command(BaseCommand):
    help = "End what is overdue and repeat lost messages, every five seconds until stopped."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="run one round and exit")
        parser.add_argument("--alive", metavar="FILE", type=Path, help="touched after each round")

    def handle(self, *args: Any, **options: Any) -> None:
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        rounds = Rounds(None if options["once"] else timezone.now())
        if not options["once"]:
            serve()
        while True:
            with SWEEP_SECONDS.time():
                failed = rounds.round()
            if not failed:
                SWEEP_LAST.set_to_current_time()
            elif options["once"]:
                raise failed[0]
            if options["alive"]:
                options["alive"].touch()
            if options["once"]:
                return
            close_old_connections()
            if stop.wait(INTERVAL_S):
                return
