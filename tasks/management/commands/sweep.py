"""`manage.py sweep`: finds every five seconds what deadlines and lost hints left behind."""

import signal
import threading
from typing import Any

import structlog
from django.core.management.base import BaseCommand, CommandParser
from django.db import close_old_connections

from profiles.health import health_round
from profiles.opened.sweeping import opened_sweep
from profiles.removal import removed_sweep
from profiles.services import abandoned_uploads_purge
from tasks.sweeping import sweep

log = structlog.get_logger()

INTERVAL_S = 5.0


class Command(BaseCommand):
    help = "Ends what is overdue and repeats lost hints, every five seconds until stopped."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="One round, then stop.")

    def handle(self, *args: Any, **options: Any) -> None:
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        while True:
            try:
                sweep()
                abandoned_uploads_purge()
                opened_sweep()
                health_round()
                removed_sweep()
            except Exception:  # one bad round must not end the loop
                log.exception("sweep_failed")
                if options["once"]:
                    raise
            close_old_connections()
            if options["once"] or stop.wait(INTERVAL_S):
                return
