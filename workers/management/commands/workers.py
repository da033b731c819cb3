"""`manage.py workers`: list, enrol and change devices."""

import json
from typing import Any

from django.core.management.base import CommandError, CommandParser

from tasks.scheduling.queue_depth import Load, loads_of
from webprofile.admin.worker_actions import WORKER_ACTIONS
from webprofile.management.actions import add_action_verbs, run_action
from webprofile.management.bulk import PlainCommand, confirm, explain_command
from webprofile.terminal.exit_codes import USAGE
from webprofile.terminal.output import table
from workers import services
from workers.heartbeats import heartbeat_status
from workers.models import Worker
from workers.releases import enrolment_commands
from workers.status import status_of, with_shut_out_at

FIELDS = ("device", "heartbeat", "state", "public", "versions", "agent", "waiting", "live")
_EXAMPLES = {
    "list": "workers list --json",
    "enrol": "workers enrol pi-4 --public",
    "drain": "workers drain x86-1 pi-4",
    "allow-scripts": "workers allow-scripts x86-1",
    "retire": "workers retire pi-4 --yes",
}


class Command(PlainCommand):
    """Changes are audited without an actor, because the command runs on the server."""

    help = (
        "List, enrol, drain, resume, check, publish, hide, revoke and retire devices, and allow or "
        "forbid scripts on them."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        explain_command(parser, *_EXAMPLES.values())
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        listing = verbs.add_parser("list", help="print devices")
        explain_command(listing, _EXAMPLES["list"], text="print devices")
        listing.add_argument("--retired", action="store_true", help="include retired devices")
        listing.add_argument("--json", action="store_true", help="one JSON object per line")
        enrol = verbs.add_parser("enrol", help="print the line to run on a device")
        explain_command(enrol, _EXAMPLES["enrol"], text="print the line to run on a device")
        enrol.add_argument("name", metavar="DEVICE", help="a new name is registered")
        enrol.add_argument("--public", action="store_true", help="make a new device public")
        ways = ("curl", "pipx", "clone")
        enrol.add_argument("--with", dest="way", choices=ways, default="curl", help="default: curl")
        example = "workers {verb} x86-1 pi-4"
        self.actions = add_action_verbs(verbs, WORKER_ACTIONS, metavar="DEVICE", example=example)

    def handle(self, *args: Any, **options: Any) -> None:
        verb = options["verb"]
        if verb == "list":
            self._list(options)
        elif verb == "enrol":
            self._enrol(options)
        else:
            workers = [_find_worker(name) for name in options["names"]]
            if self.actions[verb].is_final:
                confirm(f"{verb.capitalize()} {', '.join(options['names'])}?", options)
            run_action(self.actions[verb], workers, self.stdout)

    def _enrol(self, options: dict[str, Any]) -> None:
        """Print the command to run on a device. It contains the enrolment code, which is a secret
        that is valid once and for a day, so it goes only to standard output.
        """
        name = options["name"]
        worker = Worker.objects.filter(name=name, retired_at=None).first()
        if worker is None:
            worker = services.register_worker(name=name, by=None, is_public=options["public"])
        elif options["public"]:
            raise CommandError(
                f"{name} is already registered; use “publish” to make it public.", returncode=USAGE
            )
        line = enrolment_commands(services.enrol_worker(worker, by=None))[options["way"]]
        if not line:
            raise CommandError("This site has no agent to download: use --with clone.")
        self.stdout.write(line)

    def _list(self, options: dict[str, Any]) -> None:
        workers = Worker.objects.order_by("name").prefetch_related("runtimes")
        if not options["retired"]:
            workers = workers.filter(retired_at=None)
        workers = with_shut_out_at(workers)
        loads = loads_of(workers)
        rows = (_row(worker, loads[worker.pk]) for worker in workers)
        if options["json"]:
            for row in rows:
                self.stdout.write(json.dumps(row))
        else:
            self.stdout.write(table([list(row.values()) for row in rows], FIELDS))


def _find_worker(name: str) -> Worker:
    """Return the worker with this name. Raises CommandError if there is none."""
    worker = Worker.objects.filter(name=name).first()
    if worker is None:
        raise CommandError(f"Device {name} does not exist.", returncode=USAGE)
    return worker


def _row(worker: Worker, load: Load) -> dict[str, Any]:
    versions = [r.version + (" (broken)" if r.problem else "") for r in worker.runtimes.all()]
    values = (
        worker.name,
        heartbeat_status(worker).value,
        status_of(worker, is_busy=load.live > 0).value,
        worker.is_public,
        ", ".join(versions),
        worker.agent_version,
        load.waiting,
        load.live,
    )
    return dict(zip(FIELDS, values, strict=True))
